// Checks of what shows the points of a sweep: the table that is sorted and filtered, and figures
// over the swept keys.
import {join} from 'node:path';

import {openReport} from './browser.mjs';

const panel = (page, title) =>
    page.locator('.panel').filter({has: page.locator('h2', {hasText: title})});
const frames = (page) => page.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
const rowsOf = (page) => page.locator('.points tbody tr.marks');
// Numbers of the points in the table, from 0, in its order.
const numbers = (page) =>
    rowsOf(page).evaluateAll((rows) => rows.map((row) => Number(row.cells[0].textContent) - 1));
const head = (page, name) => page.locator('.points .sorts').getByText(name, {exact: true});

async function sorting(checks, page, points) {
  const needed = (k) => points[k].memory.device_needed;
  const rises = (list) => list.every((k, at) => at === 0 || needed(list[at - 1]) <= needed(k));
  await head(page, 'device memory').click();
  const up = await numbers(page);
  const fitting = up.filter((k) => points[k].status === 'fits');
  checks.check(
      rises(fitting) && up.slice(0, fitting.length).every((k) => points[k].status === 'fits') &&
          fitting.length < up.length,
      'a head sorts by bytes, and what does not fit comes last', fitting.length);
  const sorted = () =>
      page.locator('.points th[aria-sort="ascending"], .points th[aria-sort="descending"]')
          .evaluateAll(
              (cells) =>
                  cells.map((cell) => `${cell.textContent} ${cell.getAttribute('aria-sort')}`)
                      .join());
  checks.check(await sorted() === 'device memory ascending', 'aria-sort says so', await sorted());
  await head(page, 'device memory').press('Enter');
  const down = await numbers(page);
  const first = down.slice(0, fitting.length).reverse();
  checks.check(
      rises(first) && points[down[down.length - 1]].status !== 'fits' &&
          await sorted() === 'device memory descending',
      'once more, by the keyboard, it is the other direction', await sorted());
  await head(page, 'micro_batch').click();
  const batches = (await numbers(page)).map((k) => points[k].overrides['training.micro_batch']);
  checks.check(
      batches.every((value, k) => k === 0 || batches[k - 1] <= value) &&
          batches[0] < batches.at(-1),
      'numbers of keys are sorted as numbers', [...new Set(batches)].join(' '));
  await head(page, '#').click();
}

async function filtering(checks, page, points) {
  const field = page.getByLabel('Filter points');
  const left = async (text, holds) => {
    await field.fill(text);
    const found = (await numbers(page)).join();
    const due = points.map((point, k) => (holds(point) ? k : -1)).filter((k) => k >= 0).join();
    checks.check(found === due && due !== '', `filtered by ${text}`, found);
  };
  const of = (key) => (point) => point.overrides[key];
  await left('sequence=256', (point) => of('training.sequence')(point) === 256);
  await left(
      'micro_batch>=16 v100',
      (point) =>
          of('training.micro_batch')(point) >= 16 && of('hardware')(point).startsWith('v100'));
  await left('memory<4GiB', (point) => point.memory.device_needed < 4 * 2 ** 30);
  await left('device memory<4GiB', (point) => point.memory.device_needed < 4 * 2 ** 30);
  await left(
      'v100 device memory >= 1GiB micro_batch = 16',
      (point) => point.memory.device_needed >= 2 ** 30 &&
          of('training.micro_batch')(point) === 16 && of('hardware')(point).startsWith('v100'));
  await left('policies="no policy"', (point) => of('policies')(point).length === 0);
  await field.fill('nonsense>3');
  const words = await page.locator('.points .toolbar').innerText();
  checks.check(/no column is named nonsense/.test(words), 'and says what it does not know', words);
  await field.fill('');
  await page.getByLabel('fits only').check();
  checks.check(
      (await numbers(page)).length === points.filter(({status}) => status === 'fits').length,
      'fits only leaves those that fit');
  await page.getByLabel('fits only').uncheck();
}

async function commands(checks, page, points) {
  const without = await page.evaluate(
      () => window.tidemark.summary.points.findIndex(
          ({opens, overrides}) => !opens && overrides.policies.length > 0));
  await rowsOf(page).nth(without).click();
  const command = await page.locator('.points .reproduce').innerText();
  const {overrides} = points[without];
  checks.check(
      command ===
          'tidemark run swept.yaml -s sweep=null ' +
              `-s hardware=${overrides.hardware} -s training.micro_batch=${
                  overrides['training.micro_batch']} ` +
              `-s training.sequence=${overrides['training.sequence']} ` +
              `-s 'policies=[checkpoint_every: {period: 1}]' -s 'report.formats=[html]' -o point-${
                  without + 1}`,
      'a row without charts says which command draws them', command);
  await rowsOf(page).nth(without).locator('.link').press('Enter');
  checks.check(await page.locator('.points .reproduce').count() === 0, 'until it is used again');
}

