#!/usr/bin/env node
// Measures the console in Chromium: a session of 10,000 records with one of 12 MB and a turn of 100,000 deltas, and 1,000 sessions,
// each beside an empty session in the same run.
//
//     make web build && npm ci --prefix web-test && node bench/console.mjs [list] [newest] [deltas] …
//
// PROGRAM names another program, and DIST=web/dist a console that the program does not have. RECORDS, LARGE, DELTAS, SESSIONS and
// ROUNDS set the sizes. Talks to 127.0.0.1 only, is bounded by LIMIT_S, and stops what it starts.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import * as measures from './console/measures.mjs';
import { DIST, PROGRAM, daemon, emptySession, end, longSession, multiply, person } from './console/place.mjs';
import { launch } from '../web-test/console/browser.mjs';

const number = (name, usual) => Number(process.env[name] ?? usual);
const [RECORDS, LARGE, DELTAS, SESSIONS, ROUNDS] = [number('RECORDS', 10_000), number('LARGE', 12_000_000), number('DELTAS', 100_000), number('SESSIONS', 1_000), number('ROUNDS', 3)];
const LIMIT_MS = number('LIMIT_S', 600) * 1000;

/** The measurements: of the full one and, where there is one, of the empty one. A row: words, the figure, its goal; `fewer`: less is worse. */
const MEASUREMENTS = {
  list: {
    empty: (at) => measures.openList(at.alone), full: (at) => measures.openList(at.who),
    rows: [['list of all sessions: open to drawn, ms', 'ms', 700], ['its longest task, ms', 'longest', null]],
  },
  newest: {
    empty: (at) => measures.openNewest(at.alone, at.quiet), full: (at) => measures.openNewest(at.who, at.long),
    rows: [['long session: open to the newest message, ms', 'ms', 1_000], ['its longest task, ms', 'longest', null], ['heap then, MB', 'mb', 120]],
  },
  deltas: {
    empty: (at) => measures.deltas(at.who, at.world, undefined, DELTAS), full: (at) => measures.deltas(at.who, at.world, at.long, DELTAS),
    rows: [
      ['deltas: longest task, ms', 'longest', 100], ['deltas: frame gap p95, ms', 'gapP95', 34], ['deltas: frames a second', 'framesPerSecond', null, { fewer: true }],
      ['deltas: frames dropped', 'dropped', null], ['deltas a second', 'deltasPerSecond', null, { fewer: true }], ['deltas: elements', 'elements', 1_500], ['deltas: heap after, MB', 'mb', 120],
    ],
  },
  paced: {
    empty: (at) => measures.pacedDeltas(at.alone, at.other, at.quiet, 300), full: (at) => measures.pacedDeltas(at.who, at.world, at.long, 300),
    rows: [['one delta a frame: work of a frame p95, ms', 'workP95', 8], ['one delta a frame: socket to pixels p95, ms', 'delayP95', 50], ['a bare change of the page to pixels p95, ms', 'bareP95', null]],
  },
  scroll: {
    empty: (at) => measures.scroll(at.who, at.long, true), full: (at) => measures.scroll(at.who, at.long),
    rows: [['scrolling all rows: frames a second', 'framesPerSecond', 55, { fewer: true }], ['scrolling: blank frames, share', 'blankShare', 0.02], ['rows', 'rows', null], ['heap with all rows, MB', 'mb', null]],
  },
  prepend: { full: (at) => measures.prepend(at.who, at.past), rows: [['200 older rows while reading: shift, px', 'px', 1]] },
  large: { full: (at) => measures.loadLarge(at.who, at.world, at.long), rows: [['the large record, loaded: longest task, ms', 'longest', null], ['heap with it, MB', 'mb', null]] },
  keys: { empty: (at) => measures.keys(at.alone, at.quiet), full: (at) => measures.keys(at.who, at.long), rows: [['slowest key to its answer, ms', 'ms', 100]] },
  decision: { full: (at) => measures.decision(at.who, at.phone, at.world, at.empty), rows: [['a decision seen by another browser, ms', 'ms', 200], ['a request there and back, ms', 'request', null]] },
  slow: {
    empty: (at) => measures.openNewest(at.farAlone, at.quiet, { slow: 4 }), full: (at) => measures.openNewest(at.far, at.long, { slow: 4 }),
    rows: [['phone, 4 × slower, 300 ms there and back: open to the newest message, ms', 'ms', 4_000]],
  },
  load: { full: (at) => measures.firstLoad(at.who, `/s/${at.long}`), rows: [['first load, kB of brotli', 'kb', 170]] },
};

