// Checks of what the pictures over time say besides memory: phases, times, maxima, lifetimes,
// hatching, fragmentation, names outside of layers, where the time goes.

const panel = (page, title) => page.locator('.panel').filter({hasText: title});

// Distinct colours in a part of a canvas, in CSS pixels.
const coloursOf = (locator, box) => locator.evaluate((canvas, [x, y, w, h]) => {
  const ratio = canvas.width / canvas.clientWidth;
  const copy = Object.assign(document.createElement('canvas'), {width: w, height: h});
  const context = copy.getContext('2d', {willReadFrequently: true});
  context.drawImage(canvas, x * ratio, y * ratio, w * ratio, h * ratio, 0, 0, w, h);
  const {data} = context.getImageData(0, 0, w, h);
  const colours = new Set();
  for (let i = 0; i < data.length; i += 4)
    colours.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
  return [...colours];
}, box);

// Whether a colour is among others, but for rounding.
const hasColour = (colours, colour) => colours.some(
    (other) => [16, 8, 0].every(
        (shift) => Math.abs((other >> shift & 255) - (colour >> shift & 255)) <= 2));

const frames = (page) => page.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

async function phases(checks, page, point) {
  const found = await page.evaluate(() => {
    const {chart, run, view} = window.tidemark.page;
    const names = run.description.phases;
    return {
      names: chart.phaseNames.map(({text}) => text),
      inside: chart.phaseNames.every(({left, right}) => {
        const {left: from, width} = chart.plot.bbox;
        return left >= from - 1 && right <= from + width + 1;
      }),
      bands: run.bands.filter(({begin}) => begin >= view.origin)
                 .map(({begin, end, phase}) => [names[phase], (end - begin) * 1e-9])
    };
  });
  checks.check(
      found.names[0] === 'forward' && found.names[1] === 'backward' &&
          /^opt/.test(found.names[2] ?? ''),
      'the chart names forward, backward and optimizer', found.names.join(', '));
  checks.check(found.inside, 'names of phases stay inside the frame');
  const sum = (name) => found.bands.filter(([of]) => of === name)
                            .reduce((total, [, seconds]) => total + seconds, 0);
  const off = ['forward', 'backward'].map((name) => Math.abs(sum(name) - point.time[name]));
  checks.check(
      Math.max(...off) < 0.03 * point.time.step, 'bands are as long as the phases of the results',
      off.map((seconds) => `${(seconds * 1e3).toFixed(2)} ms off`).join(', '));
  // Backward is shaded above what is live, forward is not.
  const canvas = page.locator('.timeline .uplot canvas');
  const [shaded, plain, band] = await page.evaluate(() => {
    const {chart, run} = window.tidemark.page;
    const {offsetLeft, offsetTop} = chart.plot.over;
    const names = run.description.phases;
    const middle = (name) => {
      const of = run.bands.filter(({phase}) => names[phase] === name).at(-1);
      return offsetLeft + Math.round(chart.plot.valToPos((of.begin + of.end) / 2, 'x'));
    };
    const probe = document.createElement('canvas').getContext('2d');
    probe.fillStyle =
        getComputedStyle(document.documentElement).getPropertyValue('--band').trim();
    return [
      [middle('backward') + 60, offsetTop - 16, 4, 3], [middle('forward') + 60, offsetTop - 16, 4, 3],
      parseInt(probe.fillStyle.slice(1), 16)
    ];
  });
  checks.check(
      (await coloursOf(canvas, shaded)).includes(band) &&
          !(await coloursOf(canvas, plain)).includes(band),
      'backward is a shaded band, forward is not');
}

