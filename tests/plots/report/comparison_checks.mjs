// Checks of the page that compares: points of a sweep, and policies against budgets.

// Overlapping texts of a plot: none may hide another.
const clashes = (page) => page.evaluate(() => {
  let count = 0;
  for (const plot of document.querySelectorAll('svg.scatter')) {
    const boxes = [...plot.querySelectorAll('text')].map((text) => text.getBoundingClientRect());
    boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 1 && high > 3) ++count;
    }));
  }
  return count;
});

export async function comparePoints(checks) {
  await checks.with('compare.html', {colorScheme: 'light'}, async (page) => {
    const points = await page.evaluate(() => window.tidemark.summary.points.length);
    checks.check(points > 2, 'the comparison has every point', points);
    checks.check(
        await page.locator('.runs input:checked').count() >= 2, 'two runs lie over each other');
    checks.check(
        await page.locator('.scatter .mark').count() >= points, 'the front shows every point');
    checks.check(await clashes(page) === 0, 'no text of a plot covers another');
    checks.check(
        (await page.locator('.legend li').allTextContents()).length > 0 &&
            (await page.locator('body').innerText()).includes('Overhead against budget'),
        'three policies have their lines over the capacities');
    // A line of capacity is for runs on devices of one size.
    const chart = page.locator('.chart[role=img]').first();
    const named = () => chart.getAttribute('aria-label');
    await chart.locator('canvas').waitFor();
    const severally = await named();
    const capacities = await page.evaluate(() => window.tidemark.summary.points.filter(
        ({charts}) => charts).map(({memory}) => memory.capacity));
    const choose = async (chosen) => {
      for (let k = 0; k < capacities.length; ++k)
        await page.locator('.runs input').nth(k).setChecked(chosen(k));
      await page.waitForTimeout(100);
    };
    const before = await page.locator('.runs input').evaluateAll(
        (boxes) => boxes.map(({checked}) => checked));
    await choose((k) => capacities[k] === capacities[0]);
    const alone = await named();
    checks.check(
        new Set(capacities).size > 1 && !severally.includes('capacity') &&
            / and the capacity of [\d.]+ GiB$/.test(alone),
        'runs of several capacities have no line of one', `${severally}; ${alone}`);
    await choose((k) => before[k]);
    // Beside roles and the allocator: layers and tensors, each summing to the peaks' bytes.
    await page.waitForFunction(() => document.querySelectorAll('table.terms').length === 3);
    const [totals, peaks] = await page.evaluate(() => {
      const panel = [...document.querySelectorAll('.panel')].find(
          (box) => box.textContent.includes('What makes the difference'));
      const sums = [...panel.querySelectorAll('tfoot tr')].map(
          (row) => [...row.cells].map((cell) => cell.textContent).slice(1, 3));
      const {points} = window.tidemark.summary;
      const chosen = [...panel.querySelectorAll('select')].map((box) => points[box.value]);
      return [sums, chosen.map(({memory}) => memory.peak_live)];
    });
    const inGiB = (text) => parseFloat(text) *
        {B: 2 ** -30, KiB: 2 ** -20, MiB: 2 ** -10, GiB: 1}[text.split(/\s/).at(-1)];
    const adds = ([, ...live]) => live.length === 2 &&
        live.every(
            (sum) => sum.every(
                (text, side) => Math.abs(inGiB(text) * 2 ** 30 / peaks[side] - 1) < 0.01));
    checks.check(
        adds(totals), 'layers and tensors of two peaks add up to them', totals.join(' | '));
    await checks.shot(page, 'compare');
    await page.locator('.runs input').first().uncheck();
    await page.waitForTimeout(100);
    const box = await page.locator('.page .u-over').first().boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    checks.check(await page.locator('.reading').count() >= 1, 'pointing reads every run');
    await page.keyboard.press('t');
    await page.waitForTimeout(200);
    await checks.shot(page, 'compare-dark');
    await page.locator('table .link').nth(1).click();
    await page.locator('.timeline .u-over').first().waitFor();
    checks.check(
        await page.evaluate(() => window.tidemark.page.run.point.number) === 1,
        'a row opens its run');
    await page.keyboard.press('c');
    checks.check(await page.locator('.runs').count() === 1, 'c compares again');
  });
}

