// Owns the reading of JSON that is still being written: the input of a call, as far as it is known.
import type { CallBlock } from './model';

const read = new WeakMap<CallBlock, { json: string; value: Record<string, unknown> }>();

/** The input of a call; while it is being written, what is there so far. */
export function inputOf(call: CallBlock): Record<string, unknown> {
  if (call.partialJson === '') return call.input;
  const before = read.get(call);
  // A long input is not read again for each piece of it.
  if (before !== undefined && call.partialJson.length < before.json.length * 1.05 + 16 && before.json.length > 4_000) return before.value;
  const value = readPartial(call.partialJson) ?? before?.value ?? {};
  read.set(call, { json: call.partialJson, value });
  return value;
}

/** An object of JSON that may break off anywhere; `null` if nothing can be read of it. */
export function readPartial(json: string): Record<string, unknown> | null {
  const closers: string[] = [];
  let inString = false;
  let isEscaped = false;
  // A comma or an opening bracket is a place at which what follows can be left out.
  let safeEnd = 0;
  let safeClosers = '';
  for (let at = 0; at < json.length; at += 1) {
    const char = json[at]!;
    if (isEscaped) { isEscaped = false; continue; }
    if (inString) {
      if (char === '\\') isEscaped = true; else if (char === '"') inString = false;
      continue;
    }
    if (char === '"') inString = true;
    else if (char === '{' || char === '[') {
      closers.push(char === '{' ? '}' : ']');
      safeEnd = at + 1;
      safeClosers = closers.toReversed().join('');
    } else if (char === '}' || char === ']') closers.pop();
    else if (char === ',') {
      safeEnd = at;
      safeClosers = closers.toReversed().join('');
    }
  }
  const tail = isEscaped ? json.slice(0, -1) : json.replace(/\\u[0-9a-fA-F]{0,3}$/, '');
  const tries = [`${tail}${inString ? '"' : ''}${closers.toReversed().join('')}`, `${json.slice(0, safeEnd)}${safeClosers}`];
  for (const text of tries) {
    try {
      const value: unknown = JSON.parse(text);
      if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
    } catch { /* the next form is shorter */ }
  }
  return null;
}
