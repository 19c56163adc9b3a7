// Reports in a headless Chromium, for tests and benchmarks.
import {mkdirSync} from 'node:fs';
import {createRequire} from 'node:module';
import {join, resolve} from 'node:path';
import {pathToFileURL} from 'node:url';

// `packages`: the folder of node_modules that has playwright-core.
export function launch(packages, executablePath) {
  const {chromium} = createRequire(join(resolve(packages), 'x.js'))('playwright-core');
  return chromium.launch({executablePath, args: ['--no-sandbox', '--disable-gpu']});
}

export const kPhone = {
  viewport: {width: 390, height: 844},
  deviceScaleFactor: 2,
  hasTouch: true,
  isMobile: true
};

// A report, painted: its page, when it had painted in milliseconds of wall time after its start,
// and what it wrote to its console and asked the network for, beside the file itself.
export async function openReport(browser, file, options = {}) {
  const context =
      await browser.newContext({viewport: {width: 1280, height: 900}, offline: true, ...options});
  const page = await context.newPage();
  const url = pathToFileURL(file).href;
  const noise = [];
  const outside = [];
  page.on('console', (message) => noise.push(message.text()));
  page.on('pageerror', (error) => noise.push(error.message));
  page.on('request', (request) => {
    if (request.url() !== url && !request.url().startsWith('data:')) outside.push(request.url());
  });
  await page.goto(url);
  await page.waitForFunction(
      () => document.documentElement.dataset.ready === 'true', null, {timeout: 60000});
  const painted = await page.evaluate(() => performance.getEntriesByName('painted')[0].startTime);
  return {context, page, painted, noise, outside};
}

// Checks of one kind of page: a line for each, counted when it fails.
export class Checks {
  constructor(browser, folder, screenshots) {
    this.browser = browser;
    this.folder = folder;
    this.screenshots = screenshots;
    this.failed = 0;
    if (screenshots) mkdirSync(screenshots, {recursive: true});
  }
  check(holds, what, found = '') {
    console.log(`${holds ? 'ok  ' : 'FAIL'} ${what}${found === '' ? '' : ` (${found})`}`);
    if (!holds) ++this.failed;
  }
  // Calls `use(page)` with the report open; it must say nothing and ask for
  // nothing.
  async with(name, options, use) {
    const {context, page, noise, outside} =
        await openReport(this.browser, join(this.folder, name), options);
    await use(page);
    this.check(noise.length === 0, `${name}: no console output`, noise.join('; '));
    this.check(outside.length === 0, `${name}: no network requests`, outside.join(' '));
    await context.close();
  }
  // A picture for the eyes, where a folder for them was given: they take a third of the time.
  async shot(page, name, fullPage = true) {
    if (!this.screenshots) return;
    // What is out of sight is drawn late, but a picture of the whole page shows it.
    if (fullPage) await page.evaluate(() => window.tidemark.page?.addresses.draw());
    await page.screenshot({path: join(this.screenshots, `${name}.png`), fullPage});
  }
  // The same of one part of a page.
  async shotOf(part, name) {
    if (this.screenshots) await part.screenshot({path: join(this.screenshots, `${name}.png`)});
  }
}
