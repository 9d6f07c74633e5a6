// Owns what a hostile agent says in the console's tests: markup, links, pictures, codes of terminals, characters that hide, names of
// an object's own parts, and texts that are made to hold up whoever reads them. The fake CLI says them byte for byte.

let n = 0;
const assistant = (content) => ({ line: { type: 'assistant', message: { id: `msg_${++n}`, type: 'message', role: 'assistant', model: 'fake', content, usage: {} }, parent_tool_use_id: null, session_id: '$SESSION_ID', uuid: '$UUID' } });
const result = (id, content, more = {}) => ({ line: { type: 'user', message: { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content, ...more }] }, parent_tool_use_id: null, session_id: '$SESSION_ID', uuid: '$UUID' } });

/** A text of the agent. */
export const says = (text) => assistant([{ type: 'text', text }]);
/** A call that was allowed without a question, and what came of it. */
export const calls = (name, input, output, { id = `toolu_${++n}`, ...more } = {}) => [assistant([{ type: 'tool_use', id, name, input }]), result(id, output, more)];
/** A call that waits for a person. */
export const asks = (tool, input) => ({ ask: { tool, input } });

/** Markup that would do something, if anything obeyed it. */
export const MARKUP = [
  '<script>planted = 1</script>', '<img src=x onerror="planted = 2">', '<svg onload="planted = 3"><script>planted = 4</script></svg>',
  '<iframe srcdoc="<script>parent.planted = 5</script>"></iframe>', '<a href="javascript:planted = 6">click</a>', '<style>* { display: none }</style>',
  '<details open ontoggle="planted = 7">x</details>', '<base href="http://127.0.0.1:9/">', '<meta http-equiv="refresh" content="0;url=http://127.0.0.1:9/">', '<form action="http://127.0.0.1:9/"><button>send</button></form>',
];
/** Addresses that are no page of the web, and some that are. */
export const LINKS = [
  '[js](javascript:planted=8)', '[js again](JaVaScRiPt:planted=9)', '[entity](&#106;avascript:planted=10)', '[tab](java&#9;script:planted=11)', '[data](data:text/html,<script>planted=12</script>)',
  '[vb](vbscript:planted)', '[blob](blob:http://127.0.0.1:9/x)', '[file](file:///etc/passwd)', '[rel](//127.0.0.1:9/x)', '[path](/v1/sessions)', '<javascript:planted=13>', '[a bank](http://127.0.0.1:9/bank "title")', '[https://bank.example/](http://127.0.0.1:9/other)',
  '![pic](http://127.0.0.1:9/pic.png)', '![svg](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9ImFsZXJ0KDEpIi8+)', '![js](javascript:planted=14)', '![p](//127.0.0.1:9/p.png)', '[![in](http://127.0.0.1:9/in.png)](javascript:planted=15)', '[ref]', '&valueOf; &toString; &lt;b&gt;',
];
/** Characters that nobody sees, and that turn words around. */
export const HIDES = 'rm\u202e gpj.\u202c\u200b\u2066x\u2069\ufeff\u00ad\u2060';

/** A call whose argument is so many objects deep. Readers of JSON that call themselves give up on it. */
const deep = (levels) => ({ raw: JSON.stringify(assistant([{ type: 'tool_use', id: `deep_${levels}`, name: 'mcp__a__b', input: { deep: 'DEEP' } }]).line).replace('"DEEP"', `${'{"in":'.repeat(levels)}1${'}'.repeat(levels)}`) });

/** Texts that are made to hold up whoever reads them. */
const BOMBS = [
  '>'.repeat(20_000), Array.from({ length: 2_000 }, (_, i) => `${'  '.repeat(i)}- item`).join('\n'), `${'- '.repeat(2_000)}x`, `${'> '.repeat(16)}x\n`.repeat(500), '```js\nnever closed\n'.repeat(300),
  '*'.repeat(50_000), '['.repeat(50_000), '`'.repeat(20_001), '_a'.repeat(9_000), '![['.repeat(5_000), '<'.repeat(30_000), '&'.repeat(30_000), '\\'.repeat(30_000), '#'.repeat(30_000), '<a '.repeat(6_000), 'a@'.repeat(9_000),
  `${Array.from({ length: 3_000 }, (_, i) => `[r${i}]: http://127.0.0.1:9/${i}`).join('\n')}\n\n${Array.from({ length: 3_000 }, (_, i) => `[t][r${i}]`).join(' ')}`, 'x\n'.repeat(2_000),
];
const table = (rows, columns) => `|${'h|'.repeat(columns)}\n|${'-|'.repeat(columns)}\n${`|${'c|'.repeat(columns)}\n`.repeat(rows)}`;

