// Owns the page "Sessions": the list where the frame has none beside the page, else what a person does first.
import { Show } from 'solid-js';
import { hasList } from '../shell/layout';
import { SessionList } from './list';

/** The page. */
export function SessionsPage() {
  return <Show when={!hasList()} fallback={<div class="page"><p class="quiet">Choose a session.</p></div>}><SessionList /></Show>;
}
