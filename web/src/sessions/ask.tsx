// Owns the small dialogs of the list: a name, a tag, until when to put off.
import { For, Match, Switch, createSignal, onMount } from 'solid-js';
import { lobby, sessions } from '../lobby/lobby';
import { Layer } from '../parts/layer';
import { many } from '../parts/time';
import { asking, rename, setAsking, snooze, tag, type Asking } from './actions';

const whose = (ids: string[]) => (ids.length === 1 ? '' : ` of ${many(ids.length, 'session')}`);

/** The dialog that is open. */
export default function AskDialog() {
  const close = () => setAsking(null);
  return (
    <Switch>
      <Match when={asking()?.kind === 'rename' && asking()}>{(one) => (
        <Layer title={`Name${whose(one().ids)}`} onClose={close}><Name asked={one()} first={lobby.byId[one().ids[0] ?? '']?.title ?? ''} send={rename} word="Rename" /></Layer>
      )}</Match>
      <Match when={asking()?.kind === 'tag' && asking()}>{(one) => (
        <Layer title={`Tag${whose(one().ids)}`} onClose={close}><Name asked={one()} first={lobby.byId[one().ids[0] ?? '']?.tag ?? ''} send={tag} word="Tag" offers={tags()} /></Layer>
      )}</Match>
      <Match when={asking()?.kind === 'snooze' && asking()}>{(one) => (
        <Layer title={`Snooze${whose(one().ids)}`} onClose={close}>
          <p class="quiet">A new reason comes through before. Decisions stay counted.</p>
          <div class="snooze-times">
            <For each={times()}>{(time) => <button type="button" onClick={() => { void snooze(one().ids, time.until); close(); }}>{time.word}</button>}</For>
          </div>
        </Layer>
      )}</Match>
    </Switch>
  );
}

function Name(props: { asked: Asking; first: string; word: string; offers?: string[]; send: (ids: string[], text: string) => Promise<boolean> }) {
  const [text, setText] = createSignal(props.first);
  let field: HTMLInputElement | undefined;
  onMount(() => setTimeout(() => field?.select()));
  const send = (value: string) => {
    void props.send(props.asked.ids, value);
    setAsking(null);
  };
  return (
    <form class="ask" onSubmit={(event) => { event.preventDefault(); send(text()); }}>
      <div class="with-button">
        <input ref={field} aria-label={props.word} maxlength={200} value={text()} onInput={(event) => setText(event.currentTarget.value)} />
        <button class="primary">{text().trim() === '' && props.first !== '' ? 'Take away' : props.word}</button>
      </div>
      <div class="offers"><For each={props.offers?.filter((one) => one !== props.first)}>{(one) => <button type="button" onClick={() => send(one)}>{one}</button>}</For></div>
    </form>
  );
}

/** Tags that other sessions have. */
const tags = (): string[] => [...new Set(sessions().flatMap((one) => (one.tag ? [one.tag] : [])))].sort().slice(0, 20);

/** Times until which people put things off. */
function times(): { word: string; until: Date }[] {
  const minutes = (n: number) => new Date(Date.now() + n * 60_000);
  const morning = new Date();
  morning.setDate(morning.getDate() + 1);
  morning.setHours(8, 0, 0, 0);
  return [{ word: '30 minutes', until: minutes(30) }, { word: '2 hours', until: minutes(120) }, { word: 'Tomorrow at 8', until: morning }, { word: 'A week', until: minutes(7 * 1440) }];
}
