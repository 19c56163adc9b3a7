// Checks of a comparison of many policies under one budget: inks, bounds, tabs, the matrix.

// `results`: what `compare --json` says of the same comparison.
export async function comparisonOfMany(checks, results) {
  await checks.with('many.html', {colorScheme: 'light'}, async (page) => {
    const plot = page.locator('.panel').filter({hasText: 'Overhead against budget'});
    const inks = await plot.locator('.legend path').evaluateAll(
        (paths) => paths.map((path) => `${path.getAttribute('fill')} ${path.getAttribute('d')}`));
    checks.check(
        inks.length > 8 && new Set(inks).size === inks.length,
        'no colour and shape twice among many series', inks.length);
    const {points} = results;
    const bounds =
        points.filter(({compare}) => compare.lower_bound_overhead !== null).length;
    checks.check(
        bounds > 0 && await plot.locator('.bound').count() === 1 &&
            /^at least [\d.]+ %$/.test((await plot.locator('text.label').allTextContents()).join()),
        'one budget has its bound as a bar with its overhead',
        (await plot.locator('text.label').allTextContents()).join());
    const [bar, marks] = await plot.evaluate((panel) => {
      const y = (element) => element.getBoundingClientRect();
      return [y(panel.querySelector('.bound')).top, [...panel.querySelectorAll('.mark')].map((mark) => y(mark).bottom)];
    });
    checks.check(
        bar >= 0 && marks.length > 8 && marks.every((low) => low > 0), 'and marks beside it');

    const front = page.locator('.panel').filter({hasText: 'Time against memory'});
    const places = await front.locator('.mark').evaluateAll((list) => list.map((mark) => {
      const [x, y] = mark.getAttribute('transform').match(/[\d.]+/g).map(Number);
      return {x, y, words: mark.querySelector('title').textContent};
    }));
    const base = places.find(({words}) => words.startsWith('no policy'));
    checks.check(
        base !== undefined && places.every(({x}) => x <= base.x + 0.01) &&
            places.every(({y}) => y <= base.y + 0.01),
        'memory is to the right and time upwards: no policy needs most and takes least');
    const path = await front.locator('svg.scatter > path[fill="none"]').first().getAttribute('d');
    checks.check(
        /^M[\d.]+ [\d.]+(H[\d.]+V[\d.]+)+$/.test(path), 'the front is a line of steps', path);

    for (const width of [1280, 700]) {
      await page.setViewportSize({width, height: 900});
      await page.waitForTimeout(150);
      const [tabs, cut, rows] = await page.evaluate(() => {
        const nav = document.querySelector('nav.tabs');
        const boxes = [...nav.children].map((tab) => tab.getBoundingClientRect());
        return [
          boxes.length,
          boxes.filter(({right, left}) => right > innerWidth + 1 || left < 0).length +
              (nav.scrollWidth > nav.clientWidth ? 1 : 0),
          new Set(boxes.map(({top}) => top)).size
        ];
      });
      checks.check(
          tabs > 8 && cut === 0 && rows > 1, `tabs wrap in a window of ${width}`,
          `${tabs} in ${rows} rows`);
    }
    await page.setViewportSize({width: 1280, height: 900});

    const matrix = page.locator('.matrix');
    await page.locator('.panel').filter({hasText: 'layer by layer'}).scrollIntoViewIfNeeded();
    await matrix.waitFor();
    const [columns, rows] = await matrix.evaluate((table) => [
      [...table.querySelectorAll('th.layer')].map((cell) => cell.textContent),
      [...table.querySelectorAll('tbody tr')].map(
          (row) => [row.cells[0].textContent, [...row.cells].slice(1).map((cell) => cell.textContent)])
    ]);
    const row = (name) => rows.find(([label]) => label.startsWith(name))?.[1] ?? [];
    const block = columns.indexOf('h.0');
    checks.check(
        columns.includes('h.0') && columns.includes('h.1') && columns.includes('loss') &&
            rows.length > 8,
        'the matrix has a row for each policy and a column for each layer', columns.join(', '));
    checks.check(
        row('no policy').every((letters) => /^K?$/.test(letters)) &&
            row('checkpoint_every(period 1)')[block]?.startsWith('R') &&
            row('offload_activations')[block]?.startsWith('O'),
        'it tells what is kept, recomputed and offloaded',
        ['no policy', 'checkpoint_every(period 1)', 'offload_activations']
            .map((name) => row(name)[block])
            .join(', '));
    await checks.shot(page, 'many');
  });
}