// `results`: what `compare --json` says of the same comparison.
export async function compareBudgets(checks, results) {
  await checks.with('budgets.html', {colorScheme: 'light'}, async (page) => {
    const plot = page.locator('.panel').filter({hasText: 'Overhead against budget'});
    const kept =
        results.points.filter(({status, compare}) => status === 'fits' && compare.budget !== null);
    const titles = await plot.locator('.mark title').allTextContents();
    checks.check(
        kept.length > 2 && titles.length === kept.length,
        'overhead against budget has a mark for every budget that is kept',
        `${titles.length} of ${results.points.length}`);
    // Places of the marks against the figures: more time is higher, a larger budget further right.
    const places = await plot.locator('.mark').evaluateAll(
        (marks) =>
            marks.map((mark) => mark.getAttribute('transform').match(/[\d.]+/g).map(Number)));
    const due = kept.map(({compare}) => [compare.budget, compare.overhead])
                    .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    places.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
    const share = (list, k, axis) => {
      const values = list.map((item) => item[axis]);
      const [low, high] = [Math.min(...values), Math.max(...values)];
      return high === low ? 0 : (list[k][axis] - low) / (high - low);
    };
    const off = Math.max(...due.map(
        (_, k) => Math.max(
            Math.abs(share(due, k, 0) - share(places, k, 0)),
            Math.abs(share(due, k, 1) - (1 - share(places, k, 1))))));
    checks.check(off < 0.01, 'each where its budget and its overhead are', off.toFixed(4));
    checks.check(
        (await plot.innerText()).includes('least that is proven'), 'with the least that is proven');
    checks.check(await clashes(page) === 0, 'no text of a plot of budgets covers another');
    const rows = await page.locator('.tall tbody tr')
                     .evaluateAll((list) => list.map((row) => row.cells[2].textContent));
    checks.check(
        rows.length === results.points.length &&
            rows.filter((word) => word === 'kept').length ===
                results.points.filter(({status}) => status === 'fits').length,
        'the table has every policy under every budget', rows.join(', '));
    await page.locator('.page .u-over').first().waitFor();
    await checks.shot(page, 'budgets');
    // Pictures follow the window, also through sizes at which nothing is in sight.
    for (const width of [700, 1100, 1280]) {
      await page.setViewportSize({width, height: 900});
      await page.waitForTimeout(150);
      const [drawn, plot, room] = await page.evaluate(
          () =>
              [document.querySelector('.chart canvas')?.clientWidth ?? 0,
               document.querySelector('.scatter').clientWidth,
               document.querySelector('.chart').clientWidth]);
      checks.check(
          drawn === room && plot > 200 && plot <= room, `pictures follow a window of ${width}`,
          `${drawn} and ${plot} of ${room}`);
    }
    // Budgets of a policy that does not solve for them are one run.
    const runs = new Set(
        await page.evaluate(() => window.tidemark.summary.points.map((point) => point.run)));
    checks.check(
        runs.size < results.points.length, 'a policy without a budget ran once', runs.size);
    const last = page.locator('.tall tbody tr').last();
    const peak = results.points.at(-1).memory.peak_live;
    await last.locator('.link').click();
    await page.locator('.timeline .u-over').first().waitFor();
    const shown = await page.evaluate(() => {
      const {run} = window.tidemark.page;
      return run.live[run.peak];
    });
    checks.check(shown === peak, 'a row opens the run of its plan', `${shown} and ${peak}`);
    checks.check(
        !(await page.locator('.cards').innerText()).includes('Does not fit'),
        'which fits its device');
  });
}