async function times(checks, page, point) {
  const axis = () => page.evaluate(() => {
    const {chart, view} = window.tidemark.page;
    return [chart.plot.axes[0]._values[0], view.timeTitle];
  });
  const [first, title] = await axis();
  checks.check(/^0 /.test(first), 'time counts from 0 of the step', first);
  checks.check(title === 'time in step 1', 'and the axis says so', title);
  const listed = await panel(page, 'Largest tensors').locator('.instant').innerText();
  checks.check(
      /^The peak: [\d.]+ [mµ]?s into step 1/.test(listed), 'so does the chosen instant', listed);
  await page.keyboard.press('a');
  await frames(page);
  checks.check((await axis())[1] === 'time of the run', 'all steps have one time');
  await page.keyboard.press('0');
  await frames(page);
  const words = await page.evaluate(() => {
    const {run} = window.tidemark.page;
    return [run.when(run.lastStepBegin), run.when(run.begin), point_of(run)];
    function point_of({time, peak}) { return run.when(time[peak]); }
  });
  checks.check(
      words[0] === '0' && words[1] === '0 of step 0', 'times of other steps name their step',
      words.join(', '));
  const peak = point.memory.peak.time * 1e3;
  checks.check(
      Math.abs(parseFloat(words[2]) - peak) < 0.06, 'the peak is when the results say',
      `${words[2]}, ${peak} ms`);
}

async function maxima(checks, page) {
  const [most, due, there] = await page.evaluate(() => {
    const {run} = window.tidemark.page;
    const grouping = run.grouping('role');
    const steps = run.columns['position.step'];
    const positions = run.columns['point.position'];
    const sums = new Float64Array(grouping.groups);
    const found = new Float64Array(grouping.groups);
    let begun = false;
    for (let i = 0; i < run.count; ++i) {
      const begins = run.time[i] >= run.lastStepBegin && steps[positions[i]] === 1;
      if (begins && !begun) found.set(sums);
      begun ||= begins;
      sums[grouping.of[run.block[i]]] += run.sign[i] * run.bytes[run.block[i]];
      if (begun) sums.forEach((bytes, g) => (found[g] = Math.max(found[g], bytes)));
    }
    const at = [...grouping.mostAt].map((i, g) => grouping.before(i + 1)[g]);
    return [[...grouping.most], [...found], at];
  });
  checks.check(most.join() === due.join(), 'each role has its own maximum', most.join(' '));
  checks.check(there.join() === due.join(), 'and the instant at which it holds that');
  const button = page.locator('.legends .most').first();
  checks.check(/^most .*B$/.test(await button.innerText()), 'the legend says it');
  await button.click();
  const now = await page.evaluate(() => {
    const {run, view} = window.tidemark.page;
    return [...run.grouping('role').mostAt].includes(view.instant);
  });
  checks.check(now, 'and goes there');
  await page.keyboard.press('p');
}

async function bandNames(checks, page) {
  const box = await page.locator('.timeline .u-over').first().boundingBox();
  const tooltip = page.locator('.tooltip');
  const places = await page.evaluate(() => {
    // Every band that is high enough at the peak, from the context to the free memory above.
    const {chart, run} = window.tidemark.page;
    const k = chart.shown.point.indexOf(run.peak);
    const u = chart.plot;
    const left = u.valToPos(chart.shown.x[k], 'x');
    const list = [];
    let below = 0;
    const add = (label, top) => {
      const [low, high] = [u.valToPos(below, 'y'), u.valToPos(top, 'y')];
      if (low - high > 4) list.push([label, left, (low + high) / 2]);
      below = Math.max(below, top);
    };
    add('CUDA context', run.context);
    run.grouping('role').labels.forEach((label, g) => add(label, chart.shown.tops[g][k]));
    add('allocated beyond it', chart.shown.allocated[k]);
    add('reserved, not in use', chart.shown.reserved[k]);
    add('free on the device', Math.min(chart.top, run.capacity));
    return list;
  });
  const wrong = [];
  for (const [label, left, top] of places) {
    await page.mouse.move(box.x + left, box.y + top);
    await frames(page);
    const bold = await tooltip.locator('.band b').allTextContents();
    if (!bold[0]?.startsWith(label)) wrong.push(`${label}: ${bold.join(', ')}`);
  }
  checks.check(
      places.length >= 4 && wrong.length === 0, 'the band under the pointer is named',
      wrong.join('; ') || places.map(([label]) => label).join(', '));
  await page.mouse.move(5, 5);
}