async function lines(checks, page, points) {
  const swept = panel(page, 'Over the swept keys');
  await swept.getByRole('radio', {name: 'Lines'}).click();
  await swept.getByLabel('over', {exact: true}).selectOption({label: 'micro_batch'});
  await swept.getByLabel('a line for each').selectOption({label: 'policies'});
  await frames(page);
  const marks = await swept.locator('.mark').count();
  const batches = new Set(points.map(({overrides}) => overrides['training.micro_batch'])).size;
  const policies = new Set(points.map(({settings}) => settings.policies)).size;
  checks.check(
      marks === batches * policies && await swept.locator('.legend li').count() === policies,
      'a line for each value of a key, a mark for each of the other', marks);
  checks.check(await swept.locator('.level').count() === 0, 'no capacity where there are several');
  const title = () => swept.locator('svg.scatter').getAttribute('aria-label');
  const before = await title();
  await swept.getByLabel('figure').selectOption({label: 'peak live'});
  await frames(page);
  checks.check(
      before.startsWith('device memory') && (await title()).startsWith('peak live'),
      'the figure can be chosen', await title());
  await swept.getByLabel('a line for each').selectOption({label: 'micro_batch'});
  checks.check(
      await swept.getByLabel('over', {exact: true}).inputValue() !==
          await swept.getByLabel('a line for each').inputValue(),
      'one key is on one axis only');
  await checks.shotOf(swept, 'swept-lines');
}

async function heatmap(checks, page, points) {
  const swept = panel(page, 'Over the swept keys');
  await swept.getByRole('radio', {name: 'Heatmap'}).click();
  await swept.getByLabel('over', {exact: true}).selectOption({label: 'micro_batch'});
  await swept.getByLabel('a line for each').selectOption({label: 'sequence'});
  await swept.getByLabel('figure').selectOption({label: 'device memory'});
  const cells = await swept.locator('.heat tbody td')
                    .evaluateAll(
                        (list) => list.map(
                            ({point}) =>
                                [point.number, point.overrides['training.micro_batch'],
                                 point.overrides['training.sequence']]));
  const wrong = cells.filter(([number, batch, sequence]) => {
    const here = points.filter(
        ({overrides}) => overrides['training.micro_batch'] === batch &&
            overrides['training.sequence'] === sequence);
    const fitting = here.filter(({status}) => status === 'fits');
    const least =
        Math.min(...(fitting.length ? fitting : here).map(({memory}) => memory.device_needed));
    return points[number].memory.device_needed !== least;
  });
  checks.check(
      cells.length === 6 && wrong.length === 0, 'cells have the best of their points',
      cells.length);
  // More is darker in light, and what does not fit is hatched.
  const found = await swept.locator('.heat tbody td').evaluateAll((list) => list.map((cell) => {
    const {backgroundColor, backgroundImage} = getComputedStyle(cell);
    return {
      light: backgroundColor.match(/\d+/g).map(Number).reduce((a, b) => a + b),
      bytes: cell.point.memory.device_needed,
      fits: cell.point.status === 'fits',
      hatched: backgroundImage !== 'none'
    };
  }));
  found.sort((a, b) => a.bytes - b.bytes);
  checks.check(
      found.every(({light}, k) => k === 0 || found[k - 1].light >= light) &&
          found.every(({fits, hatched}) => fits !== hatched),
      'the more, the darker; hatched where nothing fits', found.map(({light}) => light).join(' '));
  const first = swept.locator('.heat tbody td').first();
  await first.hover();
  checks.check(
      (await page.locator('.tooltip:visible').innerText()).includes('device memory'),
      'pointing at a cell tells its figures');
  await first.focus();
  await page.keyboard.press('ArrowRight');
  checks.check(
      await page.evaluate(() => document.activeElement.cellIndex) === 2,
      'arrow keys move between cells');
  await page.evaluate(() => document.activeElement.blur());
  await page.mouse.move(5, 5);
  await checks.shotOf(swept, 'swept-heatmap');
}

