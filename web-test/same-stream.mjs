// Compares what stories of an SDK were given in two runs, message by message.
//
//   node same-stream.mjs FIRST SECOND [--attached]   prints a line of JSON per story: {story, differences}
//   node same-stream.mjs --check                     shows that a difference is found
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Members whose values are times. */
const TIMES = new Set([
  'duration_api_ms', 'duration_ms', 'first_content_frame_ms', 'thinking_duration_ms', 'time_to_request_ms', 'timestamp', 'ttft_ms',
  'ttft_stream_ms',
]);
/** Members that name the CLI's process. */
const OF_PROCESS = new Set(['messaging_socket_path', 'pid']);
/** Members whose values are ids, or lists of ids. An id stays the same id: it becomes the number of its first appearance. */
const IDS = new Set([
  'id', 'message_id', 'parent_tool_use_id', 'prompt_id', 'request_id', 'session_id', 'tool_use_id', 'toolUseID', 'uuid',
]);
const ID = /^(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?:msg|req|toolu)_\w+)$/;
/** Members that the CLI adds where a prompt has an id; the daemon gives each prompt one. */
const OF_NAMED_PROMPTS = new Set([
  'first_request_cache_read_input_tokens', 'first_request_input_tokens', 'owed_rows', 'request_sent_wall_ms', 'user_message_uuid',
  'user_message_uuids',
]);

/**
 * Lists of names whose order is no one's: the CLI lists `StructuredOutput` last where the schema came by `initialize` alone, as the
 * daemon gives it.
 */
const UNORDERED = new Set(['tools']);

/** The same story of two runs can be compared after this. `dir` is where the story worked. */
export function normalised(story, dir) {
  const ids = new Map();
  // The CLI names a conversation's directory after the directory in which it began.
  const slug = dir.replace(/[^A-Za-z0-9]/g, '-');
  const known = (text) => {
    let clean = text.replaceAll(dir, '<dir>').replaceAll(slug, '<dir>');
    for (const [id, name] of ids) clean = clean.replaceAll(id, name);
    return clean;
  };
  const named = (id) => {
    if (!ids.has(id)) ids.set(id, `<id ${ids.size + 1}>`);
    return ids.get(id);
  };
  const clean = (value, member) => {
    if (TIMES.has(member) && value !== null) return '<time>';
    if (OF_PROCESS.has(member)) return `<${typeof value}>`;
    if (typeof value === 'string') return (IDS.has(member) && ID.test(value)) ? named(value) : known(value);
    if (UNORDERED.has(member) && value.every?.((name) => typeof name === 'string')) return value.toSorted();
    if (Array.isArray(value)) return value.map((item) => clean(item, member));
    if (value === null || typeof value !== 'object') return value;
    const kept = Object.entries(value).filter(([name]) => !OF_NAMED_PROMPTS.has(name));
    // Ids first: a text may name one.
    const idsFirst = kept.toSorted(([a], [b]) => IDS.has(b) - IDS.has(a));
    return Object.fromEntries(idsFirst.map(([name, item]) => [known(name), clean(item, name)]));
  };
  return clean(story);
}

/** Where two values differ, as paths. */
export function differences(first, second, path = '') {
  if (first === second) return [];
  const isObject = (value) => value !== null && typeof value === 'object';
  if (!isObject(first) || !isObject(second) || Array.isArray(first) !== Array.isArray(second)) {
    return [`${path}: ${JSON.stringify(first)} is ${JSON.stringify(second)}`];
  }
  if (Array.isArray(first) && first.length !== second.length) {
    const kinds = (list) => list.map((item) => item?.subtype ?? item?.type ?? JSON.stringify(item)).join(' ');
    return [`${path}: ${first.length} [${kinds(first)}] are ${second.length} [${kinds(second)}]`];
  }
  const names = new Set([...Object.keys(first), ...Object.keys(second)]);
  return [...names].flatMap((name) => differences(first[name], second[name], `${path}/${name}`));
}

/** The CLI tells a client that comes to a running process of its background tasks first: here there are none. */
const isGreeting = (message) => message.subtype === 'background_tasks_changed' && message.tasks.length === 0;

/** The stories of a file, by their names. */
function read(path, isAttached) {
  const lines = readFileSync(path, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  return new Map(lines.map(({ dir, ...story }) => {
    if (isAttached) story.messages = story.messages.filter((message) => !isGreeting(message));
    return [story.story, normalised(story, dir)];
  }));
}

/** A story that is told wrongly is told from the right one. */
function check() {
  const uuids = ['8c0f7a52-6a44-4f7e-9f0c-0d5a9e2f0001', '8c0f7a52-6a44-4f7e-9f0c-0d5a9e2f0002', '8c0f7a52-6a44-4f7e-9f0c-0d5a9e2f0003'];
  const story = (dir, [first, second, third]) => ({
    story: 'one', calls: [['Bash', { command: `ls ${dir}` }, 'toolu_1']], notes: {},
    messages: [
      { type: 'system', subtype: 'init', cwd: dir, uuid: first, session_id: third },
      { type: 'assistant', uuid: second, session_id: third, timestamp: 'now', text: `See ${second}.` },
      { type: 'result', uuid: uuids[2], session_id: third, duration_ms: 5, num_turns: 1, result: 'done' },
    ],
  });
  const right = normalised(story('/a/b', uuids), '/a/b');
  const expect = (what, isDifferent, other) => {
    const found = differences(right, normalised(other, '/c/d'));
    if ((found.length > 0) !== isDifferent) throw new Error(`${what}: ${JSON.stringify(found)}`);
  };
  const others = uuids.map((uuid) => uuid.replace('0d5a', 'ffff'));
  const other = () => structuredClone({ ...story('/c/d', others) });
  const changed = (change) => { const it = other(); change(it, it.messages); return it; };
  uuids[2] = others[2];
  expect('other ids, times and paths', false, changed((_it, messages) => {
    messages[1].timestamp = 'later';
    messages[1].user_message_uuid = others[0];
    messages[2].duration_ms = 6;
  }));
  expect('a message is missing', true, changed((_it, messages) => messages.pop()));
  expect('a message is doubled', true, changed((_it, messages) => messages.splice(1, 0, messages[1])));
  expect('two messages are reordered', true, changed((_it, messages) => messages.push(...messages.splice(1, 1))));
  expect('a message is another', true, changed((_it, messages) => { messages[2].result = 'doing'; }));
  expect('a member is missing', true, changed((_it, messages) => { delete messages[2].num_turns; }));
  expect('a member is new', true, changed((_it, messages) => { messages[2].more = null; }));
  expect('an id is that of another message', true, changed((_it, messages) => { messages[1].uuid = messages[0].uuid; }));
  expect('another session', true, changed((_it, messages) => { messages[2].session_id = others[0]; }));
  expect('a callback is not called', true, changed((it) => it.calls.pop()));
  expect('a note is another', true, changed((it) => { it.notes.made = true; }));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv[2] === '--check') check();
  else {
    const first = read(process.argv[2], false);
    const second = read(process.argv[3], process.argv[4] === '--attached');
    for (const [story, given] of second) {
      const found = first.has(story) ? differences(first.get(story), given) : ['it was not told the first time'];
      console.log(JSON.stringify({ story, differences: found }));
    }
  }
}
