// Owns the one place where markup is made of text: the templates that the compiler took from our own source. Everything else
// that would make markup of text is refused by the browser (`require-trusted-types-for 'script'`).
import { template as plain } from 'solid-js-web-itself';

export * from 'solid-js-web-itself';

interface Policy { createHTML(html: string): string }
interface Factory { createPolicy(name: string, rules: { createHTML: (html: string) => string }): Policy }

const factory = (globalThis as { trustedTypes?: Factory }).trustedTypes;
const policy = factory?.createPolicy('trunkline-template', { createHTML: (html) => html });

/** A template of the compiler, as a function that makes its nodes. */
export const template: typeof plain = (html, ...rest) => plain((policy?.createHTML(html) ?? html) as string, ...rest);
