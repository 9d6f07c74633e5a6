import { render } from 'solid-js/web';
import { expect, test } from 'vitest';
import { BusyButton } from '../src/parts/busy';

test('a button says that its work goes on, keeps the focus, and takes no second press meanwhile', async () => {
  const runs: (() => void)[] = [];
  const place = document.body.appendChild(document.createElement('div'));
  const end = render(() => <BusyButton busyWord="Stopping…" run={() => new Promise<void>((resolve, reject) => { runs.push(runs.length === 0 ? resolve : reject); })}>Stop</BusyButton>, place);
  const button = place.querySelector('button')!;
  const said = () => [button.textContent, button.getAttribute('aria-disabled'), document.activeElement === button];
  button.focus();
  expect(said()).toEqual(['Stop', 'false', true]);
  button.click();
  button.click();
  expect(runs).toHaveLength(1);
  expect(said()).toEqual(['Stopping…', 'true', true]);
  runs[0]!();
  await new Promise((resolve) => { setTimeout(resolve); });
  expect(said()).toEqual(['Stop', 'false', true]);
  // Work that fails ends too.
  button.click();
  runs[1]!();
  await new Promise((resolve) => { setTimeout(resolve); });
  expect(said()).toEqual(['Stop', 'false', true]);
  end();
});
