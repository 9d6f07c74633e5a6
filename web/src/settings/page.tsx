// Owns the page of settings: what this browser remembers, and the daemon's configuration, read only.
import { A, useParams } from '@solidjs/router';
import { For, Match, Switch } from 'solid-js';
import { Configuration } from './configuration';
import { Keys } from './keys';
import { Logins } from './logins';
import { Look } from './look';
import { Notices } from './notices';
import '../look/usage.css';
import '../look/health.css';
import '../look/settings.css';

const PARTS = [
  { part: 'look', word: 'Look' }, { part: 'keys', word: 'Keys' }, { part: 'notices', word: 'Notices' }, { part: 'logins', word: 'Logins' }, { part: 'configuration', word: 'Configuration' },
] as const;

/** The settings. */
export default function SettingsPage() {
  const params = useParams<{ part?: string }>();
  const part = () => params.part ?? 'look';
  return (
    <div class="page settings">
      <h1>Settings</h1>
      <nav class="parts" aria-label="Parts of the settings"><For each={PARTS}>{(one) => (
        <A href={`/settings/${one.part}`} aria-current={part() === one.part ? 'page' : undefined}>{one.word}</A>
      )}</For></nav>
      <Switch fallback={<p>There are no such settings.</p>}>
        <Match when={part() === 'look'}><Look /></Match>
        <Match when={part() === 'keys'}><Keys /></Match>
        <Match when={part() === 'notices'}><Notices /></Match>
        <Match when={part() === 'logins'}><Logins /></Match>
        <Match when={part() === 'configuration'}><Configuration /></Match>
      </Switch>
      <footer><a class="settings-licences" href="/licences.txt" target="_blank" rel="noreferrer">Licences of the libraries in this page</a></footer>
    </div>
  );
}
