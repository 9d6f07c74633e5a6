// Owns pictures of a record: drawn from the data that the record holds, never fetched, and on a tap where data is dear.
import { For, Show, createSignal } from 'solid-js';
import type { Picture } from '../../fold/model';
import { savesData } from '../../live/saver';

/** More pixels than these are not drawn unasked. */
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
  const [isShown, setShown] = createSignal(!savesData() && bytes() < MOST_BYTES);
  return (
    <Show when={isShown()} fallback={<button onClick={() => setShown(true)}>Show a picture of {Math.ceil(bytes() / 1000).toLocaleString()} kB</button>}>
      <img src={`data:${props.picture.mediaType};base64,${props.picture.base64}`} alt={props.name} loading="lazy" />
    </Show>
  );
}
