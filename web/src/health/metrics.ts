// Owns how the daemon's metrics become figures for people.

/** One figure. */
export interface Sample { name: string; labels: Record<string, string>; value: number }

/** Reads the text format of Prometheus; lines that are none of it are left out. */
export function parse(text: string): Sample[] {
  const samples: Sample[] = [];
  for (const line of text.split('\n')) {
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (match === null) continue;
    const value = Number(match[3]);
    if (Number.isNaN(value)) continue;
    const labels: Record<string, string> = {};
    for (const [, name = '', quoted = ''] of (match[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[name] = quoted.replace(/\\(.)/g, (_, char: string) => (char === 'n' ? '\n' : char));
    }
    samples.push({ name: match[1] ?? '', labels, value });
  }
  return samples;
}

/** The sum of all samples of a name, with these labels. */
export const sum = (samples: Sample[], name: string, labels: Record<string, string> = {}): number => samples
  .filter((one) => one.name === name && Object.entries(labels).every(([label, value]) => one.labels[label] === value))
  .reduce((all, one) => all + one.value, 0);