/** The words and requests of each session of the test. */
export const SESSIONS = {
  markup: { actions: [
    says(MARKUP.join('\n\n')), says(MARKUP.join(' ')), says([...LINKS, '[ref]: javascript:planted=16'].join('\n\n')), says(`\`\`\`html\n${MARKUP.join('\n')}\n\`\`\``),
    ...calls('Bash', { command: `echo '${MARKUP.join('')}'`, description: MARKUP[0] }, MARKUP.join('\n')),
    ...calls('Bash', { command: 'cat codes' }, '\u001b[31mred\u001b[0m \u001b[8mconcealed\u001b[0m \u001b]8;;javascript:planted=17\u0007a link of a terminal\u001b]8;;\u0007 \u001b]8;;http://127.0.0.1:9/x\u001b\\web link\u001b]8;;\u001b\\ \u001b]52;c;cGxhbnRlZA==\u0007\u001b]0;title\u0007\u001b[2J\u001b[H\u001bP+q544e\u001b\\ the end\u0007\u0000\u0001'),
    ...calls('<img src=x onerror="planted=20">', { '<b onclick="planted=21">key</b>': '<script>planted=22</script>' }, '<script>planted = 23</script>'),
    ...calls('mcp__<b>srv</b>__<i>do</i>', { a: '<b>' }, 'ok'),
    ...calls('WebFetch', { url: 'javascript:planted=24', prompt: '<b>x</b>' }, '[x](javascript:planted=25)'),
    ...calls('Read', { file_path: '/a/<img src=x onerror=planted=26>.svg' }, [{ type: 'image', source: { type: 'base64', media_type: 'image/svg+xml', data: 'PHN2Zz48L3N2Zz4=' } }, { type: 'text', text: '<svg onload=planted=27>' }]),
    ...calls('TodoWrite', { todos: [{ content: '<script>planted=28</script>', status: 'in_progress', activeForm: '<b>doing</b>' }] }, 'ok'),
    { stderr: 'a line of stderr\n' }, says('The last words.'),
  ] },
  names: { actions: [
    ...calls('constructor', JSON.parse('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":2}},"toString":"x","length":3}'), 'ok', { id: '__proto__' }),
    ...calls('__proto__', { prototype: 1 }, 'ok', { id: 'constructor' }), ...calls('toString', { then: 'x' }, 'ok', { id: '../../../health' }),
    ...calls('TodoWrite', { todos: [{ content: 'a', status: 'constructor' }, { content: 'b', status: '__proto__' }, { content: 'c', status: 7 }, 'x', null] }, 'ok'),
    ...calls('AskUserQuestion', { questions: [{ question: 'constructor', header: '__proto__', options: [] }] }, 'ok'),
    ...calls('Edit', { file_path: {}, old_string: 7, new_string: [] }, 'ok'), ...calls('Bash', { command: ['rm'] }, [{ type: 'text', text: 7 }, 7, null]),
    { line: { type: 'constructor', x: 1 } }, { line: { type: 'system', subtype: '__proto__' } }, says('&valueOf; &toString;'), deep(100), deep(2_000), says('The last words.'),
    { result: { is_error: true, subtype: 'constructor', terminal_reason: '__proto__' } },
  ], labels: { constructor: '__proto__' } },
  bombs: { prompt: 'T'.repeat(100_000), actions: [
    ...BOMBS.map(says), says(table(1_000, 10)), says(table(10, 1_000)), { text: 'x'.repeat(5_000), repeat: 1_000, only: 'whole' }, ...calls('Bash', { command: 'cat big' }, 'y'.repeat(5_000_000)),
    ...calls('mcp__a__b', { long: 'z'.repeat(60_000) }, 'w'.repeat(60_000)), says('The last words.'),
  ] },
  hiddenCommand: { title: `Title ${HIDES}`, tag: `tag${HIDES}`, labels: { key: `v${HIDES}` }, actions: [
    says(`Words ${HIDES} and ${'\u0301'.repeat(40)}`), ...calls('Bash', { command: `ls ${HIDES}`, description: HIDES }, HIDES), ...calls(`Tool${HIDES}`, { [HIDES]: HIDES }, HIDES), ...calls('Read', { file_path: `/a/${HIDES}.txt` }, HIDES),
    ...calls('Edit', { file_path: `/a/${HIDES}.txt`, old_string: 'a', new_string: HIDES }, 'ok'), { stderr: `err ${HIDES}\n` }, { line: { type: 'system', subtype: HIDES } },
    asks('Bash', { command: `echo ok${' '.repeat(300)}; rm -rf ~ # ${HIDES}`, description: HIDES }),
  ] },
  hiddenQuestion: { title: `Q ${HIDES}`, actions: [asks('AskUserQuestion', { questions: [{ question: `Which ${HIDES}?`, header: HIDES, multiSelect: false, options: [{ label: `A${HIDES}`, description: HIDES, preview: HIDES }, { label: 'B', description: '' }] }] })] },
  hiddenForm: { title: `F ${HIDES}`, actions: [{ request: { subtype: 'elicitation', mcp_server_name: `srv${HIDES}`, message: `Fill ${HIDES}`, mode: 'form', requested_schema: JSON.parse(JSON.stringify({ type: 'object', required: ['place', 'constructor'], properties: {
    place: { type: 'string', title: `T${HIDES}`, description: HIDES, enum: [`one${HIDES}`, 'two'] }, constructor: { type: 'string' }, toString: { type: 'boolean' }, many: { type: 'array', items: { type: 'string', enum: [HIDES, 'y'] } },
  } }).replace('"place":', '"__proto__":{"type":"string","title":"Proto"},"place":')) } }] },
};
