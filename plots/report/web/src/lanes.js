// Streams as lanes: what ran when, coloured by phase; recomputation hatched; waits of the compute
// stream in the colour of what it waited for.
import {placeText} from './chart.js';
import {colourOf, fitCanvas, gutter, kMargin, make, onNextFrame, swatch} from './dom.js';
import {kStreamLabels} from './run.js';
import {formatBytes, formatTime} from './units.js';
import {attachGestures} from './view.js';

const kLaneHeight = 26;
const kGap = 6;
const kCompute = 0;  // streams, as sim/program numbers them
const kCommunication = 3;
const kWait = 3;     // of work.kind: launch, copy out, copy in, wait

const kNotes = {
  transfer: 'waits for copies', communication: 'waits for communication', host: 'waits for the host',
  other: 'waits for other streams',
};
const kShort = {compute: 'compute', d2h: 'to host', h2d: 'to device', communication: 'comm.',
  host: 'host work'};

// Work of each stream in the order in which it ran, and waits as intervals of their own.
export function lanesOf(run) {
  const c = run.columns;
  const start = c['work.start'];
  const streams = run.description.streams.map((name) => ({name, items: []}));
  const waits = [];
  const issues = {name: 'issue', items: []};
  for (let i = 0; i < start.length; ++i) {
    const wait = c['work.host_wait'][i] + c['work.other_wait'][i];
    if (wait > 0) {
      const begin = start[i] - wait;
      const host = c['work.host_wait'][i];
      const cause = c['work.cause'][i];
      if (host > 0) waits.push({begin, end: begin + host, cause: 'host'});
      if (c['work.other_wait'][i] > 0) {
        const name = cause === 1 || cause === 2 ? 'transfer'
            : cause === kCommunication ? 'communication' : 'other';
        waits.push({begin: begin + host, end: start[i], cause: name});
      }
    }
    if (c['work.kind'][i] === kWait) continue;
    streams[c['work.stream'][i]].items.push(i);
    if (c['work.dispatch'][i] > 0) issues.items.push(i);
  }
  return {streams: streams.filter((s, i) => i === kCompute || s.items.length > 0), waits, issues};
}

export class Lanes {
  constructor(run, view, tooltip) {
    this.run = run;
    this.view = view;
    this.tooltip = tooltip;
    const {streams, waits, issues} = lanesOf(run);
    this.waits = waits;
    this.lanes = [...streams, issues];
    this.canvas = make('canvas', {role: 'img', 'aria-label': 'Streams of the device over time'});
    this.box = make('div.lanes', this.canvas);
    this.legend = make('ul.legend');
    this.redraw = onNextFrame(() => this.draw());
    view.listen(this.redraw);
    new ResizeObserver(this.redraw).observe(this.box);
    this.canvas.addEventListener('mousemove', (event) => this.#hover(event));
    this.canvas.addEventListener('mouseleave', () => {
      tooltip.hide();
      view.hover(null);
    });
    this.canvas.addEventListener('click', (event) =>
        view.choose(run.pointAt(this.#timeAt(event.offsetX))));
    this.canvas.addEventListener('dblclick', () => view.reset());
    attachGestures(this.canvas, view, (x) => this.#timeAt(x));
    this.#describe();
  }

  #colour(i) {
    const c = this.run.columns;
    if (c['work.kind'][i] !== 0) return colourOf('copy');
    if (c['work.stream'][i] === kCommunication) return colourOf('communication');
    return colourOf(this.run.description.phases[c['position.phase'][c['work.position'][i]]]);
  }
  #recomputes(i) {
    const c = this.run.columns;
    return c['work.kind'][i] === 0 && c['position.recompute'][c['work.position'][i]] === 1;
  }
  // Time at the beginning of a launch in which evicted values that it reads are computed again.
  #restored(i) {
    return this.run.columns['work.restored'][i] ?? 0;
  }
  #span(lane, i) {
    const c = this.run.columns;
    if (lane.name === 'issue') return [c['work.enqueued'][i] - c['work.dispatch'][i], c['work.enqueued'][i]];
    return [c['work.start'][i], c['work.start'][i] + c['work.duration'][i]];
  }
  #timeAt(x) {
    const width = this.box.clientWidth - gutter() - kMargin;
    return this.view.begin + (x - gutter()) / width * (this.view.end - this.view.begin);
  }

