// Owns the forms of MCP servers: a JSON schema as fields, checks with words, and the content that is sent.

import { entryOf } from '../fold/raw';

/** A field of a form. */
export interface Field {
  name: string;
  title: string;
  description: string;
  isRequired: boolean;
  kind: 'text' | 'long' | 'number' | 'integer' | 'yes-no' | 'choice' | 'choices';
  choices: { value: string; title: string }[];
  input: 'text' | 'email' | 'url' | 'date' | 'datetime-local';
  least: number | null;
  most: number | null;
  pattern: string | null;
  fallback: Value;
}

/** A value that is filled in: a text as it was typed, a tick, or the chosen ones. */
export type Value = string | boolean | string[];

type Schema = Record<string, unknown>;
const asSchema = (value: unknown): Schema => (value !== null && typeof value === 'object' ? value as Schema : {});
const asNumber = (value: unknown): number | null => (typeof value === 'number' ? value : null);
const INPUTS: Record<string, Field['input']> = { email: 'email', uri: 'url', date: 'date', 'date-time': 'datetime-local' };

function choicesIn(schema: Schema): Field['choices'] {
  const named = [schema.oneOf, schema.anyOf].find(Array.isArray) as Schema[] | undefined;
  if (named !== undefined) return named.filter((one) => one.const !== undefined).map((one) => ({ value: String(one.const), title: String(one.title ?? one.const) }));
  const names = Array.isArray(schema.enumNames) ? schema.enumNames : [];
  return Array.isArray(schema.enum) ? schema.enum.map((value, i) => ({ value: String(value), title: String(names[i] ?? value) })) : [];
}

function fieldOf(name: string, schema: Schema, isRequired: boolean): Field {
  const items = asSchema(schema.items);
  const choices = choicesIn(schema.type === 'array' ? items : schema);
  const kind: Field['kind'] = schema.type === 'boolean' ? 'yes-no' : schema.type === 'integer' ? 'integer' : schema.type === 'number' ? 'number'
    : schema.type === 'array' ? 'choices' : choices.length > 0 ? 'choice' : (asNumber(schema.maxLength) ?? 0) > 200 ? 'long' : 'text';
  const given = schema.default;
  const fallback: Value = kind === 'yes-no' ? given === true : kind === 'choices' ? (Array.isArray(given) ? given.map(String) : []) : given === undefined || given === null ? '' : String(given);
  return {
    name, title: String(schema.title ?? name), description: String(schema.description ?? ''), isRequired, kind, choices, fallback,
    input: entryOf(INPUTS, String(schema.format)) ?? 'text', pattern: typeof schema.pattern === 'string' ? schema.pattern : null,
    least: asNumber(schema.minimum) ?? asNumber(schema.minLength) ?? asNumber(schema.minItems), most: asNumber(schema.maximum) ?? asNumber(schema.maxLength) ?? asNumber(schema.maxItems),
  };
}

/** The fields of a schema, in the server's order. */
export function fieldsOf(schema: unknown, order: readonly string[] | null): Field[] {
  const properties = asSchema(asSchema(schema).properties);
  const required = new Set(Array.isArray(asSchema(schema).required) ? asSchema(schema).required as string[] : []);
  const names = [...new Set([...(order ?? []).filter((name) => Object.hasOwn(properties, name)), ...Object.keys(properties)])];
  return names.map((name) => fieldOf(name, asSchema(properties[name]), required.has(name)));
}

/** The fault of a value, in words; `null`: none. */
export function problemOf(field: Field, value: Value): string | null {
  if (field.kind === 'yes-no') return null;
  if (Array.isArray(value)) {
    if (value.length === 0 && !field.isRequired) return null;
    if (value.length < (field.least ?? (field.isRequired ? 1 : 0))) return `Choose at least ${field.least ?? 1}.`;
    return field.most !== null && value.length > field.most ? `Choose at most ${field.most}.` : null;
  }
  const text = String(value);
  if (text.trim() === '') return field.isRequired ? 'This is needed.' : null;
  if (field.kind === 'number' || field.kind === 'integer') {
    const n = Number(text);
    if (!Number.isFinite(n)) return 'This must be a number.';
    if (field.kind === 'integer' && !Number.isInteger(n)) return 'This must be a whole number.';
    if (field.least !== null && n < field.least) return `At least ${field.least}.`;
    return field.most !== null && n > field.most ? `At most ${field.most}.` : null;
  }
  if (field.kind === 'choice') return field.choices.some((one) => one.value === text) ? null : 'Choose one.';
  const length = Array.from(text).length;
  if (field.least !== null && length < field.least) return `At least ${field.least} characters; these are ${length}.`;
  if (field.most !== null && length > field.most) return `At most ${field.most} characters; these are ${length}.`;
  if (field.input === 'email' && !/^[^\s@]+@[^\s@]+$/.test(text)) return 'This must be an email address.';
  if (field.input === 'url' && !URL.canParse(text)) return 'This must be an address, such as https://example.org.';
  // A pattern is the server's own to check: one that is made to hold up its reader would hold up the page.
  return null;
}

/** The content that is sent: what is empty and not needed is left out. Servers name fields as they like, also `__proto__`. */
export function contentOf(fields: Field[], valueOf: (field: Field) => Value): Record<string, unknown> {
  const content: [name: string, value: unknown][] = [];
  for (const field of fields) {
    const value = valueOf(field);
    if (field.kind === 'yes-no') content.push([field.name, value === true]);
    else if (Array.isArray(value)) { if (value.length > 0 || field.isRequired) content.push([field.name, value]); }
    else if (String(value).trim() === '') continue;
    else if (field.kind === 'number' || field.kind === 'integer') content.push([field.name, Number(value)]);
    else content.push([field.name, field.input === 'datetime-local' ? isoTime(String(value)) : value]);
  }
  return Object.fromEntries(content);
}

const isoTime = (text: string): string => (Number.isNaN(Date.parse(text)) ? text : new Date(text).toISOString());
