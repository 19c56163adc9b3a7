// Opens reports in a headless Chromium and uses them as a person would.
//   browser_test.mjs NODE_MODULES CHROMIUM FOLDER SCREENSHOTS
// FOLDER holds one.html (a run that fits), compare.html (a sweep), results.json of the first,
// 100k.html and 1m.html. Prints a line per check; exit code 1 when one fails.
import {mkdirSync, readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';

const [packages, executablePath, folder, screenshots] = process.argv.slice(2);
const {chromium} = createRequire(join(packages, 'x.js'))('playwright-core');
mkdirSync(screenshots, {recursive: true});
const results = JSON.parse(readFileSync(join(folder, 'results.json'), 'utf8'));

let failed = 0;
function check(holds, what, found = '') {
  console.log(`${holds ? 'ok  ' : 'FAIL'} ${what}${found === '' ? '' : ` (${found})`}`);
  if (!holds) ++failed;
}

const browser = await chromium.launch({executablePath, args: ['--no-sandbox', '--disable-gpu']});

// A page with nothing on its console and no request but for the file itself.
async function open(name, options = {}) {
  const context =
      await browser.newContext({viewport: {width: 1280, height: 900}, offline: true, ...options});
  const page = await context.newPage();
  const noise = [];
  const requests = [];
  page.on('console', (message) => noise.push(message.text()));
  page.on('pageerror', (error) => noise.push(error.message));
  page.on('request', (request) => requests.push(request.url()));
  const url = pathToFileURL(join(folder, name)).href;
  await page.goto(url);
  await page.waitForFunction(
      () => document.documentElement.dataset.ready === 'true', null, {timeout: 60000});
  return {
    page,
    painted: await page.evaluate(() => performance.getEntriesByName('painted')[0].startTime),
    async close(label) {
      check(noise.length === 0, `${label}: no console output`, noise.join('; '));
      const outside = requests.filter((request) => request !== url && !request.startsWith('data:'));
      check(outside.length === 0, `${label}: no network requests`, outside.join(' '));
      await context.close();
    },
  };
}

const shot = (page, name, fullPage = true) =>
    page.screenshot({path: join(screenshots, `${name}.png`), fullPage});
const range = (page) =>
    page.evaluate(() => [window.tidemark.page.view.begin, window.tidemark.page.view.end]);
const instant = (page) => page.evaluate(() => window.tidemark.page.view.instant);
// Nothing is wider than the window, so no page scrolls sideways.
const fits = (page) =>
    page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth);

