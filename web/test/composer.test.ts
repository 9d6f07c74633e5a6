import { describe, expect, test } from 'vitest';
import fc from 'fast-check';
import { askedAt, completed, fittingCommands } from '../src/composer/completion';
import { bodyOf, draftOf, emptyDraft, markFor, saysNothing, wholeText, type Draft } from '../src/composer/content';
import { found, promptText } from '../src/composer/history';
import { keyMeaning, type Pressed } from '../src/composer/key-meaning';
import { noticeOf } from '../src/composer/notice-words';
import { MOST_BYTES, sideFor } from '../src/composer/picture';
import type { SessionSummary } from '../src/daemon/types';

const key = (name: string, more: Partial<Pressed> = {}): Pressed =>
  ({ key: name, shiftKey: false, ctrlKey: false, metaKey: false, altKey: false, isComposing: false, keyCode: 0, ...more });
const desk = { isTouch: false, mayGoBack: false };
const phone = { isTouch: true, mayGoBack: false };

describe('keys of the box', () => {
  test('Enter sends at a desk, and is a new line under a thumb', () => {
    expect(keyMeaning(key('Enter'), desk)).toBe('send');
    expect(keyMeaning(key('Enter'), phone)).toBeNull();
    expect(keyMeaning(key('Enter', { shiftKey: true }), desk)).toBeNull();
  });
  test('Ctrl Enter and Command Enter send everywhere, and with Shift at once', () => {
    for (const box of [desk, phone]) {
      expect(keyMeaning(key('Enter', { ctrlKey: true }), box)).toBe('send');
      expect(keyMeaning(key('Enter', { metaKey: true }), box)).toBe('send');
      expect(keyMeaning(key('Enter', { ctrlKey: true, shiftKey: true }), box)).toBe('send-now');
    }
  });
  test('a key of an input method never means anything', () => {
    fc.assert(fc.property(fc.constantFrom('Enter', 'Escape', 'ArrowUp', 'r'), fc.boolean(), fc.boolean(), (name, ctrlKey, altKey) => {
      expect(keyMeaning(key(name, { ctrlKey, altKey, isComposing: true }), { isTouch: false, mayGoBack: true })).toBeNull();
      expect(keyMeaning(key(name, { ctrlKey, altKey, keyCode: 229 }), { isTouch: false, mayGoBack: true })).toBeNull();
    }));
  });
  test('Up goes back only where nothing would be lost', () => {
    expect(keyMeaning(key('ArrowUp'), desk)).toBeNull();
    expect(keyMeaning(key('ArrowUp'), { isTouch: false, mayGoBack: true })).toBe('earlier');
    expect(keyMeaning(key('r', { altKey: true }), desk)).toBe('search');
    expect(keyMeaning(key('r'), desk)).toBeNull();
  });
});

describe('completion', () => {
  test('a slash counts at the start of the text alone', () => {
    expect(askedAt('/mod', 4)).toEqual({ kind: 'command', query: 'mod', from: 0, to: 4 });
    expect(askedAt('say /mod', 8)).toBeNull();
    expect(askedAt('/usr/bin', 8)).toBeNull();
    expect(askedAt('/model opus', 11)).toBeNull();
  });
  test('an at sign counts at the start of a word, and not within one', () => {
    expect(askedAt('see @src/a', 10)).toEqual({ kind: 'file', query: 'src/a', from: 4, to: 10 });
    expect(askedAt('me@example.org', 14)).toBeNull();
  });
  test('a file is followed by a space, and a directory goes on', () => {
    const asked = askedAt('see @sr now', 7)!;
    expect(completed('see @sr now', asked, 'src/')).toEqual({ text: 'see @src/ now', caret: 9 });
    expect(completed('see @sr now', asked, 'src/a.rs')).toEqual({ text: 'see @src/a.rs now', caret: 14 });
    expect(completed('/mo', askedAt('/mo', 3)!, 'model')).toEqual({ text: '/model ', caret: 7 });
  });
  test('names that begin so come first, then other names, then parts', () => {
    const all = [{ name: 'remodel' }, { name: 'config', aliases: ['mode'] }, { name: 'code-mod' }, { name: 'model' }, { name: 'help' }];
    expect(fittingCommands(all, 'mod').map((one) => one.name)).toEqual(['model', 'config', 'code-mod', 'remodel']);
    expect(fittingCommands(all, '')).toHaveLength(5);
  });
});

