// Owns the log of messages (`g l`): what the page said after the person did something.
import { For, Show } from 'solid-js';
import { SafeText } from '../text/safe';
import { Layer } from '../parts/layer';
import { ago, exact } from '../parts/time';
import { toastLog } from '../parts/toasts';

/** The log, newest first. */
export default function MessageLog(props: { onClose: () => void }) {
  return (
    <Layer title="Messages of this page" onClose={props.onClose} kind="wide">
      <Show when={toastLog().length > 0} fallback={<p class="quiet">Nothing was said yet.</p>}>
        <ul class="message-log">
          <For each={toastLog()}>{(one) => (
            <li><time class="faint figures" datetime={new Date(one.at).toISOString()} title={exact(one.at)}>{ago(one.at)}</time>
              <span><Show when={one.isProblem}><b>Problem: </b></Show><SafeText text={one.text} /></span></li>
          )}</For>
        </ul>
      </Show>
    </Layer>
  );
}