async function oneRun() {
  const {page, close} = await open('one.html', {colorScheme: 'light'});
  const {memory} = results.points[0];
  const peak = await page.evaluate(() => {
    const {run} = window.tidemark.page;
    return {bytes: run.live[run.peak], reserved: Math.max(...run.columns['point.reserved'])};
  });
  check(peak.bytes === memory.peak_live, 'the peak of the page is that of the results', peak.bytes);
  check(
      peak.reserved >= memory.peak_reserved, 'reserved bytes reach those of the results',
      peak.reserved);
  const sums = await page.evaluate(() => {
    const {run} = window.tidemark.page;
    return ['role', 'layer', 'operator'].map((kind) => {
      const grouping = run.grouping(kind);
      return grouping.before(run.peak + 1).reduce((a, b) => a + b, 0);
    });
  });
  check(
      sums.every((sum) => sum === memory.peak_live), 'every grouping sums to the peak',
      sums.join(' '));
  const drawn = await page.evaluate(() => {
    const {chart, run} = window.tidemark.page;
    const top = chart.shown.tops[chart.shown.tops.length - 1];
    return Math.max(...top) - run.context;
  });
  check(drawn === memory.peak_live, 'the thinned chart shows the peak to the byte', drawn);
  await shot(page, 'one-light');

  const over = page.locator('.timeline .u-over').first();
  const box = await over.boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + box.height * 0.9);
  const tooltip = page.locator('.tooltip');
  await tooltip.waitFor({state: 'visible'});
  check(
      await tooltip.locator('td').count() >= 2, 'hovering names live tensors',
      (await tooltip.innerText()).split('\n')[0]);
  await shot(page, 'one-hover', false);

  const before = await range(page);
  await page.mouse.move(box.x + box.width * 0.3, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 60, {steps: 5});
  await page.mouse.up();
  const zoomed = await range(page);
  const share = (zoomed[1] - zoomed[0]) / (before[1] - before[0]);
  check(Math.abs(share - 0.3) < 0.02, 'dragging zooms to what was marked', share.toFixed(3));
  await page.keyboard.press(']');
  const moved = await range(page);
  check(moved[0] > zoomed[0], 'a key moves the part shown');
  await page.keyboard.press('+');
  const closer = await range(page);
  check(closer[1] - closer[0] < (moved[1] - moved[0]) * 0.6, '+ zooms in');
  await page.keyboard.press('-');
  await shot(page, 'one-zoomed', false);
  await page.keyboard.press('0');
  check(
      JSON.stringify(await range(page)) === JSON.stringify(before), '0 goes back to the last step');
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.5);
  await page.keyboard.down('Control');
  await page.mouse.wheel(0, -200);
  await page.keyboard.up('Control');
  const wheeled = await range(page);
  check(wheeled[1] - wheeled[0] < before[1] - before[0], 'Ctrl and the wheel zoom');
  await page.keyboard.press('0');

  await page.mouse.click(box.x + box.width * 0.2, box.y + box.height * 0.5);
  const chosen = await instant(page);
  const rows =
      await page.locator('.panel').filter({hasText: 'Largest tensors'}).locator('tbody tr').count();
  check(rows > 3, 'a click lists the largest tensors', `${rows} rows`);
  const total = await page.evaluate(() => {
    const {run, view} = window.tidemark.page;
    const sum = run.liveAt(view.instant).reduce((s, a) => s + run.bytes[run.blockOf(a)], 0);
    return [sum, run.live[view.instant]];
  });
  check(total[0] === total[1], 'the live tensors sum to what is live', total.join(' '));
  await page.keyboard.press('ArrowRight');
  check(await instant(page) > chosen, 'an arrow moves the instant');
  await page.keyboard.press('Shift+ArrowLeft');
  await page.keyboard.press('p');
  check(
      await instant(page) === await page.evaluate(() => window.tidemark.page.run.peak),
      'p goes to the peak');

  for (const kind of ['layer', 'operator']) {
    await page.keyboard.press('g');
    const now = await page.evaluate(
        () =>
            [window.tidemark.page.view.grouping,
             document.querySelector('.choice [aria-checked="true"]').textContent]);
    check(now[0] === kind && now[1].toLowerCase() === kind, `g stacks by ${kind}`);
    await shot(page, `one-by-${kind}`, false);
  }
  await page.getByRole('radio', {name: 'Role'}).click();
  check(
      await page.evaluate(() => window.tidemark.page.view.grouping) === 'role',
      'a button stacks by role');

  const lanes = page.locator('.lanes canvas');
  const lane = await lanes.boundingBox();
  await page.mouse.move(lane.x + lane.width * 0.5, lane.y + 18);
  await tooltip.waitFor({state: 'visible'});
  check(
      (await tooltip.innerText()).length > 0, 'a lane names its operator',
      (await tooltip.innerText()).split('\n')[0]);
  const waited = await page.evaluate(() => {
    const {run, lanes} = window.tidemark.page;
    const sum = (cause) => lanes.waits.filter((w) => w.cause === cause && w.end > run.lastStepBegin)
                               .reduce((total, w) => total + w.end - w.begin, 0);
    return sum('transfer') * 1e-9;
  });
  const {exposed_transfer: exposed} = results.points[0].time;
  check(
      Math.abs(waited - exposed) <= 0.02 * exposed + 1e-6,
      'waits for copies on the lane are those of the results', `${waited} and ${exposed} s`);

  const map = page.locator('.addresses canvas');
  await map.scrollIntoViewIfNeeded();
  const inked = await map.evaluate((canvas) => {
    const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const colours = new Set();
    for (let i = 0; i < data.length; i += 4 * 7)
      if (data[i + 3] > 0) colours.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
    return colours.size;
  });
  check(inked >= 4, 'the address map shows blocks', `${inked} colours`);
  const overlap = await page.evaluate(() => {
    // At the peak no two blocks share an address.
    const {run, addresses} = window.tidemark.page;
    const blocks = run.liveAt(run.peak)
                       .map((a) => [addresses.offset[a], run.bytes[run.blockOf(a)]])
                       .sort((a, b) => a[0] - b[0]);
    let clashes = 0;
    for (let k = 1; k < blocks.length; ++k)
      if (blocks[k - 1][0] + blocks[k - 1][1] > blocks[k][0]) ++clashes;
    return [blocks.length, clashes];
  });
  check(
      overlap[0] > 3 && overlap[1] === 0, 'no two live blocks overlap on the map',
      overlap.join(' blocks, '));
  await page.locator('.panel').filter({hasText: 'Where each block lies'}).screenshot({
    path: join(screenshots, 'one-addresses.png')
  });

  await page.keyboard.press('t');
  check(
      await page.evaluate(() => document.documentElement.dataset.theme) === 'dark',
      't switches to dark');
  await shot(page, 'one-dark');
  await page.keyboard.press('?');
  check(await page.locator('dialog').isVisible(), '? shows the keys');
  await shot(page, 'help', false);
  await page.keyboard.press('Escape');
  await close('one run');
}

