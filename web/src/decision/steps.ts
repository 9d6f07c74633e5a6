// Owns the steps of a plan: its outermost list items, each with the lines that belong to it, and the text that they make.

/** A part of a plan: a step, or what stands between steps. */
export interface PlanPart { text: string; isStep: boolean }

const ITEM = /^(?:\d{1,3}[.)]|[-*+])\s/;

/** A plan in its parts. Their texts, joined by line ends, are the plan. */
export function partsOf(plan: string): PlanPart[] {
  const parts: PlanPart[] = [];
  let isInFence = false;
  for (const line of plan.split('\n')) {
    const begins = !isInFence && ITEM.test(line);
    const last = parts.at(-1);
    const belongs = last !== undefined && !begins && (isInFence || (last.isStep ? line.trim() === '' || /^\s/.test(line) : true));
    if (/^\s*(?:```|~~~)/.test(line)) isInFence = !isInFence;
    if (belongs) last.text += `\n${line}`; else parts.push({ text: line, isStep: begins });
  }
  return parts;
}

/** The plan that parts make. */
export const planOf = (parts: PlanPart[]): string => parts.map((part) => part.text).join('\n');

/** A new step behind the last one, with the next number where steps have numbers. */
export function withStep(parts: PlanPart[], words: string): PlanPart[] {
  const last = parts.findLastIndex((part) => part.isStep);
  const before = parts[last]?.text ?? '';
  const number = /^(\d{1,3})([.)])/.exec(before);
  const mark = number === null ? /^[-*+]/.exec(before)?.[0] ?? '-' : `${Number(number[1]) + 1}${number[2]}`;
  return parts.toSpliced(last < 0 ? parts.length : last + 1, 0, { text: `${mark} ${words}`, isStep: true });
}
