// Owns completion in the prompt box as plain functions: which word at the caret is to be completed, what fits, and the text
// after one was chosen.
import type { components } from 'trunkline-client';

/** A slash command or skill of the CLI. */
export type SlashCommand = components['schemas']['SlashCommand'];

/** A word that can be completed: the text from `from` to `to`, without its sign. */
export interface Asked { kind: 'command' | 'file'; query: string; from: number; to: number }

/** The word at the caret that can be completed, or `null`. */
export function askedAt(text: string, caret: number): Asked | null {
  const before = text.slice(0, caret);
  const wordStart = Math.max(before.lastIndexOf(' '), before.lastIndexOf('\n'), before.lastIndexOf('\t')) + 1;
  const word = before.slice(wordStart);
  const rest = /^\S*/.exec(text.slice(caret))?.[0].length ?? 0;
  if (wordStart === 0 && word.startsWith('/') && !word.slice(1).includes('/')) {
    return { kind: 'command', query: word.slice(1), from: 0, to: caret + rest };
  }
  if (word.startsWith('@')) return { kind: 'file', query: word.slice(1), from: wordStart, to: caret + rest };
  return null;
}

/** The commands that fit, best first: names that begin so, then other names of theirs, then names that contain it. */
export function fittingCommands(commands: readonly SlashCommand[], query: string): SlashCommand[] {
  const wanted = query.toLowerCase();
  const grade = (command: SlashCommand): number => {
    const name = (command.name ?? '').toLowerCase();
    if (name === wanted) return 0;
    if (name.startsWith(wanted)) return 1;
    if (aliasesOf(command).some((alias) => alias.toLowerCase().startsWith(wanted))) return 2;
    if (name.split(/[-_:]/).some((part) => part.startsWith(wanted))) return 3;
    return name.includes(wanted) ? 4 : 5;
  };
  return commands
    .map((command, place) => ({ command, place, grade: grade(command) }))
    .filter((one) => one.grade < 5 && (one.command.name ?? '') !== '')
    .sort((a, b) => a.grade - b.grade || a.place - b.place)
    .map((one) => one.command);
}

const aliasesOf = (command: SlashCommand): string[] => (command.aliases ?? []).filter((one): one is string => typeof one === 'string');

/** The text after a choice, and where the caret is then. A directory stays open, so that one can go on into it. */
export function completed(text: string, asked: Asked, choice: string): { text: string; caret: number } {
  const sign = asked.kind === 'command' ? '/' : '@';
  const isOpen = asked.kind === 'file' && choice.endsWith('/');
  const behind = text.slice(asked.to);
  const space = isOpen || /^\s/.test(behind) ? '' : ' ';
  const word = `${sign}${choice}${space}`;
  const over = !isOpen && space === '' ? 1 : 0;
  return { text: text.slice(0, asked.from) + word + behind, caret: asked.from + word.length + over };
}
