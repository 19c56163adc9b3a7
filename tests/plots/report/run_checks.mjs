// Checks of the page of one run: what it draws against the run's own columns and results.
const kNear = 1e-6;  // seconds

const range = (page) =>
    page.evaluate(() => [window.tidemark.page.view.begin, window.tidemark.page.view.end]);
const instant = (page) => page.evaluate(() => window.tidemark.page.view.instant);
const panel = (page, title) => page.locator('.panel').filter({hasText: title});
const nonsense = (text) => /null|undefined|NaN|Infinity/.test(text);

// What is live after point `i`, by walking the points: names with their bytes, largest first.
const liveAt = (page, i) => page.evaluate((last) => {
  const {run} = window.tidemark.page;
  const count = new Map();
  for (let k = 0; k <= last; ++k) {
    const block = run.block[k];
    if (run.sign[k] !== 0) count.set(block, (count.get(block) ?? 0) + run.sign[k]);
  }
  return [...count]
      .filter(([, times]) => times > 0)
      .map(([block]) => [run.names[run.columns['block.name'][block]], run.bytes[block]])
      .sort((a, b) => b[1] - a[1]);
}, i);

// Pixels of a canvas that have a colour of the page, in a part of it in CSS pixels.
const pixelsOf = (locator, colour, part) => locator.evaluate((canvas, [name, box]) => {
  const ratio = canvas.width / canvas.clientWidth;
  const probe = document.createElement('canvas').getContext('2d');
  probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const hex = parseInt(probe.fillStyle.slice(1), 16);
  const [x, y, w, h] =
      (box ?? [0, 0, canvas.clientWidth, canvas.clientHeight]).map((v) => Math.round(v * ratio));
  // Read from a copy, which may be slow to read without Chromium saying so on the console.
  const copy = Object.assign(document.createElement('canvas'), {width: w, height: h});
  const context = copy.getContext('2d', {willReadFrequently: true});
  context.drawImage(canvas, x, y, w, h, 0, 0, w, h);
  const {data} = context.getImageData(0, 0, w, h);
  let found = 0;
  for (let i = 0; i < data.length; i += 4)
    if ((data[i] << 16 | data[i + 1] << 8 | data[i + 2]) === hex) ++found;
  return found;
}, [colour, part ?? null]);

async function figures(checks, page, point) {
  const {memory} = point;
  const peak = await page.evaluate(() => {
    const {run} = window.tidemark.page;
    return {bytes: run.live[run.peak], reserved: Math.max(...run.columns['point.reserved'])};
  });
  checks.check(
      peak.bytes === memory.peak_live, 'the peak of the page is that of the results', peak.bytes);
  checks.check(
      peak.reserved >= memory.peak_reserved, 'reserved bytes reach those of the results',
      peak.reserved);
  const sums = await page.evaluate(() => {
    const {run} = window.tidemark.page;
    return ['role', 'layer', 'operator'].map((kind) => {
      const grouping = run.grouping(kind);
      return grouping.before(run.peak + 1).reduce((a, b) => a + b, 0);
    });
  });
  checks.check(
      sums.every((sum) => sum === memory.peak_live), 'every grouping sums to the peak',
      sums.join(' '));
  const drawn = await page.evaluate(() => {
    const {chart, run} = window.tidemark.page;
    return Math.max(...chart.shown.tops.at(-1)) - run.context;
  });
  checks.check(drawn === memory.peak_live, 'the thinned chart shows the peak to the byte', drawn);
  const capacity = await page.evaluate(() => {
    const {chart, run} = window.tidemark.page;
    chart.toCapacity = true;
    chart.build();
    const {over} = chart.plot;
    return new Promise(
        (done) => requestAnimationFrame(
            () => done([
              over.offsetLeft, over.offsetTop + chart.plot.valToPos(run.capacity, 'y') - 2,
              over.offsetWidth, 4
            ])));
  });
  const line = await pixelsOf(page.locator('.timeline .uplot canvas'), 'bad', capacity);
  checks.check(line > 0.9 * capacity[2], 'the capacity is a line across the chart', line);
}