  #describe() {
    const used = new Set(this.waits.map((wait) => wait.cause));
    const entries = this.run.description.phases.map((phase) => [colourOf(phase), phase]);
    const c = this.run.columns;
    const any = (test) => c['work.kind'].some((_, i) => test(i));
    const items = entries.map(([colour, label]) => make('li', swatch(colour), label));
    if (any((i) => this.#recomputes(i) || this.#restored(i) > 0)) {
      const hatched = swatch(colourOf('forward'));
      hatched.classList.add('hatched');
      items.push(make('li', hatched, 'computed again'));
    }
    if (any((i) => c['work.kind'][i] === 1 || c['work.kind'][i] === 2)) {
      items.push(make('li', swatch(colourOf('copy')), 'copies'));
    }
    if (any((i) => c['work.stream'][i] === kCommunication)) {
      items.push(make('li', swatch(colourOf('communication')), 'communication'));
    }
    for (const [cause, note] of Object.entries(kNotes)) {
      if (used.has(cause)) items.push(make('li', swatch(colourOf(`wait-${cause}`)), note));
    }
    this.legend.replaceChildren(...items);
  }

  draw() {
    const width = this.box.clientWidth;
    if (width === 0) return;
    const height = this.lanes.length * (kLaneHeight + kGap) + kGap;
    const context = fitCanvas(this.canvas, width, height);
    const left = gutter();
    const inner = width - left - kMargin;
    const {begin, end} = this.view;
    const x = (time) => left + (time - begin) / (end - begin) * inner;
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'middle';
    this.lanes.forEach((lane, row) => {
      const top = kGap + row * (kLaneHeight + kGap);
      context.fillStyle = colourOf('muted');
      context.textAlign = 'right';
      context.fillText(lane.name === 'issue' ? 'host issue' : kShort[lane.name], left - 8,
                       top + kLaneHeight / 2);
      context.fillStyle = colourOf('lane');
      context.fillRect(left, top, inner, kLaneHeight);
      context.save();
      context.beginPath();
      context.rect(left, top, inner, kLaneHeight);
      context.clip();
      if (lane.name === 'compute') this.#drawWaits(context, x, top);
      this.#drawWork(context, lane, x, top);
      context.restore();
    });
    const mark = (time, colour, thickness) => {
      if (time === null || time < begin || time > end) return;
      context.fillStyle = colour;
      context.fillRect(x(time) - thickness / 2, 0, thickness, height);
    };
    mark(this.view.hovered, colourOf('faint'), 1);
    if (this.run.count > 0) mark(this.run.time[this.view.instant], colourOf('accent'), 1.5);
  }

