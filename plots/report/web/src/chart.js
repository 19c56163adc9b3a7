// Memory over time, stacked: uPlot with cumulative sums and bands between them.
import {colourOf, gutter, kMargin, make, onNextFrame} from './dom.js';
import {fillOf, inkSwatch} from './inks.js';
import {namePhases, shadePhases} from './phases.js';
import {thinStack} from './stack.js';
import {formatBytes, formatShare, formatTime, niceStep, unitOf} from './units.js';
import {attachGestures} from './view.js';

const kNamed = 5;  // tensors in a tooltip
const kRoom = 2;   // times what is live that the axis shows for what is reserved

// The `count` largest of the allocations, without sorting all of them.
export function largestOf(run, allocations, count) {
  const bytes = (a) => run.bytes[run.blockOf(a)];
  const kept = [];
  for (const a of allocations) {
    if (kept.length === count && bytes(a) <= bytes(kept[count - 1])) continue;
    let at = kept.length;
    while (at > 0 && bytes(kept[at - 1]) < bytes(a))
      --at;
    kept.splice(at, 0, a);
    if (kept.length > count) kept.pop();
  }
  return kept;
}

export function placeText(place) {
  const words = place.recompute ? `${place.phase}, recompute` : place.phase;
  return `${words} · ${place.layer ? `${place.layer}: ` : ''}${place.operator}`;
}

// Axes of time and memory that look alike in every chart.
// `origin()` is the time that is 0 on the axis; `title()` stands below it.
export function timeAxis(origin = () => 0) {
  return {
    stroke: colourOf('muted'),
    grid: {stroke: colourOf('grid'), width: 1},
    ticks: {show: false},
    size: 44,
    gap: 6,
    font: '11px system-ui, sans-serif',
    splits: (u, axis, min, max) => {
      const step =
          niceStep(max - min, Math.max(2, Math.floor(u.bbox.width / devicePixelRatio / 90)));
      const splits = [];
      const from = origin();
      for (let at = from + Math.ceil((min - from) / step) * step; at <= max; at += step)
        splits.push(at);
      return splits;
    },
    values: (u, splits) => {
      const from = origin();
      const {size, unit} = unitOf(Math.abs((splits[splits.length - 1] ?? from) - from), true);
      const step = splits.length > 1 ? splits[1] - splits[0] : size;
      const digits = Math.min(6, Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9)));
      return splits.map((at) => `${((at - from) / size).toFixed(digits)} ${unit}`);
    },
  };
}

// Writes the title of the axis of time below its numbers.
export function titleTime(u, title) {
  const {ctx, bbox} = u;
  ctx.save();
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.fillStyle = colourOf('muted');
  ctx.textAlign = 'center';
  ctx.textBaseline = 'middle';
  ctx.fillText(title, bbox.left + bbox.width / 2, bbox.top + bbox.height + 35 * devicePixelRatio);
  ctx.restore();
}

export function memoryAxis() {
  return {
    stroke: colourOf('muted'),
    grid: {stroke: colourOf('grid'), width: 1},
    ticks: {show: false},
    size: gutter(),
    gap: 8,
    font: '11px system-ui, sans-serif',
    splits: (u, axis, min, max) => {
      const {size} = unitOf(max, false);
      let step = niceStep(max / size, 6) * size;
      if (step < 1) step = 1;
      const splits = [];
      for (let at = 0; at <= max; at += step)
        splits.push(at);
      return splits;
    },
    values: (u, splits) => {
      const top = splits[splits.length - 1];
      const {size, unit} = unitOf(top, false);
      const step = splits.length > 1 ? splits[1] : size;
      const digits = step / size >= 1 ? 0 : Math.min(3, Math.ceil(-Math.log10(step / size) - 1e-9));
      return splits.map((at) => (at === 0 ? '0' : `${(at / size).toFixed(digits)} ${unit}`));
    },
  };
}