async function hovering(checks, page, box) {
  const tooltip = page.locator('.tooltip');
  for (const [x, y] of [[0.4, 0.9], [0.75, 0.95], [0.05, 0.05]]) {
    await page.mouse.move(box.x + box.width * x, box.y + box.height * y);
    await tooltip.waitFor({state: 'visible'});
    const text = await tooltip.innerText();
    checks.check(!nonsense(text), 'the tooltip says nothing but what is there', text.slice(0, 40));
    const rows = await tooltip.locator('tr').evaluateAll(
        (list) => list.map((row) => [...row.cells].map((cell) => cell.textContent)));
    const point = await page.evaluate(([left, top]) => {
      const {chart, run} = window.tidemark.page;
      const time = chart.plot.posToVal(left, 'x');
      const {x: times, point: points} = chart.shown;
      // Any sample close by may be the one told, so that narrow peaks can be pointed at.
      const reach = chart.plot.posToVal(left + 3, 'x') - time;
      return points.filter(
          (p, k) =>
              p >= 0 && (times[k] <= time + reach) && (times[k + 1] ?? run.end) >= time - reach);
    }, [box.width * x, box.height * y]);
    let named = false;
    for (const i of point) {
      const live = new Set((await liveAt(page, i)).map(([name]) => name));
      named ||= rows.length > 0 && rows.every(([name]) => live.has(name));
    }
    checks.check(named, 'hovering names tensors that are live', rows.map(([n]) => n).join(', '));
  }
  await checks.shot(page, 'one-hover', false);
}

async function zooming(checks, page, box) {
  const before = await range(page);
  await page.mouse.move(box.x + box.width * 0.3, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 60, {steps: 5});
  await page.mouse.up();
  const zoomed = await range(page);
  const share = (zoomed[1] - zoomed[0]) / (before[1] - before[0]);
  checks.check(Math.abs(share - 0.3) < 0.02, 'dragging zooms to what was marked', share.toFixed(3));
  await page.keyboard.press(']');
  const moved = await range(page);
  checks.check(moved[0] > zoomed[0], 'a key moves the part shown');
  await page.keyboard.press('+');
  const closer = await range(page);
  checks.check(closer[1] - closer[0] < (moved[1] - moved[0]) * 0.6, '+ zooms in');
  await page.keyboard.press('-');
  await checks.shot(page, 'one-zoomed', false);
  await page.keyboard.press('0');
  checks.check(
      JSON.stringify(await range(page)) === JSON.stringify(before), '0 goes back to the last step');
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.5);
  await page.keyboard.down('Control');
  await page.mouse.wheel(0, -200);
  await page.keyboard.up('Control');
  const wheeled = await range(page);
  checks.check(wheeled[1] - wheeled[0] < before[1] - before[0], 'Ctrl and the wheel zoom');
  await page.keyboard.press('0');
}

async function choosing(checks, page, box) {
  await page.mouse.click(box.x + box.width * 0.2, box.y + box.height * 0.5);
  const chosen = await instant(page);
  const rows = panel(page, 'Largest tensors').locator('tbody tr');
  const expected = await liveAt(page, chosen);
  const listed = await rows.evaluateAll((list) => list.map((row) => row.cells[0].textContent));
  // Of equal sizes any may come first: each row names a tensor of the size due there.
  const due = expected.slice(0, listed.length);
  const sizes = new Map();
  for (const [name, bytes] of expected)
    sizes.set(name, [...(sizes.get(name) ?? []), bytes]);
  checks.check(
      listed.length > 3 && listed.every((name, k) => sizes.get(name)?.includes(due[k][1])),
      'a click lists the largest tensors of that instant', listed.slice(0, 3).join(', '));
  await page.getByRole('searchbox').fill('adamw');
  const found = await rows.evaluateAll((list) => list.map((row) => row.textContent));
  checks.check(
      found.length > 0 && found.every((text) => text.includes('adamw')),
      'the filter leaves what matches', found.length);
  await page.getByRole('searchbox').fill('');
  await page.getByRole('searchbox').blur();
  const total = await page.evaluate(() => {
    const {run, view} = window.tidemark.page;
    const sum = run.liveAt(view.instant).reduce((s, a) => s + run.bytes[run.blockOf(a)], 0);
    return [sum, run.live[view.instant]];
  });
  checks.check(total[0] === total[1], 'the live tensors sum to what is live', total.join(' '));
  await page.keyboard.press('ArrowRight');
  checks.check(await instant(page) > chosen, 'an arrow moves the instant');
  await page.keyboard.press('Shift+ArrowLeft');
  await page.keyboard.press('p');
  checks.check(
      await instant(page) === await page.evaluate(() => window.tidemark.page.run.peak),
      'p goes to the peak');
}

