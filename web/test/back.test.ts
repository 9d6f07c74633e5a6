// Tests that Back closes the newest layer and nothing else, however a layer is closed and whatever is opened out of it.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Layers, type Entries } from '../src/parts/back';

/** A history as browsers have it: going takes a while, and a new entry cuts off those after it. */
class Tab implements Entries {
  entries: { url: string; state: unknown }[] = [{ url: '/', state: null }];
  at = 0;
  layers = new Layers(this);

  get state(): unknown {
    return this.entries[this.at]!.state;
  }

  get url(): string {
    return this.entries[this.at]!.url;
  }

  pushState(state: unknown, _title: string, url = this.url): void {
    this.entries = [...this.entries.slice(0, this.at + 1), { url, state }];
    this.at += 1;
  }

  go(by = 0): void {
    setTimeout(() => {
      if (this.entries[this.at + by] === undefined) return;
      this.at += by;
      this.layers.onPop();
    }, 5);
  }

  /** The router's way with a link: a moment passes before the address changes. */
  visit(url: string): void {
    const open = (replaces: boolean) => {
      this.layers.leaving(true);
      setTimeout(() => {
        if (replaces) this.entries[this.at] = { url, state: null }; else this.pushState(null, '', url);
        this.layers.leaving(false);
      }, 20);
    };
    if (!this.layers.redirects(false, open)) open(false);
  }
}

let tab: Tab;
const calm = () => vi.advanceTimersByTime(5_000);
const back = () => { tab.go(-1); calm(); };
/** Opens a layer as a component does: Back takes it away, and so does `end`. */
const layer = () => {
  const one = { isOpen: true, end: () => { one.isOpen = false; leave(); } };
  const leave = tab.layers.add(() => { one.end(); });
  return one;
};

beforeEach(() => { vi.useFakeTimers(); tab = new Tab(); });
afterEach(() => { vi.useRealTimers(); });

test('Back closes one layer after the other, the newest first, and then leaves the page', () => {
  tab.visit('/s/1');
  calm();
  const [menu, dialog] = [layer(), layer()];
  back();
  expect([menu.isOpen, dialog.isOpen, tab.url]).toEqual([true, false, '/s/1']);
  back();
  expect([menu.isOpen, tab.url]).toEqual([false, '/s/1']);
  back();
  expect(tab.url).toBe('/');
});

test('a layer that was closed by its button leaves nothing that Back would have to go over', () => {
  tab.visit('/s/1');
  calm();
  layer().end();
  calm();
  back();
  expect(tab.url).toBe('/');
});

test('a menu that opens a dialog leaves it its entry', () => {
  const menu = layer();
  menu.end();
  const dialog = layer();
  calm();
  expect(tab.entries).toHaveLength(2);
  back();
  expect([dialog.isOpen, tab.at]).toEqual([false, 0]);
});

test.each([0, 500, 1_003, 2_000])('a dialog that opens %i ms after the menu that led to it stays open until Back', (ms) => {
  const menu = layer();
  menu.end();
  vi.advanceTimersByTime(ms);
  const dialog = layer();
  calm();
  expect([dialog.isOpen, tab.at]).toEqual([true, 1]);
  back();
  expect([dialog.isOpen, tab.at]).toEqual([false, 0]);
});

test('Back that comes at once after a layer was closed closes the next one, or leaves the page', () => {
  tab.visit('/s/1');
  calm();
  const menu = layer();
  const dialog = layer();
  menu.end();
  back();
  expect([dialog.isOpen, tab.url, tab.at]).toEqual([false, '/s/1', 1]);
  layer().end();
  back();
  expect(tab.url).toBe('/');
});

test.each([0, 30, 1_001, 1_003, 1_500])('a page that is opened %i ms after its layer was closed has the page before it behind it', (ms) => {
  const palette = layer();
  calm();
  palette.end();
  vi.advanceTimersByTime(ms);
  tab.visit('/usage');
  calm();
  expect(tab.url).toBe('/usage');
  back();
  expect(tab.url).toBe('/');
  expect(tab.at).toBe(0);
});

test('a layer that stays over the next page is still the first that Back closes', () => {
  const side = layer();
  tab.visit('/s/2');
  calm();
  expect(side.isOpen).toBe(true);
  back();
  expect([side.isOpen, tab.url]).toEqual([false, '/s/2']);
  back();
  expect(tab.url).toBe('/');
});

test('Forward to a layer that has gone comes back, and a page loaded under a layer gets rid of its entry', () => {
  layer();
  back();
  tab.go(1);
  calm();
  expect(tab.at).toBe(0);
  layer();
  expect(tab.at).toBe(1);
  tab.layers = new Layers(tab);
  tab.layers.leaving(false);
  calm();
  expect(tab.at).toBe(0);
});
