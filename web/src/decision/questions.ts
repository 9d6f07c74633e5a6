// Owns what questions ask, and what is sent for what was chosen.
import type { Approval, DecisionRequest } from '../daemon/types';

/** A question. */
export interface Question { text: string; header: string; isMany: boolean; options: { label: string; description: string; preview: string }[] }

/** A person's answer to one question. */
export interface Given { labels: string[]; isOther: boolean; other: string; note: string; isSkipped: boolean }

const text = (value: unknown): string => (typeof value === 'string' ? value : '');

/** The questions of a request. */
export function questionsOf(approval: Approval): Question[] {
  return (approval.questions ?? []).map((one) => {
    const { question, header, multiSelect, options } = one as Record<string, unknown>;
    return {
      text: text(question), header: text(header), isMany: multiSelect === true,
      options: (Array.isArray(options) ? options as Record<string, unknown>[] : []).map((option) => ({ label: text(option.label), description: text(option.description), preview: text(option.preview) })),
    };
  });
}

/** Whether a question needs nothing more. */
export const isAnswered = (given: Given): boolean => given.isSkipped || given.labels.length > 0 || (given.isOther && given.other.trim() !== '');

/** The answer to be sent: answers, remarks, and skipped questions, each by the question's text. */
export function answersOf(questions: Question[], given: readonly Given[]): Pick<DecisionRequest, 'answers' | 'notes' | 'skipped'> {
  const answers: [question: string, answer: string | string[]][] = [];
  const notes: [question: string, note: string][] = [];
  const skipped: string[] = [];
  for (const [i, question] of questions.entries()) {
    const one = given[i];
    if (one === undefined || one.isSkipped || !isAnswered(one)) { skipped.push(question.text); continue; }
    const other = one.isOther && one.other.trim() !== '' ? [one.other.trim()] : [];
    answers.push([question.text, question.isMany ? [...one.labels, ...other] : other[0] ?? one.labels[0] ?? '']);
    if (one.note.trim() !== '') notes.push([question.text, one.note.trim()]);
  }
  return { answers: Object.fromEntries(answers), ...(notes.length > 0 ? { notes: Object.fromEntries(notes) } : {}), ...(skipped.length > 0 ? { skipped } : {}) };
}
