// Streams as lanes: what ran when, coloured by phase; recomputation hatched; waits of the compute
// stream in the colour of what it waited for.
import {placeText} from './chart.js';
import {colourOf, gutter, kMargin, make, swatch} from './dom.js';
import {kStreamLabels} from './run.js';
import {TimeCanvas} from './timecanvas.js';
import {formatBytes, formatTime} from './units.js';

const kLaneHeight = 26;
const kGap = 6;
const kWaitShare = 0.38;  // of a lane's height, from below
const kCompute = 0;       // streams, as sim/program numbers them
const kHostWorker = 4;
const kCopies = 3;  // styles of work beside the phases
const kCollectives = 4;
const kAgain = 8;
const kNarrow = 3;  // pixels of what is gathered with its neighbours

const kNotes = {
  transfer: 'waits for copies',
  communication: 'waits for communication',
  optimizer: 'waits for the host\'s optimizer',
  host: 'waits for the host to issue',
  other: 'waits for other streams',
};
const kShort = {
  compute: 'compute',
  d2h: 'to host',
  h2d: 'to device',
  communication: 'comm.',
  host: 'host work',
  nvme_read: 'from NVMe',
  nvme_write: 'to NVMe',
  issue: 'host issue'
};

// What a stretch of waiting was for: a stream's number, or one beyond all for the host.
function causeOf(stream, streams) {
  if (stream >= streams.length) return 'host';
  if (streams[stream].startsWith('communication')) return 'communication';
  if (stream === kHostWorker) return 'optimizer';
  return stream === kCompute ? 'other' : 'transfer';
}

// Work of each stream in the order in which it ran.
function lanesOf(run) {
  const c = run.columns;
  const streams = run.description.streams.map((name) => ({name, items: []}));
  const issues = {name: 'issue', items: []};
  for (let i = 0; i < c['work.start'].length; ++i) {
    streams[c['work.stream'][i]].items.push(i);
    if (c['work.dispatch'][i] > 0) issues.items.push(i);
  }
  return [...streams.filter((s, i) => i === kCompute || s.items.length > 0), issues];
}

export class Lanes {
  constructor(run, view, tooltip) {
    this.run = run;
    this.view = view;
    this.tooltip = tooltip;
    this.styles = this.#styles();
    this.lanes = lanesOf(run);
    this.causes = [...run.description.streams, 'issue'].map(  // by number of work.cause
        (_, stream) => causeOf(stream, run.description.streams));
    this.box = make('div.lanes');
    this.legend = make('ul.legend');
    this.frame = new TimeCanvas({
      run,
      view,
      tooltip,
      box: this.box,
      label: 'Streams of the device over time',
      height: this.lanes.length * (kLaneHeight + kGap) + kGap,
      draw: (context, width, x) => this.#drawLanes(context, width, x),
      hover: (event, time) => this.#hover(event, time)
    });
    view.listen((what) => {
      if (what === 'range')
        this.frame.repaint();
      else if (what !== 'grouping')
        this.frame.redraw();
    });
    this.#describe();
  }

  draw() { this.frame.draw(); }

