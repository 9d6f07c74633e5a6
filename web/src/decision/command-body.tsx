// Owns how a command is shown before it runs: whole, each command of the line on its own row, with its risks on the words.
import { For, Show } from 'solid-js';
import { SafeText } from '../text/safe';
import type { CommandRow, Mark, Risk } from '../lobby/risk';

interface Part { text: string; isMarked: boolean }

/** The row's text, cut where marks begin and end. */
function partsOf({ text, marks }: CommandRow): Part[] {
  const parts: Part[] = [];
  let at = 0;
  for (const { from, to } of marks) {
    if (to <= at) continue;
    const begin = Math.max(from, at);
    if (begin > at) parts.push({ text: text.slice(at, begin), isMarked: false });
    parts.push({ text: text.slice(begin, to), isMarked: true });
    at = to;
  }
  if (at < text.length) parts.push({ text: text.slice(at), isMarked: false });
  return parts;
}

const reasonsIn = (marks: Mark[]): string[] => [...new Set(marks.map((mark) => mark.reason))];

/** The rows of a command line. */
export function CommandRows(props: { risk: Risk; command: string }) {
  const rows = () => (props.risk.rows.length > 0 ? props.risk.rows : [{ text: props.command, marks: [] }]);
  const others = () => props.risk.reasons.filter((reason) => !rows().some((row) => row.marks.some((mark) => mark.reason === reason)));
  return (
    <>
      <ol class="command-rows">
        <For each={rows()}>{(row) => (
          <li>
            <code><For each={partsOf({ ...row, text: row.text.replace(/^[ \t]{1,8}(?=\S)/, ''), marks: shifted(row) })}>{(part) => (
              part.isMarked ? <mark class="risk-word"><SafeText text={part.text} /></mark> : <SafeText text={part.text} />)}</For></code>
            <For each={reasonsIn(row.marks)}>{(reason) => <p class="risk-reason">▲ {reason}</p>}</For>
          </li>
        )}</For>
      </ol>
      <Reasons reasons={others()} />
    </>
  );
}

/** The marks of a row whose leading blanks are not drawn. */
function shifted(row: CommandRow): Mark[] {
  const by = /^[ \t]{1,8}(?=\S)/.exec(row.text)?.[0].length ?? 0;
  return row.marks.map((mark) => ({ ...mark, from: mark.from - by, to: mark.to - by }));
}

/** Risks of the whole request. */
export function Reasons(props: { reasons: string[] }) {
  return (
    <Show when={props.reasons.length > 0}>
      <ul class="risk-list"><For each={props.reasons}>{(reason) => <li class="risk-reason">▲ It {reason.replace(/^the agent holds/, 'is held back: the agent holds')}</li>}</For></ul>
    </Show>
  );
}
