// Owns which words of a request carry a risk, with the reason in words. No mark is no promise: nothing here ever says "safe".
import { shownOf } from '../text/hostile';
import { inputOf, toolOf } from './request';
import { readCommandLine, type Command, type Word } from './command-line';
import type { Approval } from '../daemon/types';

/** A stretch of a text that carries a risk. */
export interface Mark { from: number; to: number; reason: string }

/** A command in its row. The marks count from the start of the row's text. */
export interface CommandRow { text: string; marks: Mark[] }

/** The risk of a request. `reasons` has each reason once; empty: nothing is marked. */
export interface Risk { rows: CommandRow[]; reasons: string[]; marks: Mark[] }

const WRAPPERS = new Set(['env', 'nice', 'nohup', 'time', 'timeout', 'command', 'exec', 'builtin', 'xargs', 'stdbuf', 'setsid', 'then', 'do', 'else', 'if', 'while', '!', 'sudo', 'doas']);
const SHELLS = new Set(['sh', 'bash', 'zsh', 'dash', 'ksh', 'fish']);
const INTERPRETERS = new Set([...SHELLS, 'python', 'python3', 'node', 'perl', 'ruby', 'php', 'deno', 'bun']);
const LOADERS = new Set(['curl', 'wget', 'fetch', 'aria2c']);
const RUNS_LOADED = new Set(['npx', 'bunx', 'uvx', 'pipx']);
const ENDS_PROCESSES = new Set(['kill', 'pkill', 'killall', 'shutdown', 'reboot', 'poweroff', 'halt']);
const DELETES = new Set(['rm', 'rmdir', 'unlink', 'shred', 'truncate', 'dd', 'mkfs', 'wipefs']);
const SENDS = new Set(['scp', 'sftp', 'nc', 'ncat', 'telnet', 'ftp']);
const SECRETS = /(?:^|[/=:@])(?:\.ssh|\.gnupg|\.aws|\.kube|\.docker|\.netrc|\.npmrc|\.pypirc|\.git-credentials|\.pgpass|id_(?:rsa|ed25519|ecdsa)|credentials(?:\.json)?|secrets?(?:\.\w+)?|\.env(?:\.[\w-]+)?|shadow|[\w.-]+\.(?:pem|key|p12|pfx|kdbx))(?:\/|$)/i;
const OWN_RULES = /(?:^|\/)(?:\.claude|\.git\/hooks|\.git\/config|\.mcp\.json|\.bashrc|\.zshrc|\.profile|\.bash_profile|\.zprofile|\.zshenv|crontab|authorized_keys|\.envrc|CLAUDE\.md)(?:\/|$)/;
const HARMLESS_PLACES = /^\/dev\/(?:null|stdout|stderr|stdin|tty|fd\/\d)$/;

const REASONS = {
  deletes: 'deletes files',
  tree: 'deletes directories with all that is in them',
  throwsAway: 'throws away changes that are nowhere else',
  rewritesRemote: 'rewrites the remote branch',
  deletesRemote: 'deletes something on the remote',
  rewritesHistory: 'rewrites history',
  publishes: 'publishes it for everybody',
  root: 'runs as root, or as somebody else',
  rights: 'changes who may read, write or run files',
  downloads: 'downloads something and runs it',
  mayDownload: 'may download a program and run it',
  sends: 'sends data to another machine',
  leaves: 'leaves the directory of the session',
  secrets: 'touches keys or passwords',
  ownRules: 'changes what agents may do, or what runs by itself',
  ends: 'ends other programs',
  hides: 'hides something: characters that cannot be seen',
  computed: 'runs a command that is only known when it runs',
  unread: 'cannot be read: quotes or brackets do not end',
  unsandboxed: 'runs outside of the sandbox',
  safety: 'the agent holds this back for a safety check',
  database: 'deletes data of a database',
  local: 'reaches into this machine or its network',
  unencrypted: 'is not encrypted on its way',
} as const;