async function phone() {
  const {page, close} = await open(
      'one.html',
      {viewport: {width: 390, height: 844}, deviceScaleFactor: 2, hasTouch: true, isMobile: true});
  check(await fits(page), 'a phone shows the run without scrolling sideways');
  await shot(page, 'one-phone');
  await close('phone');
  const other = await open(
      'compare.html',
      {viewport: {width: 390, height: 844}, deviceScaleFactor: 2, hasTouch: true, isMobile: true});
  check(await fits(other.page), 'a phone shows the comparison without scrolling sideways');
  await shot(other.page, 'compare-phone');
  await other.close('comparison on a phone');
}

async function comparison() {
  const {page, close} = await open('compare.html', {colorScheme: 'light'});
  const points = await page.evaluate(() => window.tidemark.summary.points.length);
  check(points > 2, 'the comparison has every point', points);
  check(await page.locator('.runs input:checked').count() >= 2, 'two runs lie over each other');
  check(await page.locator('.scatter circle').count() >= points, 'the front shows every point');
  const sums = await page.evaluate(() => {
    const table = [...document.querySelectorAll('table.terms')].at(-1);
    return table.querySelectorAll('tfoot th').length;
  });
  check(sums === 5, 'the difference of two peaks has a total');
  await shot(page, 'compare');
  await page.locator('.runs input').first().uncheck();
  await page.waitForTimeout(100);
  const over = page.locator('.page .u-over').first();
  const box = await over.boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  check(await page.locator('.reading').count() >= 1, 'pointing reads every run');
  await page.keyboard.press('t');
  await page.waitForTimeout(200);
  await shot(page, 'compare-dark');
  await page.locator('table .link').nth(1).click();
  await page.locator('.timeline .u-over').first().waitFor();
  check(
      await page.evaluate(() => window.tidemark.page.run.point.number) === 1,
      'a row opens its run');
  await page.keyboard.press('c');
  check(await page.locator('.runs').count() === 1, 'c compares again');
  await close('comparison');
}

async function speed(name, least, limit) {
  const {page, painted, close} = await open(name);
  const count = await page.evaluate(() => window.tidemark.page.run.count);
  check(count >= least, `${name} holds its points`, count);
  check(painted < limit, `${name} paints in under ${limit / 1000} s`, `${Math.round(painted)} ms`);
  const redraw = await page.evaluate(async () => {
    const begin = performance.now();
    window.tidemark.page.view.zoom(0.5);
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return performance.now() - begin;
  });
  check(redraw < limit / 2, `${name} zooms without waiting`, `${Math.round(redraw)} ms`);
  const kept = await page.evaluate(() => {
    const {chart, run, view} = window.tidemark.page;
    view.showAll();
    chart.build();
    let most = 0;
    for (const value of run.live)
      if (value > most) most = value;
    return [Math.max(...chart.shown.tops[chart.shown.tops.length - 1]) - run.context, most];
  });
  check(kept[0] === kept[1], `${name} keeps the largest total when thinned`, kept.join(' '));
  await shot(page, name.replace('.html', ''), false);
  await close(name);
}

try {
  await oneRun();
  await comparison();
  await phone();
  await speed('100k.html', 100000, 2000);
  await speed('1m.html', 1000000, 5000);
} catch (error) {
  check(false, error.stack);
} finally {
  await browser.close();
}
console.log(failed === 0 ? 'all checks passed' : `${failed} checks failed`);
process.exit(failed === 0 ? 0 : 1);
