// Owns the stage of a file of tests: one browser, and one daemon where the file does not start its own.
import { after, before } from 'node:test';
import { launch } from './browser.mjs';
import { World } from './world.mjs';

/** A browser and a daemon for the tests of this file. They are there once its tests run, as `set` has set them, and end with them. */
export function stage({ agent = 'simulated', hasWorld = true, set = async () => undefined } = {}) {
  const here = {};
  before(async () => {
    here.browser = await launch();
    if (hasWorld) here.world = await World.start({ agent });
    await set(here);
  });
  after(async () => {
    await here.browser?.close();
    await here.world?.end();
  });
  return here;
}