async function grouping(checks, page) {
  for (const kind of ['layer', 'operator']) {
    await page.keyboard.press('g');
    const now = await page.evaluate(
        () =>
            [window.tidemark.page.view.grouping,
             document.querySelector('.choice [aria-checked="true"]').textContent,
             [...document.querySelectorAll('.legends .legend:first-child span:not(.swatch)')].map(
                 (label) => label.textContent)]);
    checks.check(now[0] === kind && now[1].toLowerCase() === kind, `g stacks by ${kind}`);
    const due = {layer: 'h.11', operator: 'linear'}[kind];
    checks.check(now[2].includes(due), `the legend names each ${kind}`, now[2].join(', '));
    await checks.shot(page, `one-by-${kind}`, false);
  }
  await page.getByRole('radio', {name: 'Role'}).click();
  const grouped = () => page.evaluate(() => window.tidemark.page.view.grouping);
  checks.check(await grouped() === 'role', 'a button stacks by role');
  await page.keyboard.press('ArrowRight');
  checks.check(await grouped() === 'layer', 'arrows choose among the buttons that have the focus');
  await page.keyboard.press('ArrowLeft');
  await page.evaluate(() => document.activeElement.blur());
}

// Sum of the waits of the last step by cause, in seconds.
const waited = (page, cause) => page.evaluate((of) => {
  const {run, lanes} = window.tidemark.page;
  return (lanes.waited(run.lastStepBegin)[of] ?? 0) * 1e-9;
}, cause);

async function lanes(checks, page, point) {
  const canvas = page.locator('.lanes canvas');
  await canvas.scrollIntoViewIfNeeded();
  await page.evaluate(() => window.tidemark.page.lanes.draw());
  const names = await page.evaluate(() => window.tidemark.page.lanes.lanes.map((l) => l.name));
  checks.check(
      ['compute', 'd2h', 'h2d', 'issue'].every((name) => names.includes(name)),
      'every stream has a lane', names.join(', '));
  const width = await canvas.evaluate((c) => c.clientWidth);
  for (const colour of ['forward', 'backward', 'optimizer', 'wait-transfer']) {
    const pixels = await pixelsOf(canvas, colour, [0, 0, width, 32]);
    checks.check(pixels > 5, `the lane of compute shows ${colour}`, pixels);
  }
  checks.check(await pixelsOf(canvas, 'copy') > 20, 'copies have lanes');
  const transfers = await waited(page, 'transfer');
  const {exposed_transfer: exposed} = point.time;
  checks.check(
      Math.abs(transfers - exposed) <= 0.02 * exposed + kNear,
      'waits for copies on the lane are those of the results', `${transfers} and ${exposed} s`);

  // The longest operator that is recomputed fills the middle of the view.
  const again = await page.evaluate(() => {
    const {run, view} = window.tidemark.page;
    const c = run.columns;
    let longest = -1;
    c['work.kind'].forEach((kind, i) => {
      const position = c['work.position'][i];
      if (kind !== 0 || c['position.recompute'][position] !== 1) return;
      if (longest < 0 || c['work.duration'][i] > c['work.duration'][longest]) longest = i;
    });
    const [start, lasts] = [c['work.start'][longest], c['work.duration'][longest]];
    view.setRange(start - lasts, start + 2 * lasts);
    window.tidemark.page.lanes.draw();
    return run.describePosition(c['work.position'][longest]).operator;
  });
  const box = await canvas.boundingBox();
  await page.mouse.move(box.x + 76 + (box.width - 88) * 0.5, box.y + 16);
  const text = await page.locator('.tooltip').innerText();
  checks.check(
      text.includes(again) && text.includes('recompute') && !nonsense(text),
      'a lane names its operator, and that it is recomputed', text.split('\n')[0]);
  const plain = await pixelsOf(canvas, 'backward', [0.5 * width, 6, 0.1 * width, 26]);
  const whole = 0.1 * width * 26;
  checks.check(
      plain > 0.2 * whole && plain < 0.9 * whole, 'what is recomputed is hatched',
      (plain / whole).toFixed(2));
  await checks.shot(page, 'one-lanes', false);
  await page.keyboard.press('0');
}

