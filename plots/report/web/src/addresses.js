// Where the allocator put blocks: time to the right, addresses upwards. What is free inside the
// memory that it took is its fragmentation.
import {colourOf, empty, gutter, kMargin, make} from './dom.js';
import {fillOf} from './inks.js';
import {namePhases, shadePhases} from './phases.js';
import {TimeCanvas} from './timecanvas.js';
import {formatBytes, formatTime, niceStep, unitOf} from './units.js';

const kHeight = 360;
const kInset = 22;  // above, for the names of phases, and below, for times
const kHatched = 8;  // pixels from which on a block shows its hatching

export class AddressMap {
  constructor(run, view, tooltip) {
    this.run = run;
    this.view = view;
    this.tooltip = tooltip;
    const c = run.columns;
    this.offset = c['address.offset'];
    this.known = this.offset.length === run.allocatedAt.length && this.offset.length > 0;
    this.box = make('div.addresses');
    if (!this.known) {
      this.box.append(empty(
          `The ${
              run.point.memory.allocator.kind} allocator only counts bytes: its blocks have no ` +
          'addresses. Run with allocator: torch, bfc or packed to see where blocks lie.'));
      return;
    }
    this.height = Array.from(c['segment.offset'], (o, s) => o + c['segment.bytes'][s])
                      .reduce((most, end) => Math.max(most, end), 1);
    this.readout = make('p.instant', {'aria-live': 'polite'});
    this.box.append(this.readout);
    this.frame = new TimeCanvas({
      run,
      view,
      tooltip,
      box: this.box,
      label: 'Addresses of blocks over time',
      height: kHeight,
      inset: kInset,
      draw: (context, width, x) => this.#drawBlocks(context, width, x),
      hover: (event, time) => this.#hover(event, time),
      over: (context, x) => this.#outlineLifetime(context, x)
    });
    this.#describe();
    view.listen((what) => {
      if (what === 'instant') this.#describe();
      if (what === 'range' || what === 'grouping')
        this.frame.repaint();
      else
        this.frame.redraw();
    });
  }

  #y(offset) { return kHeight - kInset - offset / this.height * (kHeight - 2 * kInset); }

  // What the allocator has after a point: its segments and the free gaps in them, by offset.
  gapsAt(point) {
    const {run} = this;
    const c = run.columns;
    const segments = [];
    for (let s = 0; s < c['segment.offset'].length; ++s) {
      if (c['segment.since'][s] > point || c['segment.until'][s] <= point) continue;
      const begin = c['segment.offset'][s];
      segments.push({begin, end: begin + c['segment.bytes'][s]});
    }
    const blocks = [];
    for (let a = 0; a < run.allocatedAt.length && run.allocatedAt[a] <= point; ++a) {
      if (this.offset[a] < 0 || run.returns[a] <= point) continue;
      blocks.push({allocation: a, begin: this.offset[a], end: this.offset[a] + run.bytes[run.blockOf(a)]});
    }
    segments.sort((a, b) => a.begin - b.begin);
    blocks.sort((a, b) => a.begin - b.begin);
    const gaps = [];
    let b = 0;
    for (const {begin, end} of segments) {
      let at = begin;
      while (b < blocks.length && blocks[b].begin < begin)
        ++b;
      let below = null;
      for (; b < blocks.length && blocks[b].begin < end; ++b) {
        if (blocks[b].begin > at) gaps.push({begin: at, end: blocks[b].begin, below, above: blocks[b]});
        at = Math.max(at, blocks[b].end);
        below = blocks[b];
      }
      if (at < end) gaps.push({begin: at, end, below, above: null});
    }
    // Ends of blocks that are rounded up are no gaps that anything fits into.
    return {segments, gaps: gaps.filter((gap) => gap.end - gap.begin >= 512)};
  }