async function lifetimes(checks, page) {
  const row = panel(page, 'Largest tensors').locator('tbody tr').first();
  await row.hover();
  const [marked, born, dies] = await page.evaluate(() => {
    const {run, view} = window.tidemark.page;
    return [view.lifetime, ...(view.lifetime === null ? [0, 0] : run.lifetimeOf(view.lifetime))];
  });
  checks.check(
      marked !== null && String(marked) === await row.getAttribute('data-allocation') && born < dies,
      'a row marks its tensor', marked);
  await page.mouse.move(5, 5);
  await page.evaluate(() => document.querySelector('.timeline').scrollIntoView());
  await page.evaluate((a) => window.tidemark.page.view.markLifetime(a), marked);
  await frames(page);
  const canvas = page.locator('.timeline .uplot canvas');
  const [inside, outside] = await page.evaluate(([from, to]) => {
    const {plot} = window.tidemark.page.chart;
    const {offsetLeft, offsetTop, offsetWidth} = plot.over;
    const x = (time) => Math.min(Math.max(plot.valToPos(time, 'x'), 0), offsetWidth);
    const middle = Math.round((x(from) + x(to)) / 2) + offsetLeft;
    return [[middle, offsetTop, 1, 3], [offsetLeft + 2, offsetTop, 1, 3]];
  }, [born, dies]);
  const accent = await page.evaluate(() => {
    const probe = document.createElement('canvas').getContext('2d');
    probe.fillStyle =
        getComputedStyle(document.documentElement).getPropertyValue('--accent').trim();
    return parseInt(probe.fillStyle.slice(1), 16);
  });
  checks.check(
      hasColour(await coloursOf(canvas, inside), accent) &&
          !hasColour(await coloursOf(canvas, outside), accent),
      'from when to when it lives');
  await page.evaluate(() => window.tidemark.page.view.markLifetime(null));
  await row.click();
  await page.mouse.move(5, 5);
  checks.check(
      await page.evaluate(() => window.tidemark.page.view.lifetime) === marked &&
          await row.getAttribute('aria-pressed') === 'true',
      'a click keeps it');
  await row.click();
  await page.mouse.move(5, 5);
  await page.evaluate(() => document.activeElement.blur());
  checks.check(
      await page.evaluate(() => window.tidemark.page.view.lifetime) === null, 'until the next one');
}

async function hatching(checks, page) {
  const canvas = page.locator('.timeline .uplot canvas');
  const [box, ink, plain] = await page.evaluate(() => {
    const {chart, run} = window.tidemark.page;
    const grouping = run.grouping('role');
    const k = Math.floor(chart.shown.x.length / 2);
    const g = grouping.labels.indexOf('optimizer state');
    const {offsetLeft, offsetTop} = chart.plot.over;
    const y = (bytes) => offsetTop + chart.plot.valToPos(bytes, 'y');
    const [top, low] = [y(chart.shown.tops[g][k]) + 3, y(chart.shown.tops[g - 1]?.[k] ?? run.context) - 3];
    const x = offsetLeft + chart.plot.valToPos(chart.shown.x[k], 'x');
    const inks = grouping.inks;
    return [
      [Math.round(x), Math.round(top), 24, Math.max(Math.round(low - top), 1)], inks[g],
      inks.filter((a, i) => i > 0 && !a.hatch && !inks[i - 1].hatch).length
    ];
  });
  const colours = await coloursOf(canvas, box);
  checks.check(
      ink.hatch > 0 && colours.includes(parseInt(ink.colour.slice(1), 16)) && colours.length > 1,
      'areas are hatched', `${ink.colour} and ${colours.length - 1} others`);
  checks.check(plain <= 2, 'neighbours in the stack differ by more than colour', plain);
}

