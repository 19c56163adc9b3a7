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
const kWait = 3;    // of work.kind: launch, copy out, copy in, wait
const kCopies = 3;  // styles of work beside the phases
const kCollectives = 4;
const kAgain = 8;

const kNotes = {
  transfer: 'waits for copies',
  communication: 'waits for communication',
  host: 'waits for the host',
  other: 'waits for other streams',
};
const kShort = {
  compute: 'compute',
  d2h: 'to host',
  h2d: 'to device',
  communication: 'comm.',
  host: 'host work'
};

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
        const name = cause === 1 || cause === 2 ? 'transfer' :
            cause === kCommunication            ? 'communication' :
                                                  'other';
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
    this.styles = this.#styles();
    this.waits = waits;
    this.lanes = [...streams, issues];
    this.canvas = make('canvas', {role: 'img', 'aria-label': 'Streams of the device over time'});
    this.box = make('div.lanes', this.canvas);
    this.legend = make('ul.legend');
    this.redraw = onNextFrame(() => this.draw());
    view.listen((what) => {
      if (what === 'range') this.painted = null;
      if (what !== 'grouping') this.redraw();
    });
    new ResizeObserver(this.redraw).observe(this.box);
    this.canvas.addEventListener('mousemove', (event) => this.#hover(event));
    this.canvas.addEventListener('mouseleave', () => {
      tooltip.hide();
      view.hover(null);
    });
    this.canvas.addEventListener(
        'click', (event) => view.choose(run.pointAt(this.#timeAt(event.offsetX))));
    this.canvas.addEventListener('dblclick', () => view.reset());
    attachGestures(this.canvas, view, (x) => this.#timeAt(x));
    this.#describe();
  }

  // How each piece of work looks: a phase, kCopies or kCollectives; kAgain is added to what is
  // computed again.
  #styles() {
    const c = this.run.columns;
    const [kind, stream, position] = [c['work.kind'], c['work.stream'], c['work.position']];
    const [phase, again] = [c['position.phase'], c['position.recompute']];
    const styles = new Uint8Array(kind.length);
    for (let i = 0; i < kind.length; ++i) {
      if (kind[i] !== 0)
        styles[i] = kCopies;
      else if (stream[i] === kCommunication)
        styles[i] = kCollectives;
      else
        styles[i] = phase[position[i]];
      if (kind[i] === 0 && again[position[i]] === 1) styles[i] += kAgain;
    }
    return styles;
  }
  // Time at the beginning of a launch in which evicted values that it reads are computed again.
  #restored(i) {
    return this.run.columns['work.restored'][i] ?? 0;
  }
  #span(lane, i) {
    const c = this.run.columns;
    if (lane.name === 'issue')
      return [c['work.enqueued'][i] - c['work.dispatch'][i], c['work.enqueued'][i]];
    return [c['work.start'][i], c['work.start'][i] + c['work.duration'][i]];
  }
  #timeAt(x) {
    const width = this.box.clientWidth - gutter() - kMargin;
    return this.view.begin + (x - gutter()) / width * (this.view.end - this.view.begin);
  }

  #describe() {
    const used = new Set(this.waits.map((wait) => wait.cause));
    const entries = this.run.description.phases.map((phase) => [colourOf(phase), phase]);
    const seen = new Set(this.styles);
    const restores = this.run.columns['work.restored'].some((time) => time > 0);
    const items = entries.map(([colour, label]) => make('li', swatch(colour), label));
    if (restores || [...seen].some((style) => style >= kAgain)) {
      const hatched = swatch(colourOf('forward'));
      hatched.classList.add('hatched');
      items.push(make('li', hatched, 'computed again'));
    }
    if (seen.has(kCopies) && this.lanes.some(({name}) => name === 'd2h' || name === 'h2d')) {
      items.push(make('li', swatch(colourOf('copy')), 'copies'));
    }
    if (seen.has(kCollectives)) {
      items.push(make('li', swatch(colourOf('communication')), 'communication'));
    }
    for (const [cause, note] of Object.entries(kNotes)) {
      if (used.has(cause)) items.push(make('li', swatch(colourOf(`wait-${cause}`)), note));
    }
    this.legend.replaceChildren(...items);
  }

  // The lanes stay while only the marks move.
  draw() {
    const width = this.box.clientWidth;
    if (width === 0) return;
    const height = this.lanes.length * (kLaneHeight + kGap) + kGap;
    if (!this.painted || this.painted.width !== width) {
      const lanes = document.createElement('canvas');
      this.#drawLanes(fitCanvas(lanes, width, height), width);
      this.painted = {lanes, width};
    }
    const context = fitCanvas(this.canvas, width, height);
    context.drawImage(this.painted.lanes, 0, 0, width, height);
    const left = gutter();
    const inner = width - left - kMargin;
    const {begin, end} = this.view;
    const mark = (time, colour, thickness) => {
      if (time === null || time < begin || time > end) return;
      context.fillStyle = colour;
      context.fillRect(
          left + (time - begin) / (end - begin) * inner - thickness / 2, 0, thickness, height);
    };
    mark(this.view.hovered, colourOf('faint'), 1);
    if (this.run.count > 0) mark(this.run.time[this.view.instant], colourOf('accent'), 1.5);
  }

  #drawLanes(context, width) {
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
      context.fillText(
          lane.name === 'issue' ? 'host issue' : kShort[lane.name], left - 8,
          top + kLaneHeight / 2);
      context.fillStyle = colourOf('lane');
      context.fillRect(left, top, inner, kLaneHeight);
      context.save();
      context.beginPath();
      context.rect(left, top, inner, kLaneHeight);
      context.clip();
      if (lane.name === 'compute') this.#drawWaits(context, x, top, width);
      this.#drawWork(context, lane, x, top);
      context.restore();
    });
  }

  // Waits narrower than a pixel are gathered in their columns: the fuller, the stronger.
  #drawWaits(context, x, top, width) {
    const {begin, end} = this.view;
    const gathered = new Map();  // cause -> pixels of each column
    const from = top + kLaneHeight * 0.62;
    for (const wait of this.waits) {
      if (wait.end < begin || wait.begin > end) continue;
      const [left, right] = [x(wait.begin), x(wait.end)];
      if (right - left >= 1) {
        context.fillStyle = colourOf(`wait-${wait.cause}`);
        context.fillRect(left, from, right - left, kLaneHeight * 0.38);
        continue;
      }
      if (!gathered.has(wait.cause)) gathered.set(wait.cause, new Float64Array(width + 1));
      const column = Math.min(Math.max(Math.floor(left), 0), width);
      gathered.get(wait.cause)[column] += right - left;
    }
    for (const [cause, columns] of gathered) {
      context.fillStyle = colourOf(`wait-${cause}`);
      columns.forEach((pixels, column) => {
        if (pixels < 0.1) return;
        context.globalAlpha = Math.min(pixels, 1);
        context.fillRect(column, from, 1, kLaneHeight * 0.38);
      });
    }
    context.globalAlpha = 1;
  }

  // Work narrower than a pixel is gathered: each column of pixels gets the colour that fills most
  // of it, over as much of its height as all of it fills, so that what lies between can be seen.
  #drawWork(context, lane, x, top) {
    const {begin, end} = this.view;
    const {styles} = this;
    const colours = this.run.description.phases.map((phase) => colourOf(phase));
    colours[kCopies] = colourOf('copy');
    colours[kCollectives] = colourOf('communication');
    const hatch = this.#hatch(context);
    const pixels = new Float64Array(2 * kAgain);  // of the column, by style
    let column = -1;
    const flush = () => {
      let style = 0;
      let filled = 0;
      for (let s = 0; s < pixels.length; ++s) {
        filled += pixels[s];
        if (pixels[s] > pixels[style]) style = s;
      }
      if (filled > 0) {
        const height = kLaneHeight * Math.min(1, Math.max(filled, 0.15));
        context.fillStyle = colours[style % kAgain];
        context.fillRect(column, top, 1, height);
        if (style >= kAgain) {
          context.fillStyle = hatch;
          context.fillRect(column, top, 1, height);
        }
        pixels.fill(0);
      }
    };
    const {items} = lane;
    for (let k = Math.max(this.#around(lane, begin)[0], 0); k < items.length; ++k) {
      const i = items[k];
      const [from, to] = this.#span(lane, i);
      if (to < begin) continue;
      if (from > end) break;
      const left = x(from);
      const right = x(to);
      const at = Math.floor(left);
      if (at !== column) {
        flush();
        column = at;
      }
      if (right - left < 1.5) {
        pixels[styles[i]] += Math.max(right - left, 0.02);
        continue;
      }
      context.fillStyle = colours[styles[i] % kAgain];
      context.fillRect(left, top, right - left - (right - left > 4 ? 0.5 : 0), kLaneHeight);
      let again = left;
      if (styles[i] >= kAgain)
        again = right;
      else if (lane.name === 'compute')
        again = x(from + this.#restored(i));
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
    const text = block > 0 ? this.run.describeBlock(block - 1).name :
                             this.run.describePosition(c['work.position'][i]).operator;
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
      this.tooltip.show(
          event.clientX, event.clientY, make('div.when', `compute ${kNotes[wait.cause]}`),
          make('div.where', `${formatTime(wait.end - wait.begin)} from ${formatTime(wait.begin)}`));
      return;
    }
    if (found < 0) {
      this.tooltip.show(
          event.clientX, event.clientY,
          make(
              'div.when',
              lane.name === 'issue' ? 'the host issues nothing' :
                                      `${kStreamLabels[lane.name]}: idle`));
      return;
    }
    const c = this.run.columns;
    const place = this.run.describePosition(c['work.position'][found]);
    const [from, to] = this.#span(lane, found);
    const block = c['work.block'][found];
    const ahead = c['work.start'][found] - c['work.enqueued'][found];
    this.tooltip.show(
        event.clientX, event.clientY,
        make(
            'div.when',
            block > 0 ? `copy of ${this.run.describeBlock(block - 1).name}` : place.operator),
        make('div.where', placeText(place)),
        make('div', `${formatTime(to - from)} from ${formatTime(from)}, step ${place.step + 1}`),
        block > 0 ? make('div', formatBytes(this.run.bytes[block - 1])) : null,
        this.#restored(found) > 0 ?
            make(
                'div',
                `${formatTime(this.#restored(found))} of it computing evicted values again`) :
            null,
        ahead > 0 ? make('div', `issued ${formatTime(ahead)} before it started`) : null);
  }

  // Items of a lane around a time, by bisection; starts never decrease within a lane.
  #around(lane, time) {
    let low = 0;
    let high = lane.items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#span(lane, lane.items[middle])[0] <= time)
        low = middle + 1;
      else
        high = middle;
    }
    return [Math.max(low - 3, 0), Math.min(low + 3, lane.items.length)];
  }
}
