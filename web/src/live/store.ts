// Owns one open conversation: its records over the socket and in older pages, folded. It rides on the link, so that
// after a loss it goes on at the record that it has.
import { batch, createContext, createEffect, createMemo, createSignal, on, onCleanup, useContext, type Accessor } from 'solid-js';
import { rest } from '../daemon/daemon';
import { ride, send, type Frame } from '../daemon/link';
import { lobby } from '../lobby/lobby';
import type { ApprovalSummary, AttachedClient, Session } from '../daemon/types';
import { Fold, lineOf } from '../fold/fold';
import type { Folded, Line, Picture, PromptBlock } from '../fold/model';
import { localPrompt } from '../fold/prompts';
import { raw, str } from '../fold/raw';
import { watchCompany } from './company';
import { FlushClock } from './flush';
import { savesData, shareOf } from './saver';

/** A layer that may lie over a conversation; the rewind perhaps at one prompt. */
export type ConversationLayer = { kind: 'find' } | { kind: 'rewind'; prompt?: PromptBlock } | null;

/** An open conversation, as the parts of its page use it. */
export interface Conversation {
  readonly id: string;
  /** The conversation as it is folded so far; it changes at most once a frame. */
  folded: Accessor<Folded>;
  /** The session: the snapshot's, with what the lobby has said since. */
  session: Accessor<Session | undefined>;
  /** The open questions to people, oldest first, those of sub-agents too, as the lobby has them. */
  approvals: Accessor<ApprovalSummary[]>;
  /** Whether the newest records are there. */
  isOpened: Accessor<boolean>;
  /** Records that are still to come before the page shows the present; `null`: none. */
  catchingUp: Accessor<{ done: number; of: number } | null>;
  /** The session is gone, or cannot be read: why, in words. */
  ended: Accessor<string | null>;
  hasOlder: Accessor<boolean>;
  /** The other browsers and programs that have it open. */
  others: Accessor<AttachedClient[]>;
  /** Loads a page of older records. */
  loadOlder(limit?: number): Promise<void>;
  /** Loads older pages until this record is there. */
  loadTo(seq: number): Promise<void>;
  /** Loads a record that was left out for its size. */
  loadWhole(seq: number): Promise<void>;
  /** Prompts of this page that the journal does not have yet. */
  echoes: Accessor<PromptBlock[]>;
  /** Shows a prompt at once, and goes to the end; the journal's takes its place by the uuid. */
  echo(uuid: string, text: string, pictures?: Picture[]): void;
  /** It was not sent. */
  dropEcho(uuid: string): void;
  /** Whether the journal has the prompt with this uuid. */
  isInJournal(uuid: string): boolean;
  /** Frames that are no records, such as acks and errors. The returned function ends it. */
  onFrame(listener: (frame: Frame) => void): () => void;
  /** Sends a line for this session over the socket; `false`: it was not sent. */
  say(line: object): boolean;
  /** A person has seen everything up to this record. */
  saw(seq: number): void;
  /** Says whether the end is read: then old records may go, and are loaded again when somebody goes to them. */
  followEnd(isAtEnd: Accessor<boolean>): void;
  /** Rises when the transcript is to go to its end, as after a message was sent. */
  toEnd: Accessor<number>;
  goToEnd(): void;
  /** The layer over the page. */
  layer: Accessor<ConversationLayer>;
  openLayer(layer: ConversationLayer): void;
}

/** The records with which a conversation is opened, and the size of a page of older ones. */
const PAGE = 200;
/** A page of little but pieces of messages gives hardly a row: the next one is larger, up to this size. */
const LARGEST_PAGE = 5_000;
/** More missed records, or characters, than that are not applied: the end is opened anew. */
const MOST_MISSED = 5_000;
const MOST_MISSED_SIZE = 8_000_000;
/** Once more lines are held, or so many characters have come, old ones go while the end is read; so many are left. */
const MOST_HELD = 10_000;
const MOST_HELD_SIZE = 60_000_000;
const KEPT = 3_000;
const SESSION_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const NO_SESSION = 'There is no such session.';
/** Words of people and of the agent are loaded up to this size unasked; output of tools is not. */
const LARGEST_WORDS = 2_000_000;

export const ConversationContext = createContext<Conversation>();

/** The conversation of the page. */
export function useConversation(): Conversation {
  const found = useContext(ConversationContext);
  if (found === undefined) throw new Error('outside of a conversation');
  return found;
}

