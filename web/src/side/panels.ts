// Owns which of the side panels is shown.
import { createSignal } from 'solid-js';

/** The panels, in their order. */
export const PANELS = ['plan', 'changes', 'agents', 'tasks', 'context', 'about'] as const;
export type PanelName = (typeof PANELS)[number];

/** Their words. */
export const PANEL_WORDS: Record<PanelName, string> = {
  plan: 'Plan', changes: 'Changes', agents: 'Agents', tasks: 'Tasks', context: 'Context', about: 'About',
};

const [panel, setPanel] = createSignal<PanelName>('plan');

export { panel, setPanel as showPanel };
