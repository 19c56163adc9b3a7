// Opens reports in a headless Chromium and uses them as a person would.
//   browser_test.mjs NODE_MODULES CHROMIUM FOLDER [SCREENSHOTS]
// FOLDER holds one.html (a run that fits) and results.json of it, compare.html (a sweep over two keys),
// swept.html (one over four), points.html (one of 1,300 points, of the long tests 10,000), budgets.html
// (of `compare`) and results-budgets.json of it, many.html (many policies under one budget) and
// results-many.json of it, 100k.html and, with the long tests, zero.html (one that waits for the host's
// optimizer), eviction.html and 1m.html. Prints a line per check; exit code 1 when one fails.
import {existsSync, readFileSync} from 'node:fs';
import {join} from 'node:path';

import {Checks, kPhone, launch, openReport} from './browser.mjs';
import {compareBudgets, comparePoints} from './comparison_checks.mjs';
import {contrast} from './contrast_checks.mjs';
import {comparisonOfMany} from './many_checks.mjs';
import {pictures} from './picture_checks.mjs';
import {eviction, hostOptimizer, oneRun} from './run_checks.mjs';
import {manyPoints, sweptPoints} from './swept_checks.mjs';

const [packages, chromium, folder, screenshots] = process.argv.slice(2);
const long = existsSync(join(folder, '1m.html'));  // the long tests
const json = (name) => JSON.parse(readFileSync(join(folder, name), 'utf8'));
const browser = await launch(packages, chromium);
const checks = new Checks(browser, folder, screenshots);

// Nothing is wider than the window, so no page scrolls sideways; wide tables do so by themselves.
async function phone(name) {
  await checks.with(`${name}.html`, kPhone, async (page) => {
    // Phones widen their window to what does not fit, so it is held to the screen.
    const [wide, tables, cut] = await page.evaluate((screen) => {
      const boxes = [...document.querySelectorAll('.scroll')];
      const wider = boxes.filter((box) => box.scrollWidth > box.clientWidth);
      wider.forEach((box) => {
        box.scrollLeft = 1e6;
      });
      return [
        document.documentElement.scrollWidth - screen, wider.length,
        wider.filter((box) => box.scrollLeft < box.scrollWidth - box.clientWidth - 1).length
      ];
    }, kPhone.viewport.width);
    checks.check(wide <= 0, `a phone shows ${name} without scrolling sideways`, wide);
    checks.check(tables > 0 && cut === 0, `wide tables of ${name} scroll by themselves`, tables);
    const small = await page.evaluate(
        () => [...document.querySelectorAll('button.tool, .choice button')]
                  .map((button) => button.getBoundingClientRect().height)
                  .filter((height) => height > 0 && height < 32)
                  .length);
    checks.check(small === 0, `buttons of ${name} are large enough for fingers`, small);
    await checks.shot(page, `${name}-phone`);
  });
}

// The time that a person waits. Other work of the machine may delay one load, hardly all of a few.
const kLoads = 3;

async function speed(name, least, limit) {
  const waits = [];
  while (waits.length < kLoads && !waits.some((wait) => wait < limit)) {
    const {context, painted} = await openReport(browser, join(folder, name));
    waits.push(painted);
    await context.close();
  }
  checks.check(
      Math.min(...waits) < limit, `${name} paints in under ${limit / 1000} s`,
      waits.map((wait) => `${Math.round(wait)} ms`).join(', '));
  await checks.with(name, {}, async (page) => {
    const count = await page.evaluate(() => window.tidemark.page.run.count);
    checks.check(count >= least, `${name} holds its points`, count);
    const redraw = await page.evaluate(async () => {
      const begin = performance.now();
      window.tidemark.page.view.zoom(0.5);
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      return performance.now() - begin;
    });
    checks.check(redraw < limit / 2, `${name} zooms without waiting`, `${Math.round(redraw)} ms`);
    // In every part of the run the largest total of the part is drawn, however thin.
    const lost = await page.evaluate(() => {
      const {chart, run, view} = window.tidemark.page;
      const span = run.end - run.begin;
      const parts = [[0, 1], [0, 0.5], [0.3, 0.9], [0.41, 0.42], [0.7, 0.703]];
      return parts.filter(([from, to]) => {
        view.setRange(run.begin + from * span, run.begin + to * span);
        chart.build();
        let most = 0;
        for (let i = 0; i < run.count; ++i)
          if (run.time[i] >= view.begin && run.time[i] <= view.end)
            most = Math.max(most, run.live[i]);
        return Math.max(...chart.shown.tops.at(-1)) - run.context !== most;
      });
    });
    checks.check(
        lost.length === 0, `${name} keeps the largest total of every part when thinned`,
        lost.join(' '));
    await checks.shot(page, name.replace('.html', ''), false);
  });
}

try {
  await oneRun(checks, json('results.json').points[0]);
  await pictures(checks, json('results.json').points[0]);
  if (long) {
    await hostOptimizer(checks);
    await eviction(checks);
  }
  await comparePoints(checks);
  await sweptPoints(checks);
  await manyPoints(checks, 'points.html', long ? 10000 : 1300, {paint: 2000, sort: 200});
  await compareBudgets(checks, json('results-budgets.json'));
  await comparisonOfMany(checks, json('results-many.json'));
  const kinds = long ? ['one', 'compare', 'swept', 'budgets', 'many'] : ['one', 'compare', 'swept'];
  for (const name of kinds)
    await phone(name);
  for (const name of kinds)
    await contrast(checks, name);
  await speed('100k.html', 100000, 2000);
  if (long) await speed('1m.html', 1000000, 5000);
} catch (error) {
  checks.check(false, error.stack);
} finally {
  await browser.close();
}
console.log(checks.failed === 0 ? 'all checks passed' : `${checks.failed} checks failed`);
process.exit(checks.failed === 0 ? 0 : 1);
