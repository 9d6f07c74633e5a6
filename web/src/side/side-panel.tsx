// Owns the side panel of a conversation. Its sections are loaded when it is first shown.
import { Show, Suspense, lazy } from 'solid-js';
import type { Conversation } from '../live/store';
import { Side, isSideShown } from '../parts/side';

const Sections = lazy(() => import('./sections'));

/** The side panel. */
export function SidePanel(props: { conversation: Conversation }) {
  return <Side><Show when={isSideShown()}><Suspense><Sections conversation={props.conversation} /></Suspense></Show></Side>;
}
