// Where the allocator put blocks: time to the right, addresses upwards.
import {colourOf, empty, gutter, kMargin, make} from './dom.js';
import {TimeCanvas} from './timecanvas.js';
import {formatBytes, formatTime, niceStep, unitOf} from './units.js';

const kHeight = 320;
const kInset = 8;  // above and below

export class AddressMap {
  constructor(run, view, tooltip) {
    this.run = run;
    this.view = view;
    this.tooltip = tooltip;
    const c = run.columns;
    this.offset = c['address.offset'];
    this.known = this.offset.length === run.births.length && this.offset.length > 0;
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
    this.frame = new TimeCanvas({
      run,
      view,
      tooltip,
      box: this.box,
      label: 'Addresses of blocks over time',
      height: kHeight,
      inset: kInset,
      draw: (context, width, x) => this.#drawBlocks(context, width, x),
      hover: (event, time) => this.#hover(event, time)
    });
    view.listen((what) => {
      if (what === 'range' || what === 'grouping')
        this.frame.repaint();
      else
        this.frame.redraw();
    });
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
    const y = (offset) => bottom - offset / this.height * (bottom - top);
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
    for (let a = 0; a < run.births.length; ++a) {
      if (this.offset[a] < 0) continue;
      const [from, to] = [run.time[run.births[a]], this.#timeOf(run.returns[a])];
      if (to < view.begin || from > view.end) continue;
      byColour[grouping.of[run.blockOf(a)]].push(a);
    }
    // Where the last rectangle narrower than a pixel was drawn, by the rows that it covers: the
    // same block of every micro-batch fills the same pixels again and again.
    const drawn = new Int32Array((kHeight + 1) * (kHeight + 1));
    byColour.forEach((allocations, g) => {
      context.fillStyle = grouping.colours[g];
      drawn.fill(-1);
      for (const a of allocations) {
        const bytes = run.bytes[run.blockOf(a)];
        const from = x(run.time[run.births[a]]);
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
    const pixel = (this.view.end - this.view.begin) / this.box.clientWidth;
    const slack = this.height / kHeight / 2;
    let found = -1;
    for (let a = 0; a < run.births.length && run.time[run.births[a]] <= time + pixel; ++a) {
      if (this.offset[a] < 0 || this.#timeOf(run.returns[a]) < time) continue;
      const end = this.offset[a] + run.bytes[run.blockOf(a)];
      if (offset >= this.offset[a] - slack && offset < end + slack) found = a;
      if (offset >= this.offset[a] && offset < end) break;
    }
    if (found < 0) {
      this.tooltip.show(
          event.clientX, event.clientY, make('div.when', 'free here'),
          make(
              'div.where',
              `${formatTime(time)}, ${formatBytes(Math.max(Math.round(offset), 0))} up`));
      return;
    }
    const block = run.describeBlock(run.blockOf(found));
    const [from, to] = [run.time[run.births[found]], this.#timeOf(run.returns[found])];
    this.tooltip.show(
        event.clientX, event.clientY,
        make('div.when', `${block.name}, ${formatBytes(block.bytes)}`),
        make(
            'div.where',
            run.summary.roles[block.role].label + (block.madeBy ? ` · by ${block.madeBy}` : '')),
        make('div', `from ${formatTime(from)} for ${formatTime(to - from)}`));
  }
}