describe('a message', () => {
  const picture = { id: 'p', name: 'a.png', mediaType: 'image/png', data: 'AAAA', bytes: 3 };
  test('a pasted text stands in its place, and goes with its mark', () => {
    const text = Array.from({ length: 30 }, (_, line) => `line ${line}`).join('\n');
    const mark = markFor(text, []);
    expect(mark).toBe('[Pasted text 1, 30 lines]');
    const draft: Draft = { text: `Look: ${mark} - what is it?`, pictures: [], pastes: [{ mark, text }] };
    expect(wholeText(draft)).toBe(`Look: ${text} - what is it?`);
    expect(bodyOf({ ...draft, text: 'Never mind.' })).toEqual({ text: 'Never mind.' });
    expect(markFor('x', draft.pastes)).toBe('[Pasted text 2, 1 lines]');
  });
  test('blanks say nothing, and an image alone says something', () => {
    expect(saysNothing({ ...emptyDraft(), text: ' \n' })).toBe(true);
    expect(saysNothing({ ...emptyDraft(), pictures: [picture] })).toBe(false);
    expect(bodyOf({ ...emptyDraft(), pictures: [picture] })).toEqual({
      content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }],
    });
  });
  test('a queued message comes back into the box as it was written', () => {
    fc.assert(fc.property(fc.string(), fc.boolean(), (text, hasPicture) => {
      const draft = { ...emptyDraft(), text, pictures: hasPicture ? [picture] : [] };
      const back = draftOf(bodyOf(draft));
      expect(back.text).toBe(hasPicture && text.trim() === '' ? '' : text);
      expect(back.pictures.map((one) => one.data)).toEqual(draft.pictures.map((one) => one.data));
    }));
  });
  test('a large image is made smaller, and never larger', () => {
    expect(sideFor(MOST_BYTES * 4)).toBeCloseTo(0.5);
    expect(sideFor(MOST_BYTES + 1)).toBeLessThan(1);
  });
});

describe('history', () => {
  test('results of tools and words of the CLI are no prompts', () => {
    const item = (content: unknown, more = {}) => ({ role: 'user', uuid: null, content, ...more });
    expect(promptText(item('Hello'))).toBe('Hello');
    expect(promptText(item([{ type: 'image' }, { type: 'text', text: 'Look' }]))).toBe('Look');
    expect(promptText(item([{ type: 'tool_result', content: 'x' }]))).toBeNull();
    expect(promptText(item('<local-command-stdout>ok</local-command-stdout>'))).toBeNull();
    expect(promptText(item('for the child', { parent_tool_use_id: 'toolu_1' }))).toBeNull();
  });
  test('each word has to be there, in any case', () => {
    expect(found(['Run the tests', 'run it', 'Write docs'], 'RUN t')).toEqual(['Run the tests', 'run it']);
    expect(found(['Run the tests', 'run it'], 'run tests')).toEqual(['Run the tests']);
  });
});

describe('what is said above the box', () => {
  const session = (more: Partial<SessionSummary>): SessionSummary => ({ id: 's', state: 'idle', is_silent: false, ...more }) as SessionSummary;
  const now = Date.parse('2026-11-29T12:00:00Z');
  test('a failed session says why, and offers the ways out that there are', () => {
    const failed = session({ state: 'failed', reason: { code: 'budget_spent', detail: '' } });
    expect(noticeOf(failed, now)?.text).toBe('It stopped: its budget is spent. Resume, fork, or start afresh?');
    expect(noticeOf(failed, now, ['fork'])).toMatchObject({ text: 'It stopped: its budget is spent. Fork?', acts: ['fork'] });
  });
  test('a silent one asks whether to wait', () => {
    const silent = session({ state: 'busy', is_silent: true, attention: { reason: 'silent', rank: 4, since: '2026-11-29T11:48:00Z', deadline: null } });
    expect(noticeOf(silent, now)?.text).toBe('Silent for 12 minutes. Keep waiting, or interrupt?');
  });
  test('what is not waited for is left, and not kept waiting', () => {
    for (const reason of ['unasked_edit', 'budget'] as const) {
      expect(noticeOf(session({ attention: { reason, rank: 4, since: '2026-11-29T11:48:00Z', deadline: null } }), now)?.acts).toEqual(['leave-it']);
    }
  });
  test('a parked one says that a message wakes it, and a ready one says nothing', () => {
    expect(noticeOf(session({ state: 'parked', parked: { since: '', reason: 'idle' } }), now)?.text).toBe('Parked to save memory. A message wakes it.');
    expect(noticeOf(session({}), now)).toBeNull();
  });
});