  // How each piece of work looks: a phase, kCopies or kCollectives; kAgain is added to what is
  // recomputed.
  #styles() {
    const c = this.run.columns;
    const [kind, stream, position] = [c['work.kind'], c['work.stream'], c['work.position']];
    const [phase, again] = [c['position.phase'], c['position.recompute']];
    const styles = new Uint8Array(kind.length);
    for (let i = 0; i < kind.length; ++i) {
      if (kind[i] !== 0)
        styles[i] = kCopies;
      else if (this.run.description.streams[stream[i]].startsWith('communication'))
        styles[i] = kCollectives;
      else
        styles[i] = phase[position[i]];
      if (kind[i] === 0 && again[position[i]] === 1) styles[i] += kAgain;
    }
    return styles;
  }
  // Time at the beginning of a launch in which evicted values that it reads are recomputed.
  #restored(i) { return this.run.columns['work.restored'][i]; }
  #span(lane, i) {
    const c = this.run.columns;
    if (lane.name === 'issue')
      return [c['work.enqueued'][i] - c['work.dispatch'][i], c['work.enqueued'][i]];
    return [c['work.start'][i], c['work.start'][i] + c['work.duration'][i]];
  }

  #describe() {
    const used = new Set();
    for (const stream of this.run.columns['wait.cause'])
      used.add(this.causes[stream]);
    const entries = this.run.description.phases.map((phase) => [colourOf(phase), phase]);
    const seen = new Set();
    for (const style of this.styles)
      seen.add(style);
    const restores = this.run.restores;
    const items = entries.map(([colour, label]) => make('li', swatch(colour), label));
    if (restores || [...seen].some((style) => style >= kAgain)) {
      const hatched = swatch(colourOf('backward'));
      hatched.classList.add('hatched');
      items.push(make('li', hatched, 'recomputed'));
    }
    if (seen.has(kCopies)) items.push(make('li', swatch(colourOf('copy')), 'copies'));
    if (seen.has(kCollectives)) {
      items.push(make('li', swatch(colourOf('communication')), 'communication'));
    }
    for (const [cause, note] of Object.entries(kNotes)) {
      if (!used.has(cause)) continue;
      const low = swatch(colourOf(`wait-${cause}`));
      low.classList.add('low');
      items.push(make('li', low, note));
    }
    this.legend.replaceChildren(...items);
  }

  #drawLanes(context, width, x) {
    const left = gutter();
    const inner = width - left - kMargin;
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'middle';
    this.lanes.forEach((lane, row) => {
      const top = kGap + row * (kLaneHeight + kGap);
      context.fillStyle = colourOf('muted');
      context.textAlign = 'right';
      context.fillText(kShort[lane.name] ?? lane.name, left - 8, top + kLaneHeight / 2);
      context.fillStyle = colourOf('lane');
      context.fillRect(left, top, inner, kLaneHeight);
      context.save();
      context.beginPath();
      context.rect(left, top, inner, kLaneHeight);
      context.clip();
      if (lane.name === 'compute') this.#drawWaits(context, x, top, width);
      this.#drawWork(context, lane, x, top, width);
      context.restore();
    });
  }

  // Nanoseconds that compute waited from some time on, by what it waited for.
  waited(since) {
    const c = this.run.columns;
    const sums = {};
    c['wait.begin'].forEach((begin, w) => {
      if (begin + c['wait.duration'][w] <= since) return;
      const cause = this.causes[c['wait.cause'][w]];
      sums[cause] = (sums[cause] ?? 0) + c['wait.duration'][w];
    });
    return sums;
  }

  // Waits narrower than a pixel are gathered in their columns: the fuller, the stronger.
  #drawWaits(context, x, top, width) {
    const {begin, end} = this.view;
    const gathered = new Map();  // cause -> pixels of each column
    const from = top + kLaneHeight * (1 - kWaitShare);
    const c = this.run.columns;
    const colours = this.causes.map((cause) => colourOf(`wait-${cause}`));
    for (let w = 0; w < c['wait.begin'].length; ++w) {
      const since = c['wait.begin'][w];
      const until = since + c['wait.duration'][w];
      if (until < begin || since > end) continue;
      const cause = c['wait.cause'][w];
      const left = x(since);
      const right = x(until);
      if (right - left >= 1) {
        context.fillStyle = colours[cause];
        context.fillRect(left, from, right - left, kLaneHeight * kWaitShare);
        continue;
      }
      if (!gathered.has(cause)) gathered.set(cause, new Float64Array(width + 1));
      const column = Math.min(Math.max(Math.floor(left), 0), width);
      gathered.get(cause)[column] += right - left;
    }
    for (const [cause, columns] of gathered) {
      context.fillStyle = colours[cause];
      columns.forEach((pixels, column) => {
        if (pixels < 0.1) return;
        context.globalAlpha = Math.min(pixels, 1);
        context.fillRect(column, from, 1, kLaneHeight * kWaitShare);
      });
    }
    context.globalAlpha = 1;
  }

  // Whole columns of pixels get their work's colour. Of the others, and of narrow work, each gets
  // the colour that fills most of it, over as much of its height as all of it fills, so that what
  // lies between can be seen.
  #drawWork(context, lane, x, top, width) {
    const {begin, end} = this.view;
    const {styles} = this;
    const colours = this.run.description.phases.map((phase) => colourOf(phase));
    colours[kCopies] = colourOf('copy');
    colours[kCollectives] = colourOf('communication');
    const hatch = this.#hatch(context);
    const gathered = Array.from({length: 2 * kAgain});  // style -> pixels of each column
    const gather = (style, left, right) => {
      gathered[style] ??= new Float64Array(width + 2);
      const last = Math.min(Math.floor(right), width);
      for (let column = Math.max(Math.floor(left), 0); column <= last; ++column) {
        gathered[style][column] +=
            Math.max(Math.min(right, column + 1) - Math.max(left, column), 0.02);
      }
    };
    // `style` from `left` to `right`; hatched where it has kAgain.
    const block = (style, left, right) => {
      if (right - left < kNarrow) {
        gather(style, left, right);
        return;
      }
      const [from, to] = [Math.ceil(left), Math.floor(right)];
      context.fillStyle = colours[style % kAgain];
      context.fillRect(from, top, to - from, kLaneHeight);
      if (style >= kAgain) {
        context.fillStyle = hatch;
        context.fillRect(from, top, to - from, kLaneHeight);
      }
      if (from > left) gather(style, left, from - 1e-6);
      if (to < right) gather(style, to, right);
    };
    const named = [];
    const {items} = lane;
    for (let k = this.#around(lane, begin)[0]; k < items.length; ++k) {
      const i = items[k];
      const [from, to] = this.#span(lane, i);
      if (to < begin) continue;
      if (from > end) break;
      const [left, right] = [Math.max(x(from), 0), Math.min(x(to), width + 1)];
      const style = styles[i];
      let again = left;  // until here evicted values are recomputed
      if (lane.name === 'compute' && style < kAgain && this.#restored(i) > 0) {
        again = Math.min(Math.max(x(from + this.#restored(i)), left), right);
        block(style + kAgain, left, again);
      }
      block(style, again, right);
      if (right - left > 8) named.push([i, left, right]);
    }
    for (let column = 0; column <= width; ++column) {
      let most = -1;
      let filled = 0;
      for (let style = 0; style < gathered.length; ++style) {
        const pixels = gathered[style]?.[column] ?? 0;
        filled += pixels;
        if (pixels > 0 && (most < 0 || pixels > gathered[most][column])) most = style;
      }
      if (most < 0) continue;
      const height = kLaneHeight * Math.min(1, Math.max(filled, 0.15));
      context.fillStyle = colours[most % kAgain];
      context.fillRect(column, top, 1, height);
      if (most >= kAgain) {
        context.fillStyle = hatch;
        context.fillRect(column, top, 1, height);
      }
    }
    for (const [i, left, right] of named) {
      context.fillStyle = colourOf('lane');  // a line between neighbours
      context.fillRect(Math.floor(right) - 0.5, top, 0.5, kLaneHeight);
      if (right - left > 56) this.#name(context, lane, i, left, right, top);
    }
  }

  #name(context, lane, i, left, right, top) {
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
    const restored = lane.name === 'compute' && this.#restored(i) > 0;
    if (restored || this.styles[i] >= kAgain) {  // hatching would cross the letters
      const wide = context.measureText(text).width + 8;
      context.fillStyle = colourOf(this.run.description.phases[this.styles[i] % kAgain]);
      context.fillRect(from + 1, top + 5, wide, kLaneHeight - 10);
    }
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

  #hover(event, time) {
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
    const show = (...lines) => this.tooltip.show(event.clientX, event.clientY, ...lines);
    const c = this.run.columns;
    const lasts = c['wait.duration'];
    const wait = lane.name !== 'compute' ?
        -1 :
        c['wait.begin'].findIndex(
            (begin, w) => time >= begin && time <= begin + lasts[w] && lasts[w] > pixel);
    if (wait >= 0) {
      show(
          make('div.when', `compute ${kNotes[this.causes[c['wait.cause'][wait]]]}`),
          make(
              'div.where', `${formatTime(lasts[wait])} from ${this.run.when(c['wait.begin'][wait])}`));
      return;
    }
    if (found < 0) {
      show(make(
          'div.when',
          lane.name === 'issue' ? 'the host issues nothing' : `${kStreamLabels[lane.name]}: idle`));
      return;
    }
    const place = this.run.describePosition(c['work.position'][found]);
    const [from, to] = this.#span(lane, found);
    const block = c['work.block'][found];
    const ahead = c['work.start'][found] - c['work.enqueued'][found];
    const restored = this.#restored(found);
    show(
        make(
            'div.when',
            block > 0 ? `copy of ${this.run.describeBlock(block - 1).name}` : place.operator),
        make('div.where', placeText(place)),
        make('div', `${formatTime(to - from)} from ${this.run.when(from)}, step ${place.step}`),
        block > 0 ? make('div', formatBytes(this.run.bytes[block - 1])) : null,
        restored > 0 ? make('div', `${formatTime(restored)} of it recomputing evicted values`) :
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
