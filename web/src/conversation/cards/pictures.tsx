// Owns pictures of a record: drawn from the data that the record holds, never fetched, and on a tap where data is dear or the picture is large.
import { For, Show, createSignal } from 'solid-js';
import type { Picture } from '../../fold/model';
import { savesData } from '../../live/saver';
import { pixelsOf } from './pixels';

/** More pixels than these are not drawn unasked, nor more bytes where the pixels are not known. */
const MOST_PIXELS = 8_000_000;
const MOST_BYTES = 4_000_000;

/** Pictures, one after the other. */
export function Pictures(props: { pictures: Picture[] }) {
  return (
    <Show when={props.pictures.length > 0}>
      <div class="pictures"><For each={props.pictures}>{(picture, index) => <One picture={picture} name={`Picture ${index() + 1}`} />}</For></div>
    </Show>
  );
}

function One(props: { picture: Picture; name: string }) {
  const bytes = () => props.picture.base64.length * 0.75;
  const pixels = pixelsOf(props.picture.base64);
  const isLarge = pixels === null ? bytes() > MOST_BYTES : pixels > MOST_PIXELS;
  const [isShown, setShown] = createSignal(!savesData() && !isLarge);
  const size = () => `${Math.ceil(bytes() / 1000).toLocaleString()} kB${isLarge && pixels !== null ? ` and ${(Math.ceil(pixels / 100_000) / 10).toLocaleString()} megapixels` : ''}`;
  return (
    <Show when={isShown()} fallback={<button onClick={() => setShown(true)}>Show a picture of {size()}</button>}>
      <img src={`data:${props.picture.mediaType};base64,${props.picture.base64}`} alt={props.name} loading="lazy" />
    </Show>
  );
}