  // How fragmented memory is at the chosen instant.
  #describe() {
    const {run, view} = this;
    if (run.count === 0) return;
    const {segments, gaps} = this.gapsAt(view.instant);
    const size = ({begin, end}) => end - begin;
    const sum = (list) => list.reduce((bytes, item) => bytes + size(item), 0);
    const largest = gaps.reduce((most, gap) => Math.max(most, size(gap)), 0);
    this.readout.replaceChildren(
        make('b', view.instant === run.peak ? 'At the peak' : `At ${run.when(run.time[view.instant])}`),
        `: ${formatBytes(sum(segments))} in ${segments.length} segment${
            segments.length === 1 ? '' : 's'}, ` +
            (gaps.length === 0 ? 'nothing of it free.' :
                                 `${formatBytes(sum(gaps))} of it free in ${gaps.length} gap${
                                     gaps.length === 1 ? '' : 's'}, the largest ${formatBytes(largest)}.`));
  }

  // The block of the marked lifetime.
  #outlineLifetime(context, x) {
    const {run, view} = this;
    const a = view.lifetime;
    if (a === null || !(this.offset[a] >= 0)) return;
    const [allocated, freed] = [run.time[run.allocatedAt[a]], this.#timeOf(run.returns[a])];
    if (freed < view.begin || allocated > view.end) return;
    const [from, to] = [x(Math.max(allocated, view.begin)), x(Math.min(freed, view.end))];
    const [low, high] =
        [this.#y(this.offset[a]), this.#y(this.offset[a] + run.bytes[run.blockOf(a)])];
    context.strokeStyle = colourOf('ink');
    context.lineWidth = 2;
    context.strokeRect(from, high, Math.max(to - from, 1), Math.max(low - high, 1));
  }

  // Times below the map, from 0 of the step.
  #drawTimes(context, inner, place) {
    const {view} = this;
    const {origin} = view;
    const step = niceStep(view.end - view.begin, Math.max(2, Math.floor(inner / 90)));
    const {size, unit} = unitOf(Math.abs(view.end - origin), true);
    const digits = Math.min(6, Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9)));
    context.fillStyle = colourOf('muted');
    context.textAlign = 'center';
    for (let at = origin + Math.ceil((view.begin - origin) / step) * step; at <= view.end; at += step)
      context.fillText(
          `${((at - origin) / size).toFixed(digits)} ${unit}`, place(at), kHeight - kInset / 2);
  }

  #timeOf(point) { return point < this.run.count ? this.run.time[point] : this.run.end; }

  draw() { this.frame?.draw(); }
  // When it is in sight.
  redraw() { this.frame?.redraw(); }

  #drawBlocks(context, width, place) {
    const {run, view} = this;
    const c = run.columns;
    const left = gutter();
    const inner = width - left - kMargin;
    const [top, bottom] = [kInset, kHeight - kInset];
    const x = (time) => place(Math.min(Math.max(time, view.begin), view.end));
    const y = (offset) => this.#y(offset);
    shadePhases(context, run, view, place, 0, bottom);
    this.phaseNames = namePhases(context, run, view, place, top / 2);
    this.#drawTimes(context, inner, place);
    const {size, unit} = unitOf(this.height, false);
    const step = niceStep(this.height / size, 5) * size;
    context.font = '11px system-ui, sans-serif';
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    for (let at = 0; at <= this.height; at += step) {
      context.fillStyle = colourOf('muted');
      context.fillText(
          at === 0 ? '0' : `${(at / size).toFixed(step / size < 1 ? 1 : 0)} ${unit}`, left - 8,
          Math.min(y(at), bottom - 4));
    }
    context.save();
    context.beginPath();
    context.rect(left, 0, inner, kHeight);
    context.clip();
    context.fillStyle = colourOf('segment');
    const segments = c['segment.offset'].length;
    for (let s = 0; s < segments; ++s) {
      const [from, to] = [this.#timeOf(c['segment.since'][s]), this.#timeOf(c['segment.until'][s])];
      if (to < view.begin || from > view.end) continue;
      const low = c['segment.offset'][s];
      context.fillRect(
          x(from), y(low + c['segment.bytes'][s]), Math.max(x(to) - x(from), 0.5),
          Math.max(y(low) - y(low + c['segment.bytes'][s]), 0.3));
    }
    const grouping = run.grouping(view.grouping);
    // By colour, so that the canvas changes its state rarely.
    const byColour = grouping.colours.map(() => []);
    for (let a = 0; a < run.allocatedAt.length; ++a) {
      if (this.offset[a] < 0) continue;
      const [from, to] = [run.time[run.allocatedAt[a]], this.#timeOf(run.returns[a])];
      if (to < view.begin || from > view.end) continue;
      byColour[grouping.of[run.blockOf(a)]].push(a);
    }
    // Where the last rectangle narrower than a pixel was drawn, by the rows that it covers: the
    // same block of every micro-batch fills the same pixels again and again.
    const drawn = new Int32Array((kHeight + 1) * (kHeight + 1));
    byColour.forEach((allocations, g) => {
      if (allocations.length === 0) return;
      const hatched = fillOf(context, grouping.inks[g], run.summary.hatches, true);
      drawn.fill(-1);
      for (const a of allocations) {
        const bytes = run.bytes[run.blockOf(a)];
        const from = x(run.time[run.allocatedAt[a]]);
        const wide = x(this.#timeOf(run.returns[a])) - from;
        const low = y(this.offset[a]);
        const high = y(this.offset[a] + bytes);
        if (wide < 1) {
          const rows = Math.floor(high) * (kHeight + 1) + Math.floor(low);
          const column = Math.floor(from);
          if (drawn[rows] === column) continue;
          drawn[rows] = column;
        }
        // A line of background between neighbours that are large enough to have one.
        const tall = low - high;
        context.fillStyle =
            wide >= kHatched && tall >= kHatched ? hatched : grouping.colours[g];
        context.fillRect(
            from, high, Math.max(wide - (wide > 6 ? 0.75 : 0), 0.6),
            Math.max(tall - (tall > 3 ? 0.75 : 0), 0.25));
      }
    });
    context.restore();
  }

  #hover(event, time) {
    const {run} = this;
    const offset = (kHeight - kInset - event.offsetY) / (kHeight - 2 * kInset) * this.height;
    if (offset < 0 || offset > this.height) {
      this.tooltip.hide();
      return;
    }
    const pixel = (this.view.end - this.view.begin) / this.box.clientWidth;
    const slack = this.height / kHeight / 2;
    let found = -1;
    for (let a = 0; a < run.allocatedAt.length && run.time[run.allocatedAt[a]] <= time + pixel; ++a) {
      if (this.offset[a] < 0 || this.#timeOf(run.returns[a]) < time) continue;
      const end = this.offset[a] + run.bytes[run.blockOf(a)];
      if (offset >= this.offset[a] - slack && offset < end + slack) found = a;
      if (offset >= this.offset[a] && offset < end) break;
    }
    if (found < 0) {
      this.#showGap(event, time, offset);
      return;
    }
    const block = run.describeBlock(run.blockOf(found));
    const [from, to] = [run.time[run.allocatedAt[found]], this.#timeOf(run.returns[found])];
    this.tooltip.show(
        event.clientX, event.clientY,
        make('div.when', `${block.name}, ${formatBytes(block.bytes)}`),
        make(
            'div.where',
            run.summary.roles[block.role].label + (block.madeBy ? ` · by ${block.madeBy}` : '')),
        make('div', `from ${run.when(from)} for ${formatTime(to - from)}`));
  }

  // What is free at an offset, and what it lies between.
  #showGap(event, time, offset) {
    const {run} = this;
    const {gaps} = this.gapsAt(run.pointAt(time));
    const gap = gaps.find(({begin, end}) => offset >= begin && offset < end);
    const name = (block) => run.describeBlock(run.blockOf(block.allocation)).name;
    const lines = gap ?
        [
          make('div.when', `free: ${formatBytes(gap.end - gap.begin)}`),
          make(
              'div.where',
              gap.below && gap.above ? `between ${name(gap.below)} and ${name(gap.above)}` :
                  gap.below         ? `behind ${name(gap.below)}, to the end of its segment` :
                  gap.above         ? `before ${name(gap.above)} in its segment` :
                                      'a whole segment, cached')
        ] :
        [make('div.when', 'not taken from the device')];
    this.tooltip.show(
        event.clientX, event.clientY, ...lines, make('div', `at ${run.when(time)}`));
  }
}