/** The directory of a path that a command names, below the session's or not. */
function leaves(path: string, cwd: string): boolean {
  if (HARMLESS_PLACES.test(path)) return false;
  if (/^~|^\$\{?HOME\b/.test(path)) return true;
  if (!path.startsWith('/') && !/(?:^|\/)\.\.(?:\/|$)/.test(path)) return false;
  const parts: string[] = [];
  for (const part of (path.startsWith('/') ? path : `${cwd}/${path}`).split('/')) {
    if (part === '..') parts.pop(); else if (part !== '' && part !== '.') parts.push(part);
  }
  const full = `/${parts.join('/')}`;
  return full !== cwd && !full.startsWith(`${cwd.replace(/\/+$/, '')}/`);
}

/** The path in a word: behind `--to=`, and no address. */
function pathIn(word: string): string | null {
  const value = /^-{1,2}[\w-]+=(.*)$/s.exec(word)?.[1] ?? word;
  return /^[a-z][a-z0-9+.-]*:\/\//i.test(value) || /[\n*?{}]/.test(value) ? null : value;
}

const baseName = (word: string): string => word.split('/').at(-1) ?? word;

/** The marks of one command; they count from the start of the line. */
function marksOf(command: Command, next: Command | undefined, cwd: string, depth: number): Mark[] {
  const marks: Mark[] = [];
  const mark = (word: Word, reason: string) => marks.push({ from: word.from, to: word.to, reason });
  const { words } = command;
  let i = 0;
  // Assignments and programs that run another one come before the program.
  for (; i < words.length; i += 1) {
    const word = words[i] as Word;
    const name = baseName(word.text);
    if (['sudo', 'doas', 'su', 'pkexec'].includes(name)) mark(word, REASONS.root);
    if (/^\w+=/.test(word.text) || WRAPPERS.has(name)) continue;
    if (i > 0 && word.text.startsWith('-') && WRAPPERS.has(baseName((words[i - 1] as Word).text))) continue;
    if (i > 0 && /^\d+[smh]?$/.test(word.text)) continue;
    break;
  }
  const program = words[i];
  const name = baseName(program?.text ?? '');
  const rest = words.slice(i + 1);
  const flags = rest.filter((word) => word.text.startsWith('-')).map((word) => word.text);
  const has = (...wanted: string[]) => flags.some((flag) => wanted.some((one) => (one.startsWith('--') ? flag === one || flag.startsWith(`${one}=`) : /^-[a-zA-Z]+$/.test(flag) && flag.includes(one))));
  if (program !== undefined) {
    if (program.isComputed) mark(program, REASONS.computed);
    if (DELETES.has(name) || name.startsWith('mkfs.')) mark(program, (name === 'rm' && has('r', 'R', '--recursive')) || name.startsWith('mkfs') ? REASONS.tree : REASONS.deletes);
    if (name === 'find') for (const word of rest) if (word.text === '-delete' || /^-exec(?:dir)?$/.test(word.text)) mark(word, word.text === '-delete' ? REASONS.deletes : REASONS.computed);
    if (name === 'git') marks.push(...gitMarks(rest, has));
    if (['chmod', 'chown', 'chgrp', 'setfacl'].includes(name)) mark(program, REASONS.rights);
    if (ENDS_PROCESSES.has(name) || (name === 'systemctl' && rest.some((word) => /^(?:stop|restart|disable|kill|mask)$/.test(word.text)))) mark(program, REASONS.ends);
    if (RUNS_LOADED.has(name) || (['npm', 'pnpm', 'yarn', 'bun'].includes(name) && /^(?:exec|dlx|x|create)$/.test(rest[0]?.text ?? ''))) mark(program, REASONS.mayDownload);
    if (/^(?:npm|pnpm|yarn|cargo|twine|gem|docker|podman)$/.test(name) && rest.some((word) => /^(?:publish|upload)$/.test(word.text) || (/^(?:docker|podman|gem)$/.test(name) && word.text === 'push'))) mark(program, REASONS.publishes);
    if (/^(?:docker|podman|kubectl|helm|terraform|tofu|aws|gcloud|az)$/.test(name)) for (const word of rest) if (/^(?:rm|rmi|prune|delete|destroy|uninstall|terminate-instances|rb)$/.test(word.text)) mark(word, REASONS.deletes);
    if (SENDS.has(name) || (name === 'rsync' && rest.some((word) => /^[^/]+:/.test(word.text)))) mark(program, REASONS.sends);
    if (LOADERS.has(name)) for (const word of rest) if (/^(?:-d|--data\S*|-T|--upload-file|-F|--form|--post-(?:data|file)\S*)$/.test(word.text) || /^-X?(?:POST|PUT)$/.test(word.text)) mark(word, REASONS.sends);
    if (command.joiner.startsWith('|') && next !== undefined && (LOADERS.has(name) || name === 'base64' || name === 'xxd')) {
      const runner = next.words.find((word) => INTERPRETERS.has(baseName(word.text)));
      if (runner !== undefined) mark(program, LOADERS.has(name) ? REASONS.downloads : REASONS.computed);
    }
    if (name === 'eval' || name === 'source' || name === '.') mark(program, REASONS.computed);
    if (name === 'crontab' || name === 'at') mark(program, REASONS.ownRules);
    if (SHELLS.has(name) && depth < 3) {
      const c = rest.findIndex((word) => /^-[a-z]*c$/.test(word.text));
      const script = rest[c + 1];
      if (c >= 0 && script !== undefined) for (const inner of allMarks(script.text, cwd, depth + 1)) mark(script, inner.reason);
    }
    if (INTERPRETERS.has(name)) for (const word of [...rest, ...command.redirects]) if (/(?:^|[\s(<$`])(?:curl|wget)\b/.test(word.text)) mark(word, REASONS.downloads);
    if (['printenv', 'pass', 'gpg', 'ssh-add', 'security', 'op', 'vault'].includes(name)) mark(program, REASONS.secrets);
  }
  for (const word of words) if (/\b(?:drop\s+(?:table|database|schema)|truncate\s+table|delete\s+from)\b/i.test(word.text)) mark(word, REASONS.database);
  for (const word of [...(program?.text.includes('/') === true && !/^\/(?:usr\/|s?bin\/|opt\/)/.test(program.text) ? [program] : []), ...rest, ...command.redirects]) {
    const path = pathIn(word.text);
    if (path === null) continue;
    if (SECRETS.test(path)) mark(word, REASONS.secrets);
    if (OWN_RULES.test(path)) mark(word, REASONS.ownRules);
    if (leaves(path, cwd)) mark(word, REASONS.leaves);
  }
  for (const word of words) {
    if (!word.isComputed) continue;
    for (const inner of word.text.matchAll(/\$\(([^)]*)\)|`([^`]*)`/g)) {
      if (depth < 3) for (const found of allMarks(inner[1] ?? inner[2] ?? '', cwd, depth + 1)) mark(word, found.reason);
    }
  }
  return marks;
}

function gitMarks(rest: Word[], has: (...wanted: string[]) => boolean): Mark[] {
  const marks: Mark[] = [];
  const mark = (word: Word | undefined, reason: string) => { if (word !== undefined) marks.push({ from: word.from, to: word.to, reason }); };
  const verbAt = rest.findIndex((word, i) => !word.text.startsWith('-') && !['-C', '-c', '--git-dir', '--work-tree'].includes(rest[i - 1]?.text ?? ''));
  const verb = rest[verbAt];
  const after = rest.slice(verbAt + 1);
  const flag = (...names: string[]) => after.find((word) => names.some((name) => word.text === name || word.text.startsWith(`${name}=`))) ?? verb;
  switch (verb?.text) {
    case 'push':
      if (has('f', '--force', '--force-with-lease', '--mirror') || after.some((word) => word.text.startsWith('+'))) mark(flag('--force', '-f', '--force-with-lease', '--mirror'), REASONS.rewritesRemote);
      if (has('d', '--delete', '--prune') || after.some((word) => word.text.startsWith(':'))) mark(flag('--delete', '-d', '--prune'), REASONS.deletesRemote);
      break;
    case 'reset': if (has('--hard', '--merge')) mark(flag('--hard'), REASONS.throwsAway); break;
    case 'clean': mark(verb, REASONS.deletes); break;
    case 'restore': mark(verb, REASONS.throwsAway); break;
    case 'checkout': if (has('f', '--force') || after.some((word) => word.text === '--' || word.text === '.')) mark(verb, REASONS.throwsAway); break;
    case 'stash': if (['drop', 'clear'].includes(after[0]?.text ?? '')) mark(verb, REASONS.throwsAway); break;
    case 'branch': case 'tag': if (has('D', 'd', '--delete')) mark(verb, REASONS.throwsAway); break;
    case 'rebase': case 'filter-branch': case 'filter-repo': case 'reflog': case 'update-ref': case 'gc': mark(verb, REASONS.rewritesHistory); break;
    case 'commit': if (has('--amend')) mark(flag('--amend'), REASONS.rewritesHistory); break;
    case 'config': mark(verb, REASONS.ownRules); break;
    default: break;
  }
  return marks;
}

function allMarks(line: string, cwd: string, depth: number): Mark[] {
  const { commands, isClear } = readCommandLine(line);
  const marks = commands.flatMap((command, i) => marksOf(command, commands[i + 1], cwd, depth));
  if (!isClear) marks.push({ from: 0, to: line.length, reason: REASONS.unread });
  return marks;
}

/** The commands of a line, each with the marks on its words. */
export function commandRisk(line: string, cwd: string): Risk {
  const { commands } = readCommandLine(line);
  const marks = allMarks(line, cwd, 0);
  const { pieces, dropped } = shownOf(line);
  if (dropped > 0 || pieces.some((piece) => piece.kind === 'chip')) marks.push({ from: 0, to: 0, reason: REASONS.hides });
  const rows = commands.map((command) => ({
    text: command.text.replace(/\s+$/, ''),
    marks: once(marks.filter((mark) => mark.to > mark.from && mark.from >= command.from && mark.to <= command.to && mark.reason !== REASONS.unread)
      .map((mark) => ({ ...mark, from: mark.from - command.from, to: mark.to - command.from }))),
  }));
  return { rows, marks, reasons: [...new Set(marks.map((mark) => mark.reason))] };
}

/** Marks in their order; of those about the same words and reason one. */
const once = (marks: Mark[]): Mark[] => {
  const seen = new Set<string>();
  return marks.filter((mark) => {
    const key = `${mark.from} ${mark.to} ${mark.reason}`;
    return !seen.has(key) && seen.add(key);
  }).sort((a, b) => a.from - b.from || b.to - a.to);
};

function addressReasons(address: string): string[] {
  try {
    const url = new URL(address);
    const reasons: string[] = [];
    if (url.protocol === 'http:') reasons.push(REASONS.unencrypted);
    if (/^(?:localhost|.*\.local|\[.*\]|(?:127|10|0|192\.168|169\.254|172\.(?:1[6-9]|2\d|3[01]))\..*)$/.test(url.hostname)) reasons.push(REASONS.local);
    if (url.username !== '' || /(?:^|\.)xn--/.test(url.hostname)) reasons.push('has an address that looks like another one');
    return reasons;
  } catch {
    return ['has an address that cannot be read'];
  }
}

/** All texts in a value, at any depth. */
function textsIn(value: unknown, depth = 0): string[] {
  if (typeof value === 'string') return [value];
  if (depth > 8 || value === null || typeof value !== 'object') return [];
  return Object.values(value).flatMap((one) => textsIn(one, depth + 1));
}

/** The doings of a request that a person should look at twice. */
export function riskOf(approval: Approval, cwd: string, changed?: Record<string, unknown>): Risk {
  const input = changed ?? inputOf(approval);
  const tool = toolOf(approval);
  const reasons: string[] = [];
  let rows: CommandRow[] = [];
  let marks: Mark[] = [];
  if (typeof input.command === 'string') {
    const risk = commandRisk(input.command, cwd);
    ({ rows, marks } = risk);
    reasons.push(...risk.reasons);
  }
  const path = input.file_path ?? input.notebook_path ?? input.path;
  if (typeof path === 'string') {
    if (SECRETS.test(path)) reasons.push(REASONS.secrets);
    if (OWN_RULES.test(path) && !/^(?:Read|Glob|Grep|LS)$/.test(tool)) reasons.push(REASONS.ownRules);
    if (leaves(path, cwd)) reasons.push(REASONS.leaves);
  }
  if (typeof input.url === 'string') reasons.push(...addressReasons(input.url));
  if (approval.kind === 'elicitation' && approval.url !== null) reasons.push(...addressReasons(approval.url));
  if (input.dangerouslyDisableSandbox === true || approval.reason_type === 'sandboxOverride') reasons.push(REASONS.unsandboxed);
  if (approval.reason_type === 'safetyCheck') reasons.push(REASONS.safety);
  if (textsIn(input).some((text) => text.length < 200_000 && hides(text))) reasons.push(REASONS.hides);
  return { rows, marks, reasons: [...new Set(reasons)] };
}

function hides(text: string): boolean {
  const { pieces, dropped } = shownOf(text, 'code');
  return dropped > 0 || pieces.some((piece) => piece.kind === 'chip');
}
