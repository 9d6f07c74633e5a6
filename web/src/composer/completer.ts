// Owns the list that completes a command or a file while a person writes: when it is asked for, and which row is chosen.
import { createEffect, createMemo, createSignal, on, onCleanup, type Accessor } from 'solid-js';
import { rest } from '../daemon/daemon';
import type { SessionState } from '../daemon/types';
import { askedAt, fittingCommands, type Asked, type SlashCommand } from './completion';

/** A row of the list. */
export interface Choice { word: string; hint: string; about: string }

/** The list, as the box uses it. */
export interface Completer {
  choices: Accessor<Choice[]>;
  active: Accessor<number>;
  asked: Accessor<Asked | null>;
  move(by: number): void;
  /** Closes it until another word begins. */
  close(): void;
}

/** Files are asked for so long after the last key. */
const FILES_AFTER_MS = 30;
/** The CLI lists the files at the first question, and says meanwhile that there are none. */
const AGAIN_AFTER_MS = [300, 700, 1_500, 3_000];
const MOST_SHOWN = 50;
const commandsOf = new Map<string, Promise<SlashCommand[]>>();

function commands(sessionId: string): Promise<SlashCommand[]> {
  const known = commandsOf.get(sessionId);
  if (known !== undefined) return known;
  const asked = rest.GET('/v1/sessions/{id}/commands', { params: { path: { id: sessionId } } }).then((answer) => answer.items as SlashCommand[]);
  // A CLI that is not ready yet is asked again.
  asked.catch(() => commandsOf.delete(sessionId));
  commandsOf.set(sessionId, asked);
  return asked;
}

async function files(sessionId: string, query: string): Promise<string[]> {
  const body = { subtype: 'file_suggestions' as const, query };
  const answer = await rest.POST('/v1/sessions/{id}/control', { params: { path: { id: sessionId } }, body });
  const payload = answer.response as { suggestions?: { path?: string | null }[] | null } | null;
  return (payload?.suggestions ?? []).map((one) => one.path).filter((path): path is string => typeof path === 'string');
}

/** Completes what is at the caret of a box. A session at rest is not woken for its files. */
export function createCompleter(session: Accessor<{ id: string; state: SessionState }>, text: Accessor<string>, caret: Accessor<number>): Completer {
  const [choices, setChoices] = createSignal<Choice[]>([]);
  const [active, setActive] = createSignal(0);
  const [closedAt, setClosedAt] = createSignal<string | null>(null);
  const place = (asked: Asked) => `${asked.kind} ${asked.from}`;
  const asked = createMemo(() => {
    const now = askedAt(text(), caret());
    return now !== null && closedAt() === place(now) ? null : now;
  });
  let turn = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  onCleanup(() => clearTimeout(timer));

  const show = (mine: number, next: Choice[]) => {
    if (mine !== turn) return;
    setChoices(next.slice(0, MOST_SHOWN));
    setActive(0);
  };
  createEffect(on(asked, (now) => {
    const mine = ++turn;
    clearTimeout(timer);
    if (now === null) {
      setChoices([]);
      if (askedAt(text(), caret()) === null) setClosedAt(null);
      return;
    }
    const { id, state } = session();
    if (now.kind === 'command') {
      void commands(id).then((all) => show(mine, fittingCommands(all, now.query).map(commandRow)), () => show(mine, []));
    } else if (['idle', 'busy', 'waiting'].includes(state)) {
      const look = (again: readonly number[]) => {
        void files(id, now.query).then((paths) => {
          show(mine, paths.map((word) => ({ word, hint: '', about: '' })));
          const [pause, ...later] = again;
          if (paths.length === 0 && mine === turn && pause !== undefined) timer = setTimeout(() => look(later), pause);
        }, () => show(mine, []));
      };
      timer = setTimeout(() => look(AGAIN_AFTER_MS), FILES_AFTER_MS);
    } else {
      show(mine, []);
    }
  }));

  return {
    choices,
    active,
    asked,
    move: (by) => setActive((at) => (choices().length === 0 ? 0 : (at + by + choices().length) % choices().length)),
    close: () => {
      const now = asked();
      if (now !== null) setClosedAt(place(now));
    },
  };
}

const commandRow = (command: SlashCommand): Choice => ({
  word: command.name ?? '', hint: command.argumentHint ?? '', about: command.description ?? '',
});