/** Opens a conversation for as long as the component is there. */
export function openConversation(id: string): Conversation {
  let fold = new Fold();
  let queue: Line[] = [];
  let target = 0;
  let started = 0;
  let missedSize = 0;
  let isReopening = false;
  let isAskingOtherwise = false;
  let seenSeq = 0;
  let heldSize = 0;
  let mostHeld = MOST_HELD;
  let isAtEnd: Accessor<boolean> = () => false;
  let olderPage = PAGE;
  let loading: Promise<void> | undefined;
  const asked = new Set<number>();
  const listeners = new Set<(frame: Frame) => void>();
  const [folded, setFolded] = createSignal<Folded>(fold.folded, { equals: false });
  const [snapshot, setSnapshot] = createSignal<Session>();
  const [isOpened, setOpened] = createSignal(false);
  const [catchingUp, setCatchingUp] = createSignal<{ done: number; of: number } | null>(null);
  // The daemon is not asked about what cannot be a session.
  const [ended, setEnded] = createSignal<string | null>(SESSION_ID.test(id) ? null : NO_SESSION);
  const [hasOlder, setHasOlder] = createSignal(false);
  const [echoes, setEchoes] = createSignal<PromptBlock[]>([]);
  const [toEnd, setToEnd] = createSignal(0);
  const [layer, setLayer] = createSignal<ConversationLayer>(null);

  /** The last record that came whole, by which the daemon can tell that this page has followed another history. */
  let last = { seq: 0, ts: '' };
  const place = (): object => {
    const after = fold.folded.lastSeq;
    if (after === 0) return { tail: PAGE };
    return last.seq === after ? { after, after_ts: last.ts } : { after };
  };
  const subscribe = (): object => ({ type: 'trunkline.subscribe', session_id: id, ...shareOf(savesData()), ...place() });

  const clock = new FlushClock(flush);

  /** Applies what has come. Whether there is more than fits into one frame. */
  function flush(until: number): boolean {
    let at = 0;
    while (at < queue.length) {
      const end = Math.min(queue.length, at + 256);
      fold.add(queue.slice(at, end));
      at = end;
      if (performance.now() > until) break;
    }
    queue = queue.slice(at);
    const { lastSeq } = fold.folded;
    const isBehind = lastSeq < target;
    batch(() => {
      if (isBehind) {
        if (target - started > PAGE) setCatchingUp({ done: lastSeq - started, of: target - started });
        return;
      }
      letGo();
      show();
    });
    return queue.length > 0;
  }

  function show(): void {
    setCatchingUp(null);
    setFolded(fold.folded);
    if (fold.folded.firstSeq > 0) setHasOlder((is) => (isOpened() ? is : fold.folded.firstSeq > 1));
    setEchoes((all) => (all.some((one) => isInJournal(one.uuid!)) ? all.filter((one) => !isInJournal(one.uuid!)) : all));
    if (!isOpened()) {
      setOpened(true);
      void fillOpenBlock();
    }
    loadWords();
  }

  /** Lets old lines go, so that a page may be open for days. */
  function letGo(): void {
    if ((fold.size < mostHeld && heldSize < MOST_HELD_SIZE) || !isOpened() || !isAtEnd()) return;
    if (fold.letGo(KEPT)) setHasOlder(true);
    heldSize = 0;
    mostHeld = Math.max(MOST_HELD, fold.size + KEPT);
  }

  /** Loads large answers and messages, each once. */
  function loadWords(): void {
    for (const block of [...fold.folded.blocks, ...fold.folded.waiting]) {
      if (block.kind !== 'note' && block.kind !== 'prompt') continue;
      const isUnasked = block.kind === 'note' ? block.code === 'left_out' : !savesData();
      if (!isUnasked || block.leftOutBytes === null || block.leftOutBytes > LARGEST_WORDS || asked.has(block.seq)) continue;
      asked.add(block.seq);
      void loadWhole(block.seq).catch(() => undefined);
    }
  }

  async function loadWhole(seq: number): Promise<void> {
    const record = await rest.GET('/v1/sessions/{id}/events/{seq}', { params: { path: { id, seq } } });
    const line = lineOf(record as unknown as Frame);
    if (line === null) return;
    fold.replace(line);
    setFolded(fold.folded);
  }

  /** An answer whose beginning came before the newest records is loaded whole. */
  async function fillOpenBlock(): Promise<void> {
    const lacks = () => folded().blocks.some((block) => (block.kind === 'text' || block.kind === 'thinking') && block.lacksBeginning);
    for (let page = 0; page < 50 && lacks() && hasOlder(); page += 1) await loadOlder(2_000);
  }

  function onSnapshot(frame: Frame): void {
    const session = frame.session as Session;
    const head = Number(frame.head_seq);
    const { lastSeq } = fold.folded;
    missedSize = 0;
    if (lastSeq > 0 && head - lastSeq > MOST_MISSED) {
      reopen();
      return;
    }
    target = head;
    started = Math.max(lastSeq, Number(frame.after));
    seenSeq = Math.max(seenSeq, session.seen_seq);
    batch(() => {
      setSnapshot(session);
      if (head <= lastSeq || head === 0) show();
    });
  }

  /** Too much is missing: the newest records come in the place of all that is between. */
  function reopen(): void {
    isReopening = true;
    queue = [];
    setCatchingUp(null);
    send({ type: 'trunkline.unsubscribe', session_id: id });
  }

  function beginAnew(): void {
    fold = new Fold();
    queue = [];
    setOpened(false);
    send(subscribe());
  }

  function onFrame(frame: Frame, size: number): void {
    switch (frame.type) {
      case undefined:
      case 'trunkline.cursor':
      case 'trunkline.coalesced': {
        const line = isReopening ? null : lineOf(frame);
        if (line === null) return;
        if (isOpened() && line.lastSeq < target) {
          missedSize += size;
          if (missedSize > MOST_MISSED_SIZE && target - line.lastSeq > PAGE) {
            reopen();
            return;
          }
        }
        if (frame.type === undefined) last = { seq: line.seq, ts: str(frame.ts) };
        queue.push(line);
        heldSize += size;
        clock.ask();
        return;
      }
      case 'trunkline.gap':
        fold.gap(Number(frame.first_seq), Number(frame.last_seq), String(frame.reason));
        return;
      case 'trunkline.snapshot':
        onSnapshot(frame);
        break;
      case 'trunkline.unsubscribed':
        if (isReopening) {
          isReopening = false;
          beginAnew();
        } else if (isAskingOtherwise) {
          isAskingOtherwise = false;
          send(subscribe());
        } else setEnded(frame.code === 4410 ? 'This session was deleted.' : str(frame.reason) || 'The daemon ended this connection.');
        return;
      case 'trunkline.error':
        if (!isOpened() && frame.code === 'session_not_found') setEnded(NO_SESSION);
        if (frame.code === 'history_differs') beginAnew();
        break;
      default:
    }
    for (const listener of listeners) listener(frame);
  }

  const leave = ride({
    greeting: () => (ended() === null ? [subscribe()] : []),
    takes: (frame) => frame.session_id === id && frame.type !== 'trunkline.session',
    frame: onFrame,
    lost: () => {
      isReopening = false;
      isAskingOtherwise = false;
      fold.add(queue);
      queue = [];
    },
  });
  // Another choice of how much is to come holds at once.
  createEffect(on(createMemo(savesData), () => { isAskingOtherwise = send({ type: 'trunkline.unsubscribe', session_id: id }); }, { defer: true }));
  onCleanup(() => {
    leave();
    clock.stop();
    send({ type: 'trunkline.unsubscribe', session_id: id });
  });

  function isInJournal(uuid: string): boolean {
    const { blocks, waiting } = folded();
    return waiting.some((one) => one.uuid === uuid) || blocks.some((block) => block.kind === 'prompt' && block.uuid === uuid);
  }

  function loadOlder(limit = olderPage): Promise<void> {
    loading ??= (async () => {
      const mine = fold;
      const query = { order: 'desc' as const, before: fold.folded.firstSeq, limit, stub_above: shareOf(savesData()).stub_above };
      const page = await rest.GET('/v1/sessions/{id}/events', { params: { path: { id }, query } });
      // The end was opened anew meanwhile.
      if (mine !== fold) return;
      for (const gap of page.missing ?? []) fold.gap(gap.first_seq, gap.last_seq, gap.reason);
      const lines = page.items.map((item) => lineOf(item as unknown as Frame)).filter((line) => line !== null);
      const pieces = lines.filter((line) => raw(line.data).type === 'stream_event').length;
      olderPage = pieces > lines.length / 2 ? Math.min(LARGEST_PAGE, olderPage * 4) : PAGE;
      fold.add(lines);
      // Where the end alone does not fill the screen, what is before it stays.
      if (isAtEnd()) mostHeld += lines.length;
      batch(() => {
        setHasOlder(page.next_before != null && lines.length > 0);
        setFolded(fold.folded);
      });
      loadWords();
    })().finally(() => { loading = undefined; });
    return loading;
  }

  return {
    id, folded, isOpened, catchingUp, ended, hasOlder, echoes, isInJournal, loadOlder, loadWhole, toEnd,
    others: watchCompany(id),
    approvals: () => lobby.byId[id]?.pending_approvals ?? [],
    session: () => {
      const base = snapshot();
      return base === undefined ? undefined : { ...base, ...lobby.byId[id] } as Session;
    },
    async loadTo(seq) {
      while (fold.folded.firstSeq > seq && hasOlder()) await loadOlder(Math.min(LARGEST_PAGE, Math.max(PAGE, fold.folded.firstSeq - seq + 20)));
    },
    echo(uuid, text, pictures = []) {
      if (!isInJournal(uuid)) setEchoes((all) => [...all.filter((one) => one.uuid !== uuid), localPrompt(uuid, text, pictures, new Date().toISOString())]);
      setToEnd((n) => n + 1);
    },
    dropEcho: (uuid) => { setEchoes((all) => all.filter((one) => one.uuid !== uuid)); },
    onFrame(listener) {
      listeners.add(listener);
      return () => { listeners.delete(listener); };
    },
    say: (line) => send({ session_id: id, ...line }),
    saw(seq) {
      if (seq <= seenSeq) return;
      seenSeq = seq;
      void rest.PUT('/v1/sessions/{id}/seen', { params: { path: { id } }, body: { seq } }).catch(() => { seenSeq = 0; });
    },
    followEnd: (is) => { isAtEnd = is; onCleanup(() => { if (isAtEnd === is) isAtEnd = () => false; }); },
    goToEnd: () => { setToEnd((n) => n + 1); },
    layer,
    openLayer: (next) => { setLayer(next); },
  };
}