  #drawWaits(context, x, top) {
    const {begin, end} = this.view;
    let painted = -1;
    for (const wait of this.waits) {
      if (wait.end < begin || wait.begin > end) continue;
      const from = Math.max(x(wait.begin), painted);
      const to = x(wait.end);
      if (to - from < 0.3) continue;  // under half a pixel it would hide what runs beside it
      context.fillStyle = colourOf(`wait-${wait.cause}`);
      context.fillRect(from, top + kLaneHeight * 0.62, to - from, kLaneHeight * 0.38);
      painted = to;
    }
  }

  // Work narrower than a pixel is gathered: each column of pixels gets the colour that fills most
  // of it.
  #drawWork(context, lane, x, top) {
    const {begin, end} = this.view;
    const colours = new Map();
    const colour = (i) => {
      const c = this.run.columns;
      const key = c['work.kind'][i] * 100 + c['work.stream'][i] * 10 +
          c['position.phase'][c['work.position'][i]];
      if (!colours.has(key)) colours.set(key, this.#colour(i));
      return colours.get(key);
    };
    const hatch = this.#hatch(context);
    let column = -1;
    let parts = new Map();  // "colour hatched" -> pixels
    const flush = () => {
      let most = 0;
      let filled = 0;
      let chosen = null;
      for (const [i, pixels] of parts.values()) {
        filled += pixels;
        if (pixels > most) [most, chosen] = [pixels, i];
      }
      if (chosen !== null) {
        context.globalAlpha = Math.min(1, 0.25 + 0.75 * filled);
        context.fillStyle = colour(chosen);
        context.fillRect(column, top, 1, kLaneHeight);
        if (this.#recomputes(chosen)) {
          context.fillStyle = hatch;
          context.fillRect(column, top, 1, kLaneHeight);
        }
        context.globalAlpha = 1;
      }
      parts = new Map();
    };
    for (const i of lane.items) {
      const [from, to] = this.#span(lane, i);
      if (to < begin) continue;
      if (from > end) break;
      const [left, right] = [x(from), x(to)];
      const at = Math.floor(left);
      if (at !== column) {
        flush();
        column = at;
      }
      if (right - left < 1.5) {
        const key = `${colour(i)}${this.#recomputes(i)}`;
        const part = parts.get(key) ?? [i, 0];
        part[1] += Math.max(right - left, 0.02);
        parts.set(key, part);
        continue;
      }
      context.fillStyle = colour(i);
      context.fillRect(left, top, right - left - (right - left > 4 ? 0.5 : 0), kLaneHeight);
      const again = this.#recomputes(i) ? right : lane.name === 'compute' ? x(from + this.#restored(i)) : left;
      if (again > left) {
        context.fillStyle = hatch;
        context.fillRect(left, top, again - left, kLaneHeight);
      }
      if (right - left > 56) this.#name(context, i, left, right, top);
    }
    flush();
  }

  #name(context, i, left, right, top) {
    const c = this.run.columns;
    const block = c['work.block'][i];
    const text = block > 0 ? this.run.describeBlock(block - 1).name
        : this.run.describePosition(c['work.position'][i]).operator;
    const from = Math.max(left, gutter());
    const room = right - from - 8;
    if (room < 30) return;
    context.save();
    context.beginPath();
    context.rect(from, top, room + 4, kLaneHeight);
    context.clip();
    context.fillStyle = '#fff';
    context.textAlign = 'left';
    context.fillText(text, from + 5, top + kLaneHeight / 2);
    context.restore();
  }

  #hatch(context) {
    if (!this.pattern) {
      const tile = document.createElement('canvas');
      tile.width = tile.height = 6;
      const t = tile.getContext('2d');
      t.strokeStyle = 'rgba(255,255,255,0.7)';
      t.lineWidth = 1.5;
      t.beginPath();
      for (const shift of [-6, 0, 6]) {
        t.moveTo(shift, 6);
        t.lineTo(shift + 6, 0);
      }
      t.stroke();
      this.pattern = context.createPattern(tile, 'repeat');
    }
    return this.pattern;
  }

  #hover(event) {
    const time = this.#timeAt(event.offsetX);
    if (event.offsetX < gutter()) {
      this.tooltip.hide();
      return;
    }
    this.view.hover(time);
    const row = Math.floor((event.offsetY - kGap / 2) / (kLaneHeight + kGap));
    const lane = this.lanes[Math.min(Math.max(row, 0), this.lanes.length - 1)];
    const [low, high] = this.#around(lane, time);
    const pixel = (this.view.end - this.view.begin) / this.box.clientWidth;
    let found = -1;
    for (let k = low; k < high; ++k) {
      const [from, to] = this.#span(lane, lane.items[k]);
      if (time >= from - pixel && time <= to + pixel) found = lane.items[k];
      if (time >= from && time <= to) break;
    }
    const wait = lane.name === 'compute' &&
        this.waits.find((w) => time >= w.begin && time <= w.end && w.end - w.begin > pixel);
    if (wait) {
      this.tooltip.show(event.clientX, event.clientY, make('div.when', `compute ${kNotes[wait.cause]}`),
                        make('div.where', `${formatTime(wait.end - wait.begin)} from ${formatTime(wait.begin)}`));
      return;
    }
    if (found < 0) {
      this.tooltip.show(event.clientX, event.clientY, make('div.when',
        lane.name === 'issue' ? 'the host issues nothing' : `${kStreamLabels[lane.name]}: idle`));
      return;
    }
    const c = this.run.columns;
    const place = this.run.describePosition(c['work.position'][found]);
    const [from, to] = this.#span(lane, found);
    const block = c['work.block'][found];
    const ahead = c['work.start'][found] - c['work.enqueued'][found];
    this.tooltip.show(event.clientX, event.clientY,
      make('div.when', block > 0 ? `copy of ${this.run.describeBlock(block - 1).name}` : place.operator),
      make('div.where', placeText(place)),
      make('div', `${formatTime(to - from)} from ${formatTime(from)}, step ${place.step + 1}`),
      block > 0 ? make('div', formatBytes(this.run.bytes[block - 1])) : null,
      this.#restored(found) > 0
        ? make('div', `${formatTime(this.#restored(found))} of it computing evicted values again`) : null,
      ahead > 0 ? make('div', `issued ${formatTime(ahead)} before it started`) : null);
  }

  // Items of a lane around a time, by bisection; starts never decrease within a lane.
  #around(lane, time) {
    let low = 0;
    let high = lane.items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#span(lane, lane.items[middle])[0] <= time) low = middle + 1; else high = middle;
    }
    return [Math.max(low - 3, 0), Math.min(low + 3, lane.items.length)];
  }
}