async function addresses(checks, page) {
  const map = page.locator('.addresses canvas');
  await map.scrollIntoViewIfNeeded();
  await page.waitForFunction(() => window.tidemark.page.addresses.frame.painted);
  const inked = await map.evaluate((canvas) => {
    const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const colours = new Set();
    for (let i = 0; i < data.length; i += 4 * 7)
      if (data[i + 3] > 0) colours.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
    return colours.size;
  });
  checks.check(inked >= 4, 'the address map shows blocks', `${inked} colours`);
  const overlap = await page.evaluate(() => {
    // At the peak no two blocks share an address.
    const {run, addresses: drawn} = window.tidemark.page;
    const blocks = run.liveAt(run.peak)
                       .map((a) => [drawn.offset[a], run.bytes[run.blockOf(a)]])
                       .sort((a, b) => a[0] - b[0]);
    let clashes = 0;
    for (let k = 1; k < blocks.length; ++k)
      if (blocks[k - 1][0] + blocks[k - 1][1] > blocks[k][0]) ++clashes;
    return [blocks.length, clashes];
  });
  checks.check(
      overlap[0] > 3 && overlap[1] === 0, 'no two live blocks overlap on the map',
      overlap.join(' blocks, '));
  const box = await map.boundingBox();
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height - 34);
  const text = await page.locator('.tooltip').innerText();
  checks.check(
      /B$/m.test(text.split('\n')[0]) && !nonsense(text), 'the map names its blocks', text);
  await checks.shotOf(panel(page, 'Where each block lies'), 'one-addresses');
}

// Cells of the table of layers: {name, said, again, moved}.
const layers = (page) =>
    page.locator('.tall tbody tr').evaluateAll((rows) => rows.map((row) => ({
                                                                    name: row.cells[0].textContent,
                                                                    said: row.cells[1].textContent,
                                                                    again: row.cells[5].textContent,
                                                                    moved: row.cells[7].textContent
                                                                  })));
const kUnits = {
  ns: 1e-9,
  'µs': 1e-6,
  ms: 1e-3,
  s: 1
};
const seconds = (text) => {
  const [value, unit] = text.split(' ');
  return text === '–' ? 0 : Number(value) * kUnits[unit];
};

async function decisions(checks, page, point) {
  const rows = await layers(page);
  const recomputed = rows.filter((row) => row.said.includes('recompute')).map((row) => row.name);
  checks.check(
      recomputed.join() === 'h.0,h.1,h.2,h.3,h.4,h.5', 'layers say that they are recomputed',
      recomputed.join());
  const again = rows.reduce((sum, row) => sum + seconds(row.again), 0);
  checks.check(
      Math.abs(again - point.time.recompute) < 0.01 * point.time.recompute,
      'and for how long, as the results do', `${again} and ${point.time.recompute} s`);
  const moved = rows.filter((row) => row.said.includes('offload') && row.moved !== '–').length;
  checks.check(moved > 5, 'layers say what they move to the host', `${moved} layers`);
  const scenario = await panel(page, 'As resolved').innerText();
  const version = await page.evaluate(() => window.tidemark.summary.tidemark);
  checks.check(
      scenario.includes(version) && scenario.includes('v100') && scenario.includes('prefetch: 2') &&
          scenario.includes('fp16_mixed'),
      'the scenario stands there as given and as resolved, with the version', version);
}