async function parallel(checks, page, points) {
  const swept = panel(page, 'Over the swept keys');
  await swept.getByRole('radio', {name: 'Parallel'}).click();
  await frames(page);
  const axes = await swept.locator('.strip').count();
  checks.check(axes === 6, 'an axis for each of four keys and two figures', axes);
  const strip = swept.locator('.strip[aria-label="range of training.micro_batch"]');
  await strip.scrollIntoViewIfNeeded();
  const box = await strip.boundingBox();
  const x = box.x + box.width / 2;
  await page.mouse.move(x, box.y + 2);
  await page.mouse.down();
  await page.mouse.move(x, box.y + box.height * 0.2, {steps: 3});
  await page.mouse.up();
  await frames(page);
  const most = Math.max(...points.map(({overrides}) => overrides['training.micro_batch']));
  const due = points.filter(({overrides}) => overrides['training.micro_batch'] === most).length;
  const left = await numbers(page);
  checks.check(
      left.length === due &&
          left.every((k) => points[k].overrides['training.micro_batch'] === most),
      'a range on an axis leaves its points in the table', `${left.length} of ${points.length}`);
  const words = await swept.locator('.legend').innerText();
  checks.check(
      words.includes(`${due} of ${due} lines`), 'and their lines', words.replaceAll('\n', ' '));
  checks.check(
      await strip.getAttribute('aria-valuetext') === `${most} to ${most}`,
      'the axis says its range');
  await checks.shotOf(swept, 'swept-parallel');
  await page.keyboard.press('t');
  await frames(page);
  checks.check((await numbers(page)).length === due, 'which stays in other colours');
  await checks.shotOf(swept, 'swept-parallel-dark');
  await page.getByRole('button', {name: 'Clear the ranges'}).click();
  checks.check((await numbers(page)).length === points.length, 'until ranges are cleared');
  await swept.locator('.strip').first().focus();
  await page.keyboard.press('ArrowUp');
  checks.check((await numbers(page)).length < points.length, 'arrow keys set a range, too');
  await page.keyboard.press('Escape');
  checks.check((await numbers(page)).length === points.length, 'and Escape clears it');
}

async function fronts(checks, page, points) {
  const front = panel(page, 'Time against memory');
  const devices = new Set(points.map(({settings}) => settings.hardware)).size;
  checks.check(
      await front.locator('.legend li').count() === devices &&
          await front.locator('svg.scatter > path[fill="none"]').count() === devices,
      'each device has its front', devices);
}

export async function sweptPoints(checks) {
  await checks.with('swept.html', {colorScheme: 'light'}, async (page) => {
    const points = await page.evaluate(() => window.tidemark.summary.points);
    await checks.shot(page, 'swept');
    await sorting(checks, page, points);
    await filtering(checks, page, points);
    await commands(checks, page, points);
    await lines(checks, page, points);
    await heatmap(checks, page, points);
    await parallel(checks, page, points);
    await fronts(checks, page, points);
    await rowsOf(page).first().locator('.link').click();
    await page.locator('.timeline .u-over').first().waitFor();
    checks.check(
        await page.evaluate(() => window.tidemark.page.run.point.opens),
        'a row opens its timeline');
  });
}

// Very many points open and sort without waiting.
export async function manyPoints(checks, name, least, limits) {
  // Other work of the machine may delay one load, hardly all of a few.
  const paints = [];
  let opened = null;
  while (paints.length < 3 && !paints.some((wait) => wait < limits.paint)) {
    await opened?.context.close();
    opened = await openReport(checks.browser, join(checks.folder, name));
    paints.push(opened.painted);
  }
  const {context, page, noise} = opened;
  const points = await page.evaluate(() => window.tidemark.summary.points.length);
  checks.check(points >= least, `${name} has its points`, points);
  checks.check(
      Math.min(...paints) < limits.paint, `${name} paints in time`,
      paints.map((wait) => `${Math.round(wait)} ms`).join(', '));
  const text = await page.evaluate(() => document.body.textContent);
  checks.check(
      text.includes('only those with charts have their terms'),
      'the differences say which points they know');
  checks.check(
      await panel(page, 'Overhead against budget').count() === 0,
      'hundreds of combinations of other keys make no lines over a budget');
  const rows = await rowsOf(page).count();
  checks.check(rows === 200, 'few rows are in the page at a time', rows);
  for (const column of ['time of a sample', 'device memory', 'status']) {
    const waits = await head(page, column).evaluate((button, limit) => {
      const times = [];
      while (times.length < 5 && !times.some((time) => time < limit)) {
        const begin = performance.now();
        button.click();
        document.body.getBoundingClientRect();  // with the layout of the new rows
        times.push(performance.now() - begin);
      }
      return times;
    }, limits.sort);
    checks.check(
        Math.min(...waits) < limits.sort, `${name} sorts by ${column} in time`,
        waits.map((wait) => `${Math.round(wait)} ms`).join(', '));
  }
  await page.locator('.points > .link').click();
  checks.check(
      await rowsOf(page).count() === 1200, 'more of them when asked', await rowsOf(page).count());
  checks.check(noise.length === 0, `${name}: no console output`, noise.join('; '));
  await context.close();
}
