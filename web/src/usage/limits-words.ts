// Owns the words for the limits of the account.
import type { RateLimit } from '../daemon/types';

const NAMES: Record<string, string> = {
  five_hour: '5 hours', seven_day: '7 days', seven_day_opus: '7 days, Opus', seven_day_sonnet: '7 days, Sonnet',
  seven_day_overage_included: '7 days, with extra usage', overage: 'Extra usage',
};
const WORDS: Record<string, string> = { allowed: 'Free', allowed_warning: 'Near', rejected: 'Reached' };

/** The name of a limit; a newer one is shown as the CLI says it. */
export const nameOf = (limit: RateLimit): string => {
  if (limit.kind === null) return 'Limit';
  return Object.hasOwn(NAMES, limit.kind) ? NAMES[limit.kind] ?? limit.kind : limit.kind.replaceAll('_', ' ');
};

/** How it stands, in a word. */
export const wordOf = (limit: RateLimit): string => (Object.hasOwn(WORDS, limit.status) ? WORDS[limit.status] ?? limit.status : limit.status);

/** Whether it began anew since it was said. */
export const isOld = (limit: RateLimit, now: number): boolean => limit.resets_at !== null && Date.parse(limit.resets_at) <= now;

const size = (limit: RateLimit): number => (limit.status === 'rejected' ? 2 : limit.utilization ?? -1);

/** The order of the list: what is reached, then the fullest. */
export const bySize = (a: RateLimit, b: RateLimit): number => size(b) - size(a);
