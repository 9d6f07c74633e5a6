// Owns the prompt box itself: what a person writes, and how it goes to the agent.
import AtSign from 'lucide-solid/icons/at-sign';
import ImageIcon from 'lucide-solid/icons/image';
import Slash from 'lucide-solid/icons/slash';
import { Show, batch, createEffect, createSignal, on } from 'solid-js';
import { interrupt } from '../lobby/acts';
import type { QueuedPrompt, SessionSummary } from '../daemon/types';
import { useKeys } from '../parts/keys';
import { toast } from '../parts/toasts';
import { Told } from '../parts/told';
import { SafeText } from '../text/safe';
import { Attachments } from './attachments';
import { completed } from './completion';
import { CompletionList, rowId } from './completion-list';
import { createCompleter, type Choice } from './completer';
import { LONG_PASTE_LINES, joined, linesOf, markFor, saysNothing, wholeText, type Draft } from './content';
import { boxWanted, openDraft } from './draft';
import { createEditing } from './editing';
import { createWriting } from './focus';
import { readHistory, remember } from './history';
import { HistorySearch } from './history-search';
import { keyMeaning } from './key-meaning';
import { drop, openOutbox, outgoing, post, type Outgoing, type Way } from './outbox';
import { PICTURE_TYPES, readPicture } from './picture';
import { QueueList } from './queue';
import { createQueue } from './queue-store';
import { Unsent } from './unsent';

const TWICE_WITHIN_MS = 1_000;
const isTouch = (): boolean => matchMedia('(pointer: coarse)').matches;

