// Owns the messages of a session that wait in the daemon, as far as the page knows them.
import { createEffect, on, onCleanup, type Accessor } from 'solid-js';
import { createAsked } from '../daemon/asked';
import { rest, said } from '../daemon/daemon';
import { ride } from '../daemon/link';
import type { QueuedPrompt, SessionSummary } from '../daemon/types';
import { toast } from '../parts/toasts';

/** The outcome: `gone` is a message that the agent has already. */
export type Done = 'done' | 'gone' | 'refused';

/** The queue, and what can be done with it. */
export interface Queue {
  items: Accessor<QueuedPrompt[]>;
  /** Whether nothing of it goes until somebody lets it go. */
  isHeld: Accessor<boolean>;
  hold(uuid: string, held: boolean): Promise<Done>;
  change(uuid: string, body: { text: string } | { content: Record<string, unknown>[] }): Promise<Done>;
  cancel(uuid: string): Promise<Done>;
}

/** The queue of a session. It is read again whenever the session's summary says that it is another one. */
export function createQueue(session: Accessor<SessionSummary>): Queue {
  const [items, { refetch, mutate }] = createAsked(
    // Each news of the session is another object; the question is another one with another count alone.
    () => `${session().id} ${session().queued_prompts}`,
    async (): Promise<QueuedPrompt[]> => {
      const { id, queued_prompts: count } = session();
      return count === 0 ? [] : (await rest.GET('/v1/sessions/{id}/prompts', { params: { path: { id } } })).items;
    },
  );
  // One goes and another comes between two summaries: the count is the same, and the turn is not.
  createEffect(on(() => [session().turn?.number, session().last_prompt], () => { if (session().queued_prompts > 0) void refetch(); }, { defer: true }));
  // The daemon tells each change on the session's own part of the socket.
  onCleanup(ride({
    greeting: () => [],
    takes: (frame) => frame.type === 'trunkline.queue' && frame.session_id === session().id,
    frame: (frame) => {
      const told = frame.queue as (QueuedPrompt & { truncated?: boolean })[];
      if (told.some((one) => one.truncated === true)) void refetch(); else mutate(told);
    },
  }));
  const latest = () => items() ?? [];
  const act = async (work: () => Promise<unknown>): Promise<Done> => {
    try {
      await work();
      return 'done';
    } catch (error) {
      const { text, code } = said(error);
      const isGiven = code === 'prompt_given' || code === 'prompt_not_found';
      toast(isGiven ? 'The agent has this message already.' : text, { isProblem: true });
      return isGiven ? 'gone' : 'refused';
    } finally {
      void refetch();
    }
  };
  // The box that it is of is one session's, and an edit ends when that box has gone.
  const { id } = session();
  const params = (uuid: string) => ({ path: { id, uuid } });
  return {
    items: latest,
    isHeld: () => latest()[0]?.held === true,
    hold: (uuid, held) => act(() => rest.PATCH('/v1/sessions/{id}/prompts/{uuid}', { params: params(uuid), body: { held } })),
    change: (uuid, body) => act(() => rest.PATCH('/v1/sessions/{id}/prompts/{uuid}', { params: params(uuid), body })),
    cancel: (uuid) => act(() => rest.DELETE('/v1/sessions/{id}/prompts/{uuid}', { params: params(uuid) })),
  };
}
