// Owns which notices a person wants from this browser.
import { Show } from 'solid-js';
import { askForNotices, permission } from '../parts/bell';
import { choices, choose } from '../parts/choices';

const HOURS = Array.from({ length: 24 }, (_, hour) => hour);

/** The part "Notices". */
export function Notices() {
  const turnOn = async (wanted: boolean) => choose({ notices: wanted && (permission() === 'granted' || (await askForNotices())) });
  const hour = (which: 0 | 1, value: number) => {
    const quiet: [number, number] = [...(choices().quiet ?? [22, 7])];
    quiet[which] = value;
    choose({ quiet });
  };
  return (
    <div class="choices">
      <Show when={!isSecureContext}>
        <p class="problem">Browsers show no notices and install no page for an address that is plain HTTP, other than this machine's own. Put HTTPS before the daemon to have both.</p>
      </Show>
      <Show when={permission() === 'denied'}><p class="problem">This browser was told to show no notices of this page. Its settings for this address can change that.</p></Show>
      <label><input type="checkbox" checked={choices().notices && permission() === 'granted'} disabled={permission() === 'denied' || permission() === 'missing'}
        onChange={(event) => void turnOn(event.currentTarget.checked)} /> Tell me when a session needs me, while the page is open</label>
      <label><input type="checkbox" checked={choices().noticeDone} onChange={(event) => choose({ noticeDone: event.currentTarget.checked })} /> Also when a turn has ended, of every session; the menu of a conversation has it for that one alone</label>
      <label><input type="checkbox" checked={choices().noticeContent} onChange={(event) => choose({ noticeContent: event.currentTarget.checked })} /> Say what is asked, which others may read on a locked screen</label>
      <label><input type="checkbox" checked={choices().sound} onChange={(event) => choose({ sound: event.currentTarget.checked })} /> With a sound</label>
      <label><input type="checkbox" checked={choices().quiet !== null} onChange={(event) => choose({ quiet: event.currentTarget.checked ? [22, 7] : null })} /> Quiet hours</label>
      <Show when={choices().quiet}>{(quiet) => (
        <p>From <select aria-label="Quiet from" value={String(quiet()[0])} onChange={(event) => hour(0, Number(event.currentTarget.value))}>{HOURS.map((one) => <option value={one}>{one}:00</option>)}</select>
          {' '}to <select aria-label="Quiet until" value={String(quiet()[1])} onChange={(event) => hour(1, Number(event.currentTarget.value))}>{HOURS.map((one) => <option value={one}>{one}:00</option>)}</select></p>
      )}</Show>
    </div>
  );
}