async function fragmentation(checks, page) {
  const [reserved, live, segments, gaps, readout] = await page.evaluate(() => {
    const {addresses: map, run} = window.tidemark.page;
    const {segments: all, gaps: free} = map.gapsAt(run.peak);
    const sum = (list) => list.reduce((bytes, {begin, end}) => bytes + end - begin, 0);
    return [
      run.columns['point.reserved'][run.peak], run.columns['point.active'][run.peak], sum(all),
      sum(free), map.readout.innerText
    ];
  });
  checks.check(
      segments === reserved, 'the map has all that is reserved', `${segments} of ${reserved}`);
  checks.check(
      Math.abs(reserved - live - gaps) < 0.02 * reserved,
      'its gaps are what is reserved and not allocated', `${gaps} and ${reserved - live}`);
  checks.check(/^At the peak: .* free in \d+ gaps?, the largest /.test(readout), 'and it says so', readout);
  const map = page.locator('.addresses canvas');
  await map.scrollIntoViewIfNeeded();
  await page.waitForFunction(() => window.tidemark.page.addresses.frame.painted);
  const [x, y] = await page.evaluate(() => {
    const {addresses: of, run, view} = window.tidemark.page;
    const {gaps: free} = of.gapsAt(run.peak);
    const {begin, end} = free.reduce((a, b) => (b.end - b.begin > a.end - a.begin ? b : a));
    const inner = of.box.clientWidth - 88;
    return [
      76 + (run.time[run.peak] - view.begin) / (view.end - view.begin) * inner + 1,
      360 - 22 - (begin + end) / 2 / of.height * (360 - 44)
    ];
  });
  const box = await map.boundingBox();
  await page.mouse.move(box.x + x, box.y + y);
  const text = await page.locator('.tooltip').innerText();
  checks.check(/^free: .*B\n/.test(text), 'pointing at a gap says how large it is', text);
  await page.mouse.move(5, 5);
}

async function names(checks, page) {
  const layers = await page.locator('.tall tbody tr td:first-child').allTextContents();
  checks.check(
      layers.includes('loss') && layers.includes('optimizer') && !layers.includes('no layer'),
      'what has no layer says what it is', layers.slice(-6).join(', '));
  await page.getByRole('searchbox').fill('log_softmax');
  const of = await panel(page, 'Largest tensors')
                 .locator('tbody tr td:nth-child(5)')
                 .allTextContents();
  checks.check(of.length > 0 && of.every((name) => name === 'loss'), 'so do its tensors', of[0]);
  await page.getByRole('searchbox').fill('');
  await page.getByRole('searchbox').blur();
}

async function timeTables(checks, page, point) {
  const rows = (k) => panel(page, 'Time by kernel and layer')
                          .locator('table')
                          .nth(k)
                          .locator('tbody tr')
                          .evaluateAll((list) => list.map((row) => [...row.cells].map(
                                                              (cell) => cell.textContent)));
  const kUnits = {ns: 1e-9, 'µs': 1e-6, ms: 1e-3, s: 1};
  const seconds = (text) => parseFloat(text) * kUnits[text.split(' ')[1]];
  for (const [k, due] of [[0, 'linear.weight_gradient'], [1, 'loss']]) {
    const terms = await rows(k);
    const sum = terms.reduce((total, row) => total + seconds(row[2]), 0);
    const {busy} = point.time.streams.compute;
    checks.check(
        terms.some(([name]) => name === due) && Math.abs(sum - busy) < 0.01 * busy,
        `the table of time has ${due} and adds up to what compute works`, `${sum} and ${busy} s`);
  }
}

// `point`: of the results of the same run.
export async function pictures(checks, point) {
  await checks.with('one.html', {colorScheme: 'light'}, async (page) => {
    await phases(checks, page, point);
    await times(checks, page, point);
    await maxima(checks, page);
    await bandNames(checks, page);
    await lifetimes(checks, page);
    await hatching(checks, page);
    await fragmentation(checks, page);
    await names(checks, page);
    await timeTables(checks, page, point);
    const made = await page.locator('footer').innerText();
    checks.check(
        /reproduce \(tidemark [\d.]+\): tidemark run one\.yaml/.test(made),
        'the page says how it was made', made);
    await checks.shot(page, 'pictures');
  });
}
