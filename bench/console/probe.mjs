// Owns what is measured inside of a page: it runs there before the page's own scripts. It changes one thing: nothing counts as
// seen, since turns that were seen are folded, and have few rows.

/** Installs `globalThis.probe`. `wanted`: notes when an element that matches the selector, and has the text, is painted in sight. */
export function installProbe(wanted) {
  const ask = globalThis.requestAnimationFrame.bind(globalThis);
  const channel = new MessageChannel();
  const afterPaint = [];
  channel.port1.onmessage = () => afterPaint.shift()?.(performance.now());
  /** The time after the next frame is painted. */
  const painted = () => new Promise((resolve) => ask(() => { afterPaint.push(resolve); channel.port2.postMessage(null); }));
  const percentile = (all, share) => [...all].sort((one, other) => one - other)[Math.min(all.length - 1, Math.floor(all.length * share))] ?? 0;

  let span;
  let longTasks = [];
  new PerformanceObserver((list) => { longTasks.push(...list.getEntries()); }).observe({ type: 'longtask', buffered: true });

  // The page's own work in its frames: its callbacks of one frame together.
  let frameAt = 0;
  globalThis.requestAnimationFrame = (callback) => ask((at) => {
    const began = performance.now();
    callback(at);
    if (span === undefined) return;
    const taken = performance.now() - began;
    if (at === frameAt) span.work[span.work.length - 1] += taken; else span.work.push(taken);
    frameAt = at;
  });

  const fetched = globalThis.fetch.bind(globalThis);
  globalThis.fetch = (asked, ...more) => (/\/seen$/.test(asked.url ?? String(asked)) ? Promise.resolve(new Response(null, { status: 204 })) : fetched(asked, ...more));

  const Socket = globalThis.WebSocket;
  globalThis.WebSocket = class extends Socket {
    constructor(...given) {
      super(...given);
      this.addEventListener('message', ({ data }) => {
        if (span?.marks === undefined) return;
        const now = performance.now();
        for (const [, mark] of data.matchAll(/"text":"(w\d{4})/g)) span.marks.set(mark, now);
      });
    }
  };

  /** Calls `then` when `isThere` holds, now or after a change of the page. */
  const when = (isThere, then) => {
    if (isThere()) { then(); return; }
    const observer = new MutationObserver(() => {
      if (!isThere()) return;
      observer.disconnect();
      then();
    });
    observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  };
  const isInSight = (element) => {
    const { top, bottom } = element.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  };
  const isShown = ({ selector, text = '', isGone = false }) => {
    const found = [...document.querySelectorAll(selector)].some((element) => element.textContent.includes(text) && isInSight(element));
    return found !== isGone;
  };

  globalThis.probe = {
    shownAt: null,
    /** Begins to measure. `scroller` is looked at for places without a row; with `hasMarks` words of deltas are timed. */
    begin({ scroller, hasMarks = false } = {}) {
      longTasks = [];
      const mine = { at: performance.now(), last: 0, gaps: [], work: [], frames: 0, blank: 0, most: 0, looks: scroller !== undefined, marks: hasMarks ? new Map() : undefined, delays: [] };
      span = mine;
      const frame = (at) => {
        if (span !== mine) return;
        if (mine.last > 0) mine.gaps.push(at - mine.last);
        mine.last = at;
        mine.frames += 1;
        if (mine.frames % 10 === 0) mine.most = Math.max(mine.most, document.getElementsByTagName('*').length);
        if (mine.looks) {
          const { left, top, width, height } = document.querySelector(scroller).getBoundingClientRect();
          const isBare = [0.1, 0.5, 0.9].some((part) => document.elementFromPoint(left + width / 2, top + height * part)?.closest('article') == null);
          if (isBare) mine.blank += 1;
        }
        ask(frame);
      };
      ask(frame);
      if (!hasMarks) return;
      const seen = new Set();
      mine.observer = new MutationObserver(() => {
        const text = [...document.querySelectorAll('[role=feed] article')].slice(-3).map((row) => row.textContent).join(' ');
        const fresh = [...text.matchAll(/w\d{4}/g)].map(([mark]) => mark).filter((mark) => !seen.has(mark) && mine.marks.has(mark));
        for (const mark of fresh) seen.add(mark);
        if (fresh.length > 0) void painted().then((at) => { for (const mark of fresh) mine.delays.push(at - mine.marks.get(mark)); });
      });
      mine.observer.observe(document, { subtree: true, childList: true, characterData: true });
    },
    /** Ends it. */
    end() {
      const { at, gaps, work, frames, blank, most, delays, observer } = span;
      span = undefined;
      observer?.disconnect();
      const ms = performance.now() - at;
      const longest = longTasks.filter((task) => task.startTime >= at).map((task) => task.duration);
      const hertz = 1000 / 60;
      return {
        ms, longest: Math.max(0, ...longest), gapP95: percentile(gaps, 0.95), gapWorst: Math.max(0, ...gaps), framesPerSecond: frames * 1000 / ms,
        dropped: gaps.reduce((sum, gap) => sum + Math.max(0, Math.round(gap / hertz) - 1), 0), workP95: percentile(work, 0.95), workWorst: Math.max(0, ...work),
        blankShare: frames === 0 ? 0 : blank / frames, elements: most, delayP95: percentile(delays, 0.95), delays: delays.length,
      };
    },
    /** The longest task since the page began, or 0 below 50 ms. */
    longest: () => Math.max(0, ...longTasks.map((task) => task.duration)),
    /** Milliseconds from the next key, or press, until something is painted. */
    keyTo(shown) {
      let from;
      const listen = (event) => { from = event.timeStamp; };
      for (const name of ['keydown', 'pointerdown']) addEventListener(name, listen, { capture: true });
      globalThis.keyed = new Promise((resolve) => {
        // A page that shows it before the key would answer nothing.
        const look = () => when(() => from !== undefined && isShown(shown), () => void painted().then((at) => {
          for (const name of ['keydown', 'pointerdown']) removeEventListener(name, listen, { capture: true });
          resolve(at - from);
        }));
        look();
      });
    },
    /** The moment, on the clock of all pages, at which something is painted. */
    momentOf: (shown) => new Promise((resolve) => when(() => isShown(shown), () => void painted().then((at) => resolve(performance.timeOrigin + at)))),
    /** Milliseconds until a change of the page is painted, that nothing else comes between. */
    async bare() {
      const began = performance.now();
      document.body.dataset.bare = String(began);
      return await painted() - began;
    },
    painted,
  };
  if (wanted != null) when(() => isShown(wanted), () => void painted().then((at) => { globalThis.probe.shownAt = at; }));
}