/** The box, with the messages that wait above it. */
export function Box(props: {
  id: string; session: SessionSummary; suggestion: string | null;
  onSent: (uuid: string, draft: Draft) => void; onNotSent: (uuid: string) => void;
}) {
  const kept = openDraft(props.id);
  const { draft } = kept;
  void openOutbox(props.id);
  const queue = createQueue(() => props.session);
  const [caret, setCaret] = createSignal(0);
  const { isWriting, onFocus, onBlur } = createWriting();
  const [isSearching, setSearching] = createSignal(false);
  const edits = createEditing(props.id, kept, queue);
  const { editing } = edits;
  const [past, setPast] = createSignal<{ texts: string[]; at: number; before: string } | null>(null);
  const [escapedAt, setEscapedAt] = createSignal(0);
  const completer = createCompleter(() => props.session, () => draft.text, caret);
  let box!: HTMLTextAreaElement;
  let files!: HTMLInputElement;

  const isWorking = () => ['busy', 'waiting'].includes(props.session.state) || props.session.turn != null;
  const isAtRest = () => props.session.state === 'stopped' || props.session.state === 'failed';
  const isEmpty = () => saysNothing(draft);
  const way = (): Way => (isAtRest() ? 'resume' : isWorking() ? 'queue' : 'send');
  const sendWord = () => (editing() !== null ? 'Save' : { resume: 'Resume and send', queue: 'Queue', send: 'Send', now: 'Send now' }[way()]);

  const grow = () => {
    box.style.setProperty('height', 'auto');
    box.style.setProperty('height', `${box.scrollHeight + 2}px`);
  };
  createEffect(on(() => draft.text, () => {
    if (box.value !== draft.text) box.value = draft.text;
    grow();
  }));
  createEffect(() => { for (const one of outgoing(props.id)) if (one.state === 'failed') props.onNotSent(one.uuid); });
  createEffect(on(boxWanted, (wanted) => { if (wanted?.sessionId === props.id) box.focus(); }, { defer: true }));

  /** Replaces the text, and puts the caret where it belongs. */
  const write = (text: string, at = text.length) => {
    kept.change({ text });
    box.value = text;
    box.setSelectionRange(at, at);
    setCaret(at);
    grow();
  };
  const insert = (text: string) => {
    const { selectionStart: from, selectionEnd: to } = box;
    write(draft.text.slice(0, from) + text + draft.text.slice(to), from + text.length);
    box.focus();
  };

  const send = (how: Way) => {
    if (isEmpty()) return;
    if (editing() !== null) return void edits.save();
    remember(wholeText(draft));
    const uuid = post(props.id, draft, how);
    if (how !== 'queue') props.onSent(uuid, draft);
    batch(() => { kept.clear(); setPast(null); setCaret(0); });
    if (!isTouch()) box.focus();
  };
  const sendNow = () => send(isAtRest() ? 'resume' : isWorking() ? 'now' : 'send');

  const edit = (prompt: QueuedPrompt) => { edits.begin(prompt); box.focus(); };
  const editUnsent = (message: Outgoing) => {
    drop(props.id, message.uuid);
    props.onNotSent(message.uuid);
    kept.change(joined(draft, message.draft));
    box.focus();
  };

  const addFiles = async (all: Iterable<File>) => {
    for (const file of all) {
      try {
        const picture = await readPicture(file);
        kept.change({ pictures: [...draft.pictures, picture] });
      } catch (error) {
        toast((error as Error).message, { isProblem: true });
      }
    }
  };
  const onPaste = (event: ClipboardEvent) => {
    const images = [...(event.clipboardData?.files ?? [])].filter((file) => file.type.startsWith('image/'));
    const text = event.clipboardData?.getData('text/plain') ?? '';
    if (images.length > 0 && text === '') {
      event.preventDefault();
      void addFiles(images);
    } else if (linesOf(text) > LONG_PASTE_LINES) {
      event.preventDefault();
      const mark = markFor(text, draft.pastes);
      kept.change({ pastes: [...draft.pastes, { mark, text }] });
      insert(mark);
    }
  };
  const onDrop = (event: DragEvent) => {
    const dropped = [...(event.dataTransfer?.files ?? [])];
    if (dropped.length === 0) return;
    event.preventDefault();
    void addFiles(dropped);
  };

  const choose = (choice: Choice) => {
    const asked = completer.asked();
    if (asked === null) return;
    const next = completed(draft.text, asked, choice.word);
    write(next.text, next.caret);
    box.focus();
  };

  const mayGoBack = () => draft.text === '' || past() !== null;
  const earlier = async () => {
    const waiting = queue.items().at(-1);
    if (past() === null && editing() === null && waiting !== undefined) return edit(waiting);
    const now = past() ?? { texts: await readHistory(props.id), at: -1, before: draft.text };
    const text = now.texts[now.at + 1];
    if (text === undefined) return;
    write(text);
    setPast({ ...now, at: now.at + 1 });
  };
  const later = () => {
    const now = past();
    if (now === null) return;
    write(now.at === 0 ? now.before : now.texts[now.at - 1] ?? '');
    setPast(now.at === 0 ? null : { ...now, at: now.at - 1 });
  };
  const leave = () => {
    if (completer.choices().length > 0) return completer.close();
    if (editing() !== null) return edits.cancel();
    if (draft.text === '' && isWorking()) {
      if (performance.now() - escapedAt() < TWICE_WITHIN_MS) return void interrupt(props.id);
      setEscapedAt(performance.now());
      setTimeout(() => setEscapedAt(0), TWICE_WITHIN_MS);
      return;
    }
    box.blur();
  };

  const onKey = (event: KeyboardEvent) => {
    if (event.isComposing || event.keyCode === 229) return;
    const choice = completer.choices()[completer.active()];
    if (choice !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey) {
      if (event.key === 'ArrowDown' || event.key === 'ArrowUp') completer.move(event.key === 'ArrowDown' ? 1 : -1);
      else if (event.key === 'Tab' || event.key === 'Enter') choose(choice);
      else return onMeaning(event);
      event.preventDefault();
      return;
    }
    onMeaning(event);
  };
  const onMeaning = (event: KeyboardEvent) => {
    const meaning = keyMeaning(event, { isTouch: isTouch(), mayGoBack: mayGoBack() });
    if (meaning === null) return;
    event.preventDefault();
    if (meaning === 'send') send(way());
    else if (meaning === 'send-now') sendNow();
    else if (meaning === 'leave') leave();
    else if (meaning === 'earlier') void earlier();
    else if (meaning === 'later') later();
    else setSearching(true);
  };

  useKeys('Prompt box', [
    { keys: 'i', word: 'Write', run: () => box.focus() },
    { keys: 'h', word: 'Hold queue', run: () => {
      const first = queue.items()[0];
      if (first === undefined) return false;
      void queue.hold(first.uuid, !queue.isHeld());
      return true;
    } },
    { keys: 'Alt r', word: 'Search what you sent', inText: true, run: () => { setSearching(true); } },
    { keys: 'Escape', word: 'Interrupt', run: () => {
      if (!isWorking()) return false;
      void interrupt(props.id);
      return true;
    } },
  ]);

  return (
    <>
      <Unsent sessionId={props.id} edit={editUnsent} onDrop={props.onNotSent} />
      <QueueList queue={queue} editing={editing()?.uuid ?? null} edit={edit} />
      <Show when={isSearching()}>
        <HistorySearch sessionId={props.id} choose={(text) => { setSearching(false); write(text); box.focus(); }}
          close={() => { setSearching(false); box.focus(); }} />
      </Show>
      <Show when={props.suggestion !== null && isEmpty() && !isWorking()}>
        <button type="button" class="suggestion one-line" onClick={() => { write(props.suggestion ?? ''); box.focus(); }}>Next: <SafeText text={props.suggestion ?? ''} /></button>
      </Show>
      <form class="box" classList={{ 'has-text': draft.text !== '' || isWriting() }} onSubmit={(event) => { event.preventDefault(); send(way()); }}
        onDragOver={(event) => event.preventDefault()} onDrop={onDrop}>
        <CompletionList completer={completer} choose={choose} />
        <Attachments draft={draft} change={kept.change} />
        <Show when={editing()}>
          <div class="strip"><span class="quiet">Editing a message that waits.</span><button type="button" class="plain" onClick={edits.cancel}>Cancel the edit</button></div>
        </Show>
        <textarea ref={(node) => { box = node; }} class="box-text" rows="1" aria-label="Message" placeholder="Message…" autocapitalize="sentences"
          aria-autocomplete="list" aria-controls={completer.choices().length > 0 ? 'completions' : undefined}
          aria-activedescendant={completer.choices().length > 0 ? rowId(completer.active()) : undefined}
          onInput={(event) => { setPast(null); kept.change({ text: event.currentTarget.value }); setCaret(event.currentTarget.selectionStart); }}
          onSelect={(event) => setCaret(event.currentTarget.selectionStart)} onKeyDown={onKey} onPaste={onPaste}
          onFocus={onFocus} onBlur={onBlur} />
        <div class="box-tools">
          <button type="button" class="plain" title="Commands (/)" aria-label="Commands" onClick={() => { if (draft.text === '') insert('/'); else { write(`/${draft.text}`, 1); box.focus(); } }}><Slash size={16} /></button>
          <button type="button" class="plain" title="Files (@)" aria-label="Files" onClick={() => insert(/(^|\s)$/.test(draft.text.slice(0, box.selectionStart)) ? '@' : ' @')}><AtSign size={16} /></button>
          <button type="button" class="plain" title="Image" aria-label="Image" onClick={() => files.click()}><ImageIcon size={16} /></button>
          <input ref={(node) => { files = node; }} class="only-heard" type="file" tabindex="-1" aria-hidden="true" multiple accept={PICTURE_TYPES.join(',')}
            onChange={(event) => { void addFiles(event.currentTarget.files ?? []); event.currentTarget.value = ''; }} />
        </div>
        <div class="box-ways">
          <Told><Show when={isWorking() && escapedAt() > 0}><span class="quiet">Esc again interrupts</span></Show></Told>
          <Show when={isWorking()}>
            <Show when={!isEmpty() && editing() === null}>
              <button type="button" title="Send now (Ctrl Shift Enter)" onClick={sendNow}>Send now</button>
            </Show>
          </Show>
          <button class="primary" disabled={isEmpty()} title={isTouch() ? undefined : `${sendWord()} (Enter)`}>{sendWord()}</button>
        </div>
      </form>
    </>
  );
}

