// Owns the page's one Trusted Types policy (`require-trusted-types-for 'script'`): the templates that the compiler took from
// our own source, and the scripts of our own build. Everything else that would run or make markup of text is refused.

interface Rules { createHTML: (html: string) => string; createScriptURL: (url: string) => string }
interface Policy { createHTML(html: string): string; createScriptURL(url: string): string }
interface Factory { createPolicy(name: string, rules: Rules): Policy }

/** Lets the files of our build pass, and nothing else. */
function ownScript(url: string): string {
  const { origin, pathname } = new URL(url, location.origin);
  const isOurs = origin === location.origin && (pathname === '/sw.js' || pathname.startsWith('/assets/') || import.meta.env.DEV);
  if (!isOurs) throw new TypeError(`${url} is no script of this page`);
  return url;
}

const rules: Rules = { createHTML: (html) => html, createScriptURL: ownScript };
const factory = (globalThis as { trustedTypes?: Factory }).trustedTypes;
const policy: Policy = factory?.createPolicy('trunkline-template', rules) ?? rules;

/** Markup of the compiler's templates; only `trusted-templates.ts` calls it. */
export const templateMarkup = (html: string): string => policy.createHTML(html);

/** The address of a script of our build, for `new Worker(…)` and the service worker. */
export const scriptUrl = (url: string): string => policy.createScriptURL(url);