function surroundings() {
  const chromium = spawnSync(process.env.CHROMIUM ?? '/usr/bin/chromium', ['--version'], { encoding: 'utf8' }).stdout.trim();
  const load = loadavg().map((value) => value.toFixed(1)).join(' ');
  return `${cpus().length} cores, load ${load}, ${chromium}, node ${process.version}, ${PROGRAM}${DIST === undefined ? '' : `, the page of ${DIST}`}`;
}

const median = (all) => [...all].sort((one, other) => one - other)[Math.floor(all.length / 2)];
const figure = (value) => value.toFixed(value >= 100 ? 0 : value >= 1 ? 1 : 2);

/** One line of the table: the median and the worst of the rounds, and the median of the empty one. */
function line([words, member, goal, { fewer = false } = {}], full, empty) {
  const of = (rounds) => rounds.map((taken) => taken[member]).filter((value) => Number.isFinite(value));
  const [values, base] = [of(full), of(empty)];
  if (values.length === 0) return `| ${words} | not taken | | | | |`;
  const cells = [median(values), fewer ? Math.min(...values) : Math.max(...values), ...(base.length === 0 ? [] : [median(base)])].map(figure);
  const ratio = base.length === 0 || median(base) === 0 ? '' : (median(values) / median(base)).toFixed(2);
  return `| ${words} | ${cells[0]} | ${cells[1]} | ${cells[2] ?? ''} | ${ratio} | ${goal === null ? '' : `${fewer ? '≥' : '≤'} ${goal}`} |`;
}

/** Two daemons: one has everything, and the other one a session that has said one line. */
async function prepare(browser, worlds) {
  for (let n = 0; n < 2; n += 1) worlds.push(await daemon());
  const [world, other] = worlds;
  const sessions = { empty: await emptySession(world), quiet: await emptySession(other), past: await longSession(world, 2_000, 0), longs: [] };
  // Each round has its own, as the turn of a round makes its session longer.
  for (let round = 0; round < ROUNDS; round += 1) sessions.longs.push(await longSession(world, RECORDS, LARGE));
  await multiply(world, SESSIONS);
  const phone = { size: 'phone' };
  return {
    world, other, ...sessions, who: await person(browser, world), alone: await person(browser, other), phone: await person(browser, world, phone),
    far: await person(browser, world, { ...phone, url: world.delayed.url }), farAlone: await person(browser, other, { ...phone, url: other.delayed.url }),
  };
}

async function main() {
  if (!existsSync(PROGRAM)) throw new Error(`${PROGRAM} is not there: make build first`);
  const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(MEASUREMENTS);
  console.log(surroundings());
  const until = Date.now() + LIMIT_MS;
  const browser = await launch();
  const worlds = [];
  const taken = new Map(names.map((name) => [name, { full: [], empty: [] }]));
  try {
    const at = await prepare(browser, worlds);
    for (let round = 1; round <= ROUNDS && Date.now() < until; round += 1) {
      at.long = at.longs[round - 1];
      for (const [name, { full, empty }] of taken) {
        // The empty one and the full one take turns.
        for (const [measure, into] of [[MEASUREMENTS[name].empty, empty], [MEASUREMENTS[name].full, full]]) {
          if (measure === undefined || Date.now() > until) continue;
          const result = await measure(at).catch((error) => { console.log(`${name}: ${error.message.split('\n')[0]}`); });
          if (result !== undefined) into.push(result);
        }
      }
      console.log(`round ${round} of ${ROUNDS}, load ${loadavg()[0].toFixed(1)}`);
    }
  } finally {
    await browser.close();
    for (const world of worlds) await end(world);
  }
  console.log('\n| | median | worst | empty | ratio | goal |\n| --- | --- | --- | --- | --- | --- |');
  for (const [name, { full, empty }] of taken) for (const row of MEASUREMENTS[name].rows) console.log(line(row, full, empty));
  console.log(`\n${surroundings()}`);
}

await main();