export class MemoryChart {
  // `onChoose` is called after a click.
  constructor(run, view, tooltip) {
    this.run = run;
    this.view = view;
    this.tooltip = tooltip;
    this.box = make(
        'div.chart',
        {tabindex: '0', role: 'img', 'aria-label': 'Device memory over time, stacked'});
    this.legend = make('ul.legend');
    this.band = null;  // the group under the pointer
    this.toCapacity = run.context + run.live[run.peak] > 0.35 * run.capacity;
    this.redraw = onNextFrame(() => this.#refresh());
    view.listen((what) => {
      if (what === 'grouping')
        this.build();
      else if (what === 'range')
        this.redraw();
      else if (this.plot)
        this.plot.redraw(false);
      if (what === 'instant') this.#describeGroups();
    });
    new ResizeObserver(() => {
      if (this.plot && this.box.clientWidth !== this.plot.width) this.build();
    }).observe(this.box);
  }

  get height() { return window.innerWidth < 640 ? 260 : 340; }

  // Everything anew: after a change of grouping, size or colours.
  build() {
    if (this.box.clientWidth === 0) return;
    const {run, view} = this;
    const grouping = run.grouping(view.grouping);
    this.plot?.destroy();
    const stepped = uPlot.paths.stepped({align: 1});
    const area = (fill) =>
        ({paths: stepped, points: {show: false}, width: 0, stroke: 'transparent', fill});
    const line = (stroke) => ({paths: stepped, points: {show: false}, width: 1.25, stroke});
    const probe = document.createElement('canvas').getContext('2d');
    const {hatches} = run.summary;
    const series = [{}, area(fillOf(probe, this.contextInk, hatches))];
    const bands = [];
    grouping.inks.forEach((ink, g) => {
      series.push(area(undefined));
      bands.push({series: [g + 2, g + 1], fill: fillOf(probe, ink, hatches)});
    });
    series.push(line(colourOf('allocated')), line(colourOf('reserved')));
    const options = {
      width: this.box.clientWidth,
      height: this.height,
      series,
      bands,
      padding: [36, kMargin, 0, 0],
      legend: {show: false},
      scales:
          {x: {time: false, range: () => [view.begin, view.end]}, y: {range: () => [0, this.top]}},
      axes: [timeAxis(() => view.origin), memoryAxis()],
      cursor: {
        drag: {x: true, y: false, setScale: false, dist: 6},
        points: {show: false},
        y: true,
        focus: {prox: -1}
      },
      hooks: {
        drawClear: [(u) => this.#shade(u)],
        draw: [(u) => this.#annotate(u)],
        setCursor: [(u) => this.#hover(u)],
        setSelect: [(u) => {
          if (u.select.width < 6) return;
          const [from, to] = [u.select.left, u.select.left + u.select.width];
          const range = [u.posToVal(from, 'x'), u.posToVal(to, 'x')];
          u.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
          view.setRange(...range);
        }],
      },
    };
    const data = this.#data(grouping);
    this.plot = new uPlot(options, data, this.box);
    const {over} = this.plot;
    attachGestures(over, view, (x) => this.plot.posToVal(x, 'x'));
    over.addEventListener('dblclick', () => view.reset());
    over.addEventListener('mouseleave', () => {
      this.tooltip.hide();
      this.band = null;
      view.hover(null);
    });
    let down = 0;
    over.addEventListener('mousedown', (event) => {
      down = event.clientX;
    });
    over.addEventListener('click', (event) => {
      if (Math.abs(event.clientX - down) > 5) return;
      const rect = over.getBoundingClientRect();
      this.plot.setCursor({left: event.clientX - rect.left, top: event.clientY - rect.top});
      const k = this.#sampleAt(event.clientX - rect.left);
      if (this.shown.point[k] >= 0) view.choose(this.shown.point[k]);
    });
    this.#describeGroups();
  }

  #data(grouping) {
    const {run, view} = this;
    const columns = Math.max(
        100,
        Math.round((this.box.clientWidth - gutter() - kMargin) * Math.min(devicePixelRatio, 2)));
    this.shown = thinStack(run, grouping, view.begin, view.end, columns);
    const {x, tops, allocated, reserved} = this.shown;
    const largest = (line) => line.reduce((a, b) => Math.max(a, b), 0);
    let most = Math.max(largest(tops[tops.length - 1]), largest(allocated));
    // What an allocator takes at once, as BFC does, would leave nothing to see of what is live.
    this.reserved = largest(reserved);
    if (this.toCapacity || this.reserved < kRoom * most) most = Math.max(most, this.reserved);
    if (this.toCapacity) most = Math.max(most, run.capacity);
    this.top = Math.max(most * 1.04, 1);
    return [x, x.map(() => run.context), ...tops, allocated, reserved];
  }

  #refresh() {
    if (!this.plot) return;
    const data = this.#data(this.run.grouping(this.view.grouping));
    this.plot.setData(data, true);
  }

  // The sample that holds at a pixel: the last one before it, or a larger one close by, so that a
  // peak narrower than a pixel can be pointed at.
  #sampleAt(left) {
    const {x, tops} = this.shown;
    const total = tops[tops.length - 1];
    const time = this.plot.posToVal(left, 'x');
    const reach = this.plot.posToVal(left + 3, 'x') - time;
    let low = 0;
    let high = x.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (x[middle] <= time)
        low = middle + 1;
      else
        high = middle;
    }
    let found = Math.max(low - 1, 0);
    for (let k = found; k > 0 && x[k] >= time - reach; --k)
      if (total[k] > total[found]) found = k;
    for (let k = low; k < x.length && x[k] <= time + reach; ++k)
      if (total[k] > total[found]) found = k;
    return found;
  }

