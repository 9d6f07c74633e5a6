// Owns "Always allow" in words: what a permission update means, how long it holds, and which ones can be offered.
import type { Approval } from '../daemon/types';
import { modeWord } from '../parts/mode-words';
import { inputOf, isShell, mcpOf, toolOf } from '../lobby/request';

/** A permission update, as the agent suggests it and takes it back. */
export type Update = Record<string, unknown> & { type: string; destination?: string };

/** Where an update is kept. */
export type Scope = 'session' | 'localSettings' | 'projectSettings' | 'userSettings';

/** The scopes, in words, narrowest first. */
export const SCOPES: { scope: Scope; words: string }[] = [
  { scope: 'session', words: 'until this session ends' },
  { scope: 'localSettings', words: 'in this directory, for you' },
  { scope: 'projectSettings', words: 'in this directory, for all (shared file)' },
  { scope: 'userSettings', words: 'everywhere' },
];

interface Rule { toolName: string; ruleContent?: string }

/** A rule as the agent writes it: `Bash(npm test *)`. */
export const ruleText = ({ toolName, ruleContent }: Rule): string => (ruleContent === undefined || ruleContent === '' ? toolName : `${toolName}(${ruleContent})`);

const rulesIn = (update: Update): Rule[] => (Array.isArray(update.rules) ? update.rules as Rule[] : []);

/** The meaning of a rule, in words. */
export function ruleWords({ toolName, ruleContent }: Rule): string {
  const mcp = mcpOf(toolName);
  if (ruleContent === undefined || ruleContent === '') return mcp === null ? `every use of ${toolName}` : `every use of ${mcp.server}: ${mcp.tool}`;
  if (toolName === 'WebFetch' && ruleContent.startsWith('domain:')) return `every page of ${ruleContent.slice(7)}`;
  if (/^(?:Read|Edit|Write)$/.test(toolName)) return `${toolName === 'Read' ? 'reading' : 'changing'} ${ruleContent.replace(/\/\*\*$/, '').replace(/^\/\//, '/')}${ruleContent.endsWith('/**') ? ' and all below it' : ''}`;
  const prefix = /^(.*?)(?::\*| \*)$/s.exec(ruleContent)?.[1];
  return prefix === undefined ? `\`${ruleContent}\`, exactly` : `\`${prefix}\` and anything after it`;
}

/** An update in words, with the rule that it makes. */
export function updateWords(update: Update): { words: string; rule: string } {
  const rules = rulesIn(update);
  if (rules.length > 0) return { words: rules.map(ruleWords).join(', and '), rule: rules.map(ruleText).join(', ') };
  if (update.type === 'setMode') {
    const mode = String(update.mode);
    return { words: mode === 'acceptEdits' ? 'changes of files in its directory, without asking' : `the mode “${modeWord(mode)}”`, rule: `mode: ${mode}` };
  }
  if (update.type === 'addDirectories') {
    const directories = Array.isArray(update.directories) ? update.directories.map(String) : [];
    return { words: `work in ${directories.join(' and ')} as well`, rule: `directories: ${directories.join(', ')}` };
  }
  return { words: update.type, rule: JSON.stringify(update) };
}

/** Whether an update allows all that a tool can do. */
export function isWide(update: Update): boolean {
  if (update.type === 'setMode') return update.mode === 'bypassPermissions';
  return rulesIn(update).some(({ toolName, ruleContent }) => (ruleContent === undefined || ruleContent === '' || /^[*:\s]+$/.test(ruleContent)) && mcpOf(toolName) === null
    || /^(?:sudo|bash|sh|python3?|node|env|xargs|npx|curl|eval)(?::\*| \*)$/.test(ruleContent ?? ''));
}

/** The rules that can be allowed for good: those that the agent suggests, else the very command or the very tool. */
export function updatesFor(approval: Approval): Update[] {
  if (approval.requires_user_interaction || approval.kind !== 'tool') return [];
  const suggested = (approval.suggestions ?? []).filter((one): one is Update => typeof (one as { type?: unknown }).type === 'string');
  if (suggested.length > 0) return suggested;
  const tool = toolOf(approval);
  const { command } = inputOf(approval);
  // A line of several commands, or one with signs of the shell's language, is not what a rule would compare.
  if (isShell(tool) && typeof command === 'string') {
    return /^[\w ./:=@+,-]{1,200}$/.test(command) ? [{ type: 'addRules', behavior: 'allow', destination: 'session', rules: [{ toolName: tool, ruleContent: command }] }] : [];
  }
  return mcpOf(tool) === null ? [] : [{ type: 'addRules', behavior: 'allow', destination: 'session', rules: [{ toolName: tool }] }];
}

/** Which updates are chosen before a person chooses: the rules about what is asked. More than that, such as a mode, is only offered. */
export const chosenFirst = (updates: Update[]): boolean[] => {
  const hasRules = updates.some((update) => update.type === 'addRules');
  return updates.map((update) => !hasRules || update.type === 'addRules');
};

/** Updates as they are sent, kept in a scope. A mode and a directory are of the session where the agent said so. */
export const inScope = (updates: Update[], scope: Scope): Update[] =>
  updates.map((update) => ({ ...update, destination: update.type === 'addRules' ? scope : update.destination ?? 'session' }));