async function themes(checks, page) {
  await page.evaluate(() => {
    const {view, run} = window.tidemark.page;
    view.choose(5);
    view.setRange(run.begin, (run.begin + run.end) / 2);
    view.group('layer');
  });
  const state = () => page.evaluate(() => {
    const {view} = window.tidemark.page;
    return JSON.stringify([view.begin, view.end, view.instant, view.grouping]);
  });
  const before = await state();
  await page.keyboard.press('t');
  checks.check(
      await page.evaluate(() => document.documentElement.dataset.theme) === 'dark',
      't switches to dark');
  checks.check(await state() === before, 'what was chosen stays', before);
  const printed = await page.pdf({format: 'A4'});
  checks.check(
      printed.length > 30000 &&
          await page.evaluate(() => document.documentElement.dataset.theme) === 'dark',
      'it prints, light, and is dark again', `${printed.length} bytes`);
  await checks.shot(page, 'one-dark');
  await page.keyboard.press('?');
  checks.check(await page.locator('dialog').isVisible(), '? shows the keys');
  await checks.shot(page, 'help', false);
  await page.keyboard.press('Escape');
}

// `point`: of the results of the same run.
export async function oneRun(checks, point) {
  await checks.with('one.html', {colorScheme: 'light'}, async (page) => {
    await figures(checks, page, point);
    await checks.shot(page, 'one-light');
    const box = await page.locator('.timeline .u-over').first().boundingBox();
    await hovering(checks, page, box);
    await zooming(checks, page, box);
    await choosing(checks, page, box);
    await grouping(checks, page);
    await lanes(checks, page, point);
    await addresses(checks, page);
    await decisions(checks, page, point);
    await themes(checks, page);
    const text = await page.evaluate(() => document.body.innerText);
    checks.check(!nonsense(text), 'nothing on the page is missing');
  });
}

export async function hostOptimizer(checks) {
  await checks.with('zero.html', {}, async (page) => {
    const {exposed_host_optimizer: exposed} =
        await page.evaluate(() => window.tidemark.page.run.point.time);
    const told = await waited(page, 'optimizer');
    checks.check(
        exposed > 0 && Math.abs(told - exposed) <= 0.02 * exposed,
        'waits for the host\'s optimizer are told from waits for copies',
        `${told} and ${exposed} s`);
    const canvas = page.locator('.lanes canvas');
    await canvas.scrollIntoViewIfNeeded();
    checks.check(await pixelsOf(canvas, 'wait-optimizer') > 20, 'and drawn in their own colour');
    checks.check(
        (await page.locator('.lanes + .legend').innerText()).includes('host\'s optimizer'),
        'the legend names them');
  });
}

export async function eviction(checks) {
  await checks.with('eviction.html', {}, async (page) => {
    await page.locator('.panel').filter({hasText: 'layer by layer'}).scrollIntoViewIfNeeded();
    await page.locator('.matrix').waitFor();
    const letters = await page.locator('.matrix tbody tr').evaluateAll(
        (list) => list.map((row) => [...row.cells].map((cell) => cell.textContent).slice(1)));
    checks.check(
        letters[0].some((cell) => cell.includes('E')) &&
            letters[1].every((cell) => /^K?$/.test(cell)),
        'the matrix tells what is evicted', letters[0].join(' '));
    await page.keyboard.press('1');
    await page.locator('.timeline .u-over').first().waitFor();
    const rows = await layers(page);
    const again = rows.reduce((sum, row) => sum + seconds(row.again), 0);
    const recompute = await page.evaluate(() => window.tidemark.page.run.point.time.recompute);
    checks.check(
        rows.some((row) => row.said.includes('evicted')) && recompute > 0 &&
            Math.abs(again - recompute) < 0.02 * recompute,
        'layers say what eviction recomputes', `${again} and ${recompute} s`);
  });
}