  // Sample `by` columns beside the chosen instant.
  step(by) {
    const {point} = this.shown;
    const at = this.view.instant;
    let k = 0;
    while (k < point.length && point[k] < at)
      ++k;
    if (by < 0) {
      while (k > 0 && point[Math.min(k, point.length - 1)] >= at)
        --k;
    } else {
      while (k < point.length - 1 && point[k] <= at)
        ++k;
    }
    this.view.choose(point[k], true);
  }

  // What each group holds at the chosen instant.
  #describeGroups() {
    const {run, view} = this;
    const grouping = run.grouping(view.grouping);
    const sums = run.count > 0 ? grouping.before(view.instant + 1) : [];
    const {hatches} = run.summary;
    // A group's own maximum may be at another instant than the peak of all.
    const most = (g) => make(
        'button.link.most', {
          type: 'button',
          title: `the most that it holds in this step, at ${
              run.when(run.time[grouping.mostAt[g]])}: go there`,
          onclick: () => view.choose(grouping.mostAt[g], true)
        },
        `most ${formatBytes(grouping.most[g])}`);
    const held = grouping.labels.map((_, g) => g).filter((g) => sums[g] > 0 || grouping.most[g] > 0);
    const entries = held.map(
        (g) => make(
            'li', inkSwatch(grouping.inks[g], hatches), make('span', grouping.labels[g]),
            make('b', sums[g] > 0 ? formatBytes(sums[g]) : '–'), most(g)));
    if (run.context > 0) {
      entries.unshift(
          make('li', inkSwatch(this.contextInk, hatches), make('span', 'CUDA context'),
               make('b', formatBytes(run.context))));
    }
    const when =
        view.instant === run.peak ? 'At the peak:' : `At ${run.when(run.time[view.instant])}:`;
    this.legend.replaceChildren(make('li', when), ...entries.reverse());
  }

  get contextInk() {
    const {context_colour: colour, context_hatch: hatch} = this.run.summary;
    return {colour, hatch};
  }

  // Phases, behind everything else.
  #shade(u) {
    const {ctx, bbox} = u;
    ctx.save();
    const place = (time) => u.valToPos(time, 'x', true);
    shadePhases(
        ctx, this.run, this.view, place, bbox.top - 18 * devicePixelRatio,
        bbox.top + bbox.height);
    ctx.restore();
  }

  // The outline of the band under the pointer.
  #outlineBand(u) {
    const {tops, x} = this.shown;
    const {ctx} = u;
    const upper = tops[this.band];
    const lower = this.band > 0 ? tops[this.band - 1] : x.map(() => this.run.context);
    const px = x.map((time) => u.valToPos(time, 'x', true));
    ctx.beginPath();
    for (const edge of [upper, lower]) {
      let level = u.valToPos(edge[0], 'y', true);
      ctx.moveTo(px[0], level);
      for (let k = 1; k < px.length; ++k) {
        ctx.lineTo(px[k], level);
        level = u.valToPos(edge[k], 'y', true);
        ctx.lineTo(px[k], level);
      }
    }
    ctx.setLineDash([]);
    ctx.strokeStyle = colourOf('ink');
    ctx.lineWidth = 1.25 * devicePixelRatio;
    ctx.stroke();
  }

  // From when to when the marked allocation lives.
  #showLifetime(u, note) {
    const {run, view} = this;
    const {ctx, bbox} = u;
    const [allocated, freed] = run.lifetimeOf(view.lifetime);
    const from = Math.max(u.valToPos(Math.max(allocated, view.begin), 'x', true), bbox.left);
    const to = Math.min(u.valToPos(Math.min(freed, view.end), 'x', true), bbox.left + bbox.width);
    if (freed < view.begin || allocated > view.end) return;
    ctx.fillStyle = colourOf('accent');
    ctx.globalAlpha = 0.16;
    ctx.fillRect(from, bbox.top, Math.max(to - from, 1), bbox.height);
    ctx.globalAlpha = 1;
    ctx.fillRect(from, bbox.top, Math.max(to - from, 1), 3 * devicePixelRatio);
    const {name} = run.describeBlock(run.blockOf(view.lifetime));
    note(
        `${name}: ${formatTime(freed - allocated)}`, (from + to) / 2, bbox.top + 12 * devicePixelRatio,
        colourOf('accent'), 'center');
  }

  // Capacity, peak, failure, beginnings of steps, the chosen instant and the pointer.
  #annotate(u) {
    const {run, view} = this;
    const {ctx, bbox} = u;
    const ratio = devicePixelRatio;
    const [left, right] = [bbox.left, bbox.left + bbox.width];
    const [top, bottom] = [bbox.top, bbox.top + bbox.height];
    ctx.save();
    ctx.font = `${600} ${11 * ratio}px system-ui, sans-serif`;
    const vertical = (time, colour, dash, width = 1) => {
      if (time < view.begin || time > view.end) return null;
      const x = Math.round(u.valToPos(time, 'x', true)) + 0.5;
      ctx.strokeStyle = colour;
      ctx.lineWidth = width * ratio;
      ctx.setLineDash(dash.map((d) => d * ratio));
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, bottom);
      ctx.stroke();
      return x;
    };
    const note = (text, x, y, colour, align) => {
      ctx.textAlign = align;
      ctx.textBaseline = 'middle';
      const width = ctx.measureText(text).width + 8 * ratio;
      const from = align === 'right' ? x - width : align === 'center' ? x - width / 2 : x;
      const shifted = Math.min(Math.max(from, left), right - width);
      ctx.fillStyle = colourOf('note');
      ctx.fillRect(shifted, y - 8 * ratio, width, 16 * ratio);
      ctx.fillStyle = colour;
      ctx.textAlign = 'left';
      ctx.fillText(text, shifted + 4 * ratio, y + 0.5 * ratio);
    };
    for (const begin of run.stepBegin.slice(1)) {
      if (begin !== undefined) vertical(begin, colourOf('faint'), [2, 4]);
    }
    const y = Math.round(u.valToPos(run.capacity, 'y', true)) + 0.5;
    const capacity = `capacity ${formatBytes(run.capacity)}`;
    ctx.setLineDash([]);
    if (y >= top - 1) {
      ctx.strokeStyle = colourOf('bad');
      ctx.lineWidth = 1.5 * ratio;
      ctx.beginPath();
      ctx.moveTo(left, y);
      ctx.lineTo(right, y);
      ctx.stroke();
      const above = y - 18 * ratio > top;
      note(capacity, right, y + (above ? -10 : 11) * ratio, colourOf('bad'), 'right');
    } else {
      note(`${capacity} ↑`, right, top - 27 * ratio, colourOf('muted'), 'right');
    }
    if (this.reserved > this.top) {
      note(
          `reserved ${formatBytes(this.reserved)} ↑`, left, top - 27 * ratio, colourOf('muted'),
          'left');
    }
    this.phaseNames = namePhases(
        ctx, run, view, (time) => u.valToPos(time, 'x', true), top - 9 * ratio, ratio);
    ctx.font = `${600} ${11 * ratio}px system-ui, sans-serif`;
    titleTime(u, view.timeTitle);
    if (this.band !== null && this.shown) this.#outlineBand(u);
    if (view.lifetime !== null) this.#showLifetime(u, note);
    const chosen = run.time[view.instant];
    vertical(chosen, colourOf('accent'), [], 1.5);
    const failed = run.failedAt();
    if (failed >= 0) {
      const at = vertical(run.time[failed], colourOf('bad'), [4, 3], 1.5);
      if (at !== null) note('out of memory', at, bottom - 12 * ratio, colourOf('bad'), 'center');
    }
    if (view.hovered !== null) vertical(view.hovered, colourOf('faint'), []);
    const peakTime = run.time[run.peak];
    if (run.count > 0 && peakTime >= view.begin && peakTime <= view.end) {
      const total = run.context + run.live[run.peak];
      const [px, py] = [u.valToPos(peakTime, 'x', true), u.valToPos(total, 'y', true)];
      ctx.setLineDash([]);
      ctx.beginPath();
      ctx.arc(px, py, 4.5 * ratio, 0, 2 * Math.PI);
      ctx.fillStyle = colourOf('ink');
      ctx.fill();
      ctx.strokeStyle = colourOf('surface');
      ctx.lineWidth = 1.5 * ratio;
      ctx.stroke();
      // Below the dot where the capacity's own note is close above.
      const crowded =
          py - 26 * ratio < top || Math.abs(py - 16 * ratio - (y - 10 * ratio)) < 18 * ratio;
      note(
          `peak live ${formatBytes(run.live[run.peak])}`, px, py + (crowded ? 16 : -16) * ratio,
          colourOf('ink'), 'center');
    }
    ctx.restore();
  }

  // The group whose band has a value, or null and the name of what lies there instead.
  #bandAt(grouping, idx, value) {
    const {run, shown} = this;
    if (value < run.context) return [null, `CUDA context: ${formatBytes(run.context)}`];
    const band = grouping.labels.findIndex((_, g) => value <= shown.tops[g][idx]);
    if (band >= 0) return [band, ''];
    const [live, allocated, reserved] =
        [shown.tops.at(-1)[idx], shown.allocated[idx], shown.reserved[idx]];
    if (value <= allocated) return [null, `allocated beyond it: ${formatBytes(allocated - live)}`];
    if (value <= reserved)
      return [null, `reserved, not in use: ${formatBytes(reserved - Math.max(allocated, live))}`];
    if (value > run.capacity) return [null, 'beyond the device'];
    return [null, `free on the device: ${formatBytes(Math.max(run.capacity - reserved, 0))}`];
  }

  #hover(u) {
    const {left, top} = u.cursor;
    const idx = left < 0 ? -1 : this.#sampleAt(left);
    if (idx < 0 || this.shown.point[idx] < 0) {
      this.tooltip.hide();
      return;
    }
    const {run, view, shown} = this;
    const i = shown.point[idx];
    const time = Math.max(u.posToVal(left, 'x'), shown.x[idx]);
    view.hover(time);
    const grouping = run.grouping(view.grouping);
    const value = u.posToVal(top, 'y');
    const [band, outside] = this.#bandAt(grouping, idx, value);
    if (band !== this.band) {
      this.band = band;
      this.plot.redraw(false);
    }
    const live = run.liveAt(i);
    const inBand = band === null ? live : live.filter((a) => grouping.of[run.blockOf(a)] === band);
    const sum = inBand.reduce((total, a) => total + run.bytes[run.blockOf(a)], 0);
    const rows = largestOf(run, inBand, kNamed).map((a) => {
      const block = run.describeBlock(run.blockOf(a));
      return make('tr', make('td', block.name), make('td.right', formatBytes(block.bytes)));
    });
    const rect = u.over.getBoundingClientRect();
    const count = `${inBand.length} tensor${inBand.length === 1 ? '' : 's'}`;
    this.tooltip.show(
        rect.left + left, rect.top + top,
        make(
            'div.when',
            `${run.when(time)} · ${formatBytes(run.context + run.live[i])} · ` +
                `${formatShare(run.context + run.live[i], run.capacity)} of the device`),
        make('div.where', placeText(run.describePoint(i))),
        outside ? make('div.band', make('b', outside)) : null,
        make(
            'div.band',
            band === null ? null : inkSwatch(grouping.inks[band], run.summary.hatches),
            make('b', band === null ? 'all tensors' : grouping.labels[band]),
            `: ${formatBytes(sum)} in ${count}`),
        make('table', rows),
        inBand.length > kNamed ?
            make('div.more', `and ${inBand.length - kNamed} more; click for all`) :
            null);
  }
}
