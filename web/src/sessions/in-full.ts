// Owns which commands a row may show with Allow beside them: one line, wholly visible, and nothing in it that a person could
// overlook.
import type { Approval } from '../daemon/types';
import { riskOf } from '../lobby/risk';
import { inputOf } from '../lobby/words';

/** A longer command would not be seen whole in a row. */
const LONGEST = 200;

/** The command that an approval asks to run, if a row shows all that would happen; else `null`. */
export function commandInFull(approval: Approval | undefined, cwd: string): string | null {
  if (approval === undefined || approval.kind !== 'tool' || approval.request_truncated || approval.tool_name !== 'Bash') return null;
  const { command, run_in_background, dangerouslyDisableSandbox } = inputOf(approval);
  if (typeof command !== 'string' || command.length > LONGEST || run_in_background === true || dangerouslyDisableSandbox === true) return null;
  // Where a word is marked, the card asks twice, and a row does not ask at all.
  if (riskOf(approval, cwd).reasons.length > 0) return null;
  // Anything but printable ASCII could be something else than it seems.
  return /^[ -~]+$/.test(command) && !/ {9}/.test(command) ? command : null;
}
