// Owns the place of `solid-js/web` in the build: its templates go through the page's Trusted Types policy.
import { template as plain } from 'solid-js-web-itself';
import { templateMarkup } from './trusted-types';

export * from 'solid-js-web-itself';

/** A template of the compiler, as a function that makes its nodes. */
export const template: typeof plain = (html, ...rest) => plain(templateMarkup(html), ...rest);
