// Owns the browser of the console's tests: desk and phone, both themes, and what must never happen on any page: an error on
// its console, a report of its policies, a request to anybody but the daemon, a violation of axe.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const AXE = readFileSync(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

/** The sizes that are looked at. */
export const VIEWPORTS = {
  desk: { viewport: { width: 1280, height: 800 }, hasTouch: false, isMobile: false },
  phone: { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 },
};

/** Starts Debian's Chromium; `close()` of the answer ends it. */
export const launch = () => chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: [
    '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync',
    // A name that is not loopback, as another machine's.
    '--host-resolver-rules=MAP trunkline.test 127.0.0.1',
  ],
});

/** A browser of one person: its pages share a login. */
export class Person {
  /** Everything that must not have happened. */
  faults = [];

  constructor(context, url) {
    this.context = context;
    this.url = url;
  }

  /** A person at `url` with a desk or a phone. */
  static async at(browser, url, { size = 'desk', theme = 'light', ...more } = {}) {
    const context = await browser.newContext({ ...VIEWPORTS[size], colorScheme: theme, locale: 'en-GB', timezoneId: 'Europe/Berlin', ...more });
    const person = new Person(context, url);
    await context.addInitScript(() => {
      globalThis.reports = [];
      addEventListener('securitypolicyviolation', (event) => reports.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`));
    });
    context.on('request', (request) => {
      const { origin, protocol } = new URL(request.url());
      if (/^(?:http|ws)s?:$/.test(protocol) && origin.replace(/^ws/, 'http') !== new URL(url).origin) person.faults.push(`asked ${request.url()}`);
    });
    return person;
  }

  /** A page; `mayLose` says that the daemon is taken away on purpose, which browsers write on their console. */
  async page(path = '/', { mayLose = false } = {}) {
    const page = await this.context.newPage();
    page.setDefaultTimeout(20_000);
    page.on('pageerror', (error) => this.faults.push(`threw ${error.stack ?? error}`));
    page.on('console', (message) => {
      const isLoss = mayLose && /ERR_CONNECTION|Failed to load resource|WebSocket connection/.test(message.text());
      if (['error', 'warning'].includes(message.type()) && !isLoss) this.faults.push(`${message.type()}: ${message.text()} ${message.location().url}`);
    });
    await page.goto(new URL(path, this.url).href);
    return page;
  }

  /** Signs in by an address such as `trunkline open` makes. */
  async signIn(address) {
    const page = await this.page(address);
    await page.getByRole('navigation', { name: 'Pages' }).waitFor();
    return page;
  }

  /** Throws when anything happened that must not. */
  async clean() {
    for (const page of this.context.pages()) {
      for (const report of await page.evaluate(() => globalThis.reports ?? []).catch(() => [])) this.faults.push(`policy: ${report}`);
    }
    if (this.faults.length > 0) throw new Error(`the page did what it must not:\n${this.faults.join('\n')}`);
  }
}

/** The rules of axe that the theme decides; the others need be looked at once. */
const OF_THE_THEME = ['color-contrast', 'link-in-text-block'];

/** The findings of axe on the page as it is, in words. It is put into a document once. */
async function findings(page, only) {
  // Playwright's own world: the page's policies do not hold for a script of the test.
  if (!await page.evaluate(() => globalThis.axe !== undefined)) {
    await page.evaluate(AXE);
    // An open menu is no part of the page's content, as a dialog is none.
    await page.evaluate(() => globalThis.axe.configure({ checks: [{ id: 'region', options: { regionMatcher: 'dialog, [role=dialog], [role=alertdialog], [role=menu], svg' } }] }));
  }
  return page.evaluate(async (values) => {
    // The page's own styles are there, and only what is wrong is told of in full.
    const { violations } = await globalThis.axe.run({ preload: false, resultTypes: ['violations'], ...(values === null ? {} : { runOnly: { type: 'rule', values } }) });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html.slice(0, 200)} ${node.failureSummary}`).join('\n  ')}`);
  }, only);
}

/** Throws when axe finds something on the page as it is, in either theme, or when the page scrolls sideways. */
export async function accessible(page, where) {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    const said = await findings(page, colorScheme === 'light' ? null : OF_THE_THEME);
    if (said.length > 0) throw new Error(`${where} (${colorScheme}) is not accessible:\n${said.join('\n')}`);
  }
  await page.emulateMedia({ colorScheme: null });
  // A screen reader says any news of a page between two sentences, and breaks off none.
  const loud = await page.locator('[role=alert], [aria-live=assertive]').count();
  if (loud > 0) throw new Error(`${where} has ${loud} places that break off what is being said`);
  const [wide, has] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  if (wide > has) throw new Error(`${where} is ${wide} px wide and the window ${has}`);
}

/** An error with pictures of the pages that were open, where a directory for them is named. */
export async function pictured(error, browser) {
  const dir = process.env.CONSOLE_PICTURES;
  if (dir === undefined) return error;
  const pages = browser.contexts().flatMap((context) => context.pages());
  const paths = await Promise.all(pages.map(async (page, at) => {
    const path = join(dir, `failed-${process.pid}-${Date.now()}-${at}.png`);
    await page.screenshot({ path }).catch(() => undefined);
    return path;
  }));
  return new Error(`${error.message}\n${paths.join('\n')}`, { cause: error });
}
