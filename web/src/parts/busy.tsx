// Owns buttons that start something slow: while it goes on they say so, and a second press does nothing.
import { createSignal, splitProps, type Accessor, type JSX } from 'solid-js';

type ButtonProps = Omit<JSX.ButtonHTMLAttributes<HTMLButtonElement>, 'onClick'>;

/** Runs one piece of work at a time, and says whether one runs. */
export function createBusy(): [Accessor<boolean>, (work: () => Promise<unknown>) => Promise<void>] {
  const [isBusy, setBusy] = createSignal(false);
  const during = async (work: () => Promise<unknown>) => {
    if (isBusy()) return;
    setBusy(true);
    try {
      await work();
    } finally {
      setBusy(false);
    }
  };
  return [isBusy, during];
}

/** A button. `busyWord` stands in it while `run` goes on, or while `isBusy` says that the same goes on from elsewhere. It keeps
 * the focus meanwhile. */
export function BusyButton(props: ButtonProps & { busyWord: string; isBusy?: boolean; run: () => Promise<unknown> }) {
  const [own, rest] = splitProps(props, ['busyWord', 'isBusy', 'run', 'children']);
  const [isRunning, during] = createBusy();
  const isBusy = () => isRunning() || own.isBusy === true;
  return (
    <button type="button" {...rest} aria-disabled={isBusy()} aria-busy={isBusy()} onClick={() => { if (!isBusy()) void during(own.run).catch(() => undefined); }}>
      {isBusy() ? own.busyWord : own.children}
    </button>
  );
}
