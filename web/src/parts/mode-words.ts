// Owns the words for permission modes, models and efforts.

/** A permission mode in words. */
export interface ModeWords { mode: string; word: string; about: string }

/** The permission modes, the most careful first. */
export const MODES: readonly ModeWords[] = [
  { mode: 'default', word: 'Ask first', about: 'It asks before it changes or runs anything.' },
  { mode: 'plan', word: 'Plan first', about: 'It reads, makes a plan, and asks before it begins.' },
  { mode: 'acceptEdits', word: 'Accept edits', about: 'It changes files without asking, and asks for the rest.' },
  { mode: 'auto', word: 'Decide by itself', about: 'A second look decides what needs you.' },
  { mode: 'dontAsk', word: 'Deny, never ask', about: 'All that no rule allows is denied.' },
  { mode: 'bypassPermissions', word: 'Allow all', about: 'It never asks. Only where nothing can be harmed.' },
];

/** The modes that a session takes: one that allows all is for sessions that were made so, and the mode that it has is among them. */
export const modesFor = (session: { permission_mode?: string | null; options?: unknown }, takesAuto = true): ModeWords[] =>
  MODES.filter(({ mode }) => mode === session.permission_mode
    || ((mode !== 'bypassPermissions' || (session.options as { allow_dangerously_skip_permissions?: boolean } | undefined)?.allow_dangerously_skip_permissions === true)
      && (mode !== 'auto' || takesAuto)));

/** The word for a mode; one that is not known stays as it is. */
export const modeWord = (mode: string | null | undefined): string =>
  (mode == null ? 'Mode' : MODES.find((one) => one.mode === mode)?.word ?? mode);

/** A short name of a model: `claude-opus-5-5` is `opus 5.5`. */
export function modelWord(model: string | null | undefined): string {
  if (model == null) return 'Model';
  const bare = model.replace(/^.*\//, '').replace(/^claude-/, '').replace(/-\d{8}.*$/, '').replace(/\[.*\]$/, '');
  return bare.replace(/-(\d+)-(\d+)$/, ' $1.$2').replace(/-(\d+)$/, ' $1');
}

/** The word for an effort. */
export const effortWord = (effort: string): string =>
  ({ low: 'Low', medium: 'Medium', high: 'High', xhigh: 'Very high', max: 'Most' }[effort] ?? effort);
