// Parallel coordinates: an axis for each key and figure, a line for each point. Ranges on the axes
// leave out lines here and rows of the table.
import {colourOf, fitCanvas, make, onNextFrame} from './dom.js';
import {fits} from './fronts.js';
import {svg, ticksOf} from './scatter.js';
import {linesBar, lineShade, scaleOf} from './shades.js';
import {clipped, formatCount} from './units.js';

const kHeight = 380;
const kTop = 34;
const kBottom = 16;
const kSide = 60;    // of the first axis, and right of the last one, for its labels
const kApart = 104;  // least distance of axes
const kMostLines = 2000;
const kMostAxes = 12;
const kReach = 14;    // of an axis for the pointer, to both sides
const kStep = 0.05;   // of an axis for each press of a key
const kLetter = 6.3;  // width of a letter
const kGolden = (Math.sqrt(5) - 1) / 2;
const kManyMarks = 16;  // of an axis; beyond, those that are named lie further apart

// An axis: where points are between 0 and 1, null: nowhere, and its marks [{at, text}, ...].
function axisOfKey(key) {
  const places = key.axis();
  return {
    id: key.key,
    title: key.name,
    full: key.key,
    at: (point) => places[key.of(point)],
    ticks: places.map((at, k) => ({at, text: key.values[k].text}))
  };
}

function axisOfFigure(figure, points) {
  const values = points.map(figure.of).filter((value) => value !== null);
  const [low, high] = values.reduce(
      ([a, b], value) => [Math.min(a, value), Math.max(b, value)], [Infinity, -Infinity]);
  const place = (value) => (high > low ? (value - low) / (high - low) : 0.5);
  return {
    id: figure.id,
    title: figure.name,
    full: figure.name,
    figure,
    range: [low, high],
    at: (point) => {
      const value = figure.of(point);
      return value === null ? null : place(value);
    },
    ticks: values.length === 0 ?
        [] :
        high > low ?
        ticksOf(figure.kind, low, high, 6).map(({at, text}) => ({at: place(at), text})) :
        [{at: 0.5, text: figure.text(low)}]
  };
}

export class ParallelCoordinates {
  constructor(points, keys, figures, selection) {
    this.points = points.filter((point) => point.status !== 'error');
    this.selection = selection;
    const shown = figures.filter(({id}) => id === 'memory' || id === 'time');
    const ofKeys = keys.slice(0, kMostAxes - shown.length);
    this.axes =
        [...ofKeys.map(axisOfKey), ...shown.map((figure) => axisOfFigure(figure, this.points))];
    this.time = this.axes.find(({id}) => id === 'time');
    this.canvas = make('canvas', {'aria-hidden': 'true'});
    this.box = make('div.parallel');
    this.count = make('span.quiet', {role: 'status'});
    const {figure, range} = this.time;
    this.scale = scaleOf(...range);
    this.element = make(
        'div', make('div.scroll', this.box),
        make(
            'ul.legend',
            Number.isFinite(range[0]) ?
                make(
                    'li', `${figure.name}: ${figure.text(range[0])}`,
                    make('span.shades', {style: `background:${linesBar()}`}), figure.text(range[1]),
                    this.scale.words) :
                null,
            make('li', make('span.line.faint'), 'does not fit'), make('li', this.count)));
    this.note = keys.length > ofKeys.length ?
        `The first ${ofKeys.length} of ${keys.length} keys have axes.` :
        '';
    this.redraw = onNextFrame(() => this.draw());
    selection.listen(() => this.redraw());
    new ResizeObserver(() => {
      const width = this.box.parentNode.clientWidth;
      if (width === 0 || width === this.outer) return;
      this.outer = width;
      this.width = Math.max(width, (this.axes.length - 1) * kApart + 2 * kSide + 20);
      this.draw();
    }).observe(this.element);
  }

  #x(k) { return kSide + k * (this.width - 2 * kSide - 20) / Math.max(this.axes.length - 1, 1); }
  #y(at) { return kHeight - kBottom - at * (kHeight - kTop - kBottom); }

  draw() {
    if (!this.width) return;
    this.#drawLines();
    this.#drawAxes();
  }

  // Fast points over slow ones, and both over those that do not fit.
  #drawLines() {
    const context = fitCanvas(this.canvas, this.width, kHeight);
    const held = this.points.filter((point) => this.selection.holds(point));
    // Spread by the golden ratio: even steps would keep to few values of keys that repeat.
    const share = kMostLines / held.length;
    const drawn = held.filter((_, k) => share >= 1 || k * kGolden % 1 < share).slice(0, kMostLines);
    const {figure} = this.time;
    const late = (point) => this.time.at(point) ?? 1;
    drawn.sort((a, b) => fits(a) - fits(b) || late(b) - late(a));
    const many = drawn.length > 300;
    context.lineWidth = many ? 1 : 1.5;
    const faint = colourOf('silhouette');
    for (const point of drawn) {
      context.globalAlpha = fits(point) ? (many ? 0.55 : 0.85) : (many ? 0.25 : 0.6);
      context.strokeStyle = fits(point) ? lineShade(this.scale.share(figure.of(point))) : faint;
      context.setLineDash(fits(point) ? [] : [4, 3]);
      context.beginPath();
      let begun = false;
      this.axes.forEach((axis, k) => {
        const at = axis.at(point);
        if (at === null) return;
        if (begun)
          context.lineTo(this.#x(k), this.#y(at));
        else
          context.moveTo(this.#x(k), this.#y(at));
        begun = true;
      });
      context.stroke();
    }
    this.drawn = drawn.length;
    this.count.textContent = drawn.length === this.points.length ?
        `${formatCount(drawn.length)} lines` :
        `${formatCount(drawn.length)} of ${formatCount(held.length)} lines drawn, of ${
            formatCount(this.points.length)} points`;
  }

  #drawAxes() {
    if (!this.plot || this.plot.width !== this.width) {
      const root = svg('svg', {
        class: 'scatter',
        role: 'group',
        'aria-label': 'ranges of the axes',
        viewBox: `0 0 ${this.width} ${kHeight}`,
        width: this.width,
        height: kHeight
      });
      root.style.width = this.box.style.width = `${this.width}px`;
      this.axes.forEach((axis, k) => this.#addAxis(root, axis, k));
      this.plot = {root, width: this.width};
      this.box.replaceChildren(this.canvas, root);
    }
    for (const axis of this.axes) {
      const range = this.selection.ranges.get(axis.id);
      const [low, high] = range ? [range.low, range.high] : [0, 0];
      axis.bar.setAttribute('y', this.#y(high));
      axis.bar.setAttribute('height', this.#y(low) - this.#y(high));
      axis.bar.setAttribute('visibility', range ? 'visible' : 'hidden');
      axis.strip.setAttribute('aria-valuenow', Math.round((range ? (low + high) / 2 : 0.5) * 100));
      axis.strip.setAttribute('aria-valuetext', this.#words(axis, range));
    }
  }

  #words({ticks}, range) {
    if (!range) return 'all values';
    const inside = ticks.filter(({at}) => at >= range.low && at <= range.high);
    return inside.length === 0 ? 'a range between marks' :
                                 `${inside[0].text} to ${inside[inside.length - 1].text}`;
  }

  #addAxis(root, axis, k) {
    const x = this.#x(k);
    const apart = this.axes.length > 1 ? this.#x(1) - this.#x(0) : this.width;
    const letters = Math.floor((apart - 18) / kLetter);
    const last = k === this.axes.length - 1;
    const room = last ? Math.floor((kSide + 10) / kLetter) : letters;
    axis.bar = svg('rect', {x: x - 7, width: 14, y: 0, height: 0, class: 'range', rx: 2});
    axis.strip = svg('rect', {
      x: x - kReach,
      width: 2 * kReach,
      y: kTop - 8,
      height: kHeight - kTop - kBottom + 16,
      class: 'strip',
      tabindex: 0,
      role: 'slider',
      'aria-orientation': 'vertical',
      'aria-valuemin': 0,
      'aria-valuemax': 100,
      'aria-label': `range of ${axis.full}`,
      onkeydown: (event) => this.#onKey(event, axis)
    });
    this.#dragging(axis);
    root.append(
        svg('line', {x1: x, x2: x, y1: kTop, y2: kHeight - kBottom, class: 'axis'}),
        svg('text', {
          x: last     ? this.width - 2 :
              k === 0 ? Math.max(x - kSide + 2, 2) :
                        x,
          y: 14,
          'text-anchor': last ? 'end' :
              k === 0         ? 'start' :
                                'middle',
          class: 'title'
        },
            clipped(axis.title, letters), svg('title', {}, axis.full)));
    let below = Infinity;
    for (const {at, text} of axis.ticks) {
      const y = this.#y(at);
      if (below - y < (axis.ticks.length > kManyMarks ? 30 : 13)) continue;
      below = y;
      root.append(
          svg('line', {x1: x - 4, x2: x, y1: y, y2: y, class: 'axis'}),
          svg('text', {x: x + 7, y: y + 4, class: 'label'}, clipped(text, room),
              svg('title', {}, text)));
    }
    root.append(axis.bar, axis.strip);
  }

  #set(axis, low, high) {
    const range =
        low === null ? null : {low: Math.max(low, 0), high: Math.min(high, 1), at: axis.at};
    this.selection.set(axis.id, range);
    this.redraw();
  }

  // A range of whole marks: those that lie in it, and their neighbourhood.
  #dragging(axis) {
    const {strip} = axis;
    const placeOf = (event) => {
      const {top, height} = this.plot.root.getBoundingClientRect();
      const y = (event.clientY - top) * kHeight / height;
      return (kHeight - kBottom - y) / (kHeight - kTop - kBottom);
    };
    let from = null;
    strip.addEventListener('pointerdown', (event) => {
      strip.setPointerCapture(event.pointerId);
      from = placeOf(event);
    });
    strip.addEventListener('pointermove', (event) => {
      if (from === null) return;
      const to = placeOf(event);
      this.#set(axis, Math.min(from, to), Math.max(from, to));
    });
    const end = (event) => {
      if (from === null) return;
      if (Math.abs(placeOf(event) - from) < 0.012) this.#set(axis, null);
      from = null;
      this.selection.tell();
    };
    strip.addEventListener('pointerup', end);
    strip.addEventListener('pointercancel', end);
  }

  #onKey(event, axis) {
    const up = {ArrowUp: 1, ArrowDown: -1}[event.key];
    if (up === undefined && event.key !== 'Escape') return;
    event.preventDefault();
    event.stopPropagation();
    const {low, high} = this.selection.ranges.get(axis.id) ?? {low: 0, high: 1};
    if (event.key === 'Escape') {
      this.#set(axis, null);
    } else if (event.shiftKey) {  // wider or narrower, at its upper end
      this.#set(axis, low, Math.max(high + up * kStep, low));
    } else if (low === 0 && high === 1) {  // cut where the key points away from
      this.#set(axis, up > 0 ? kStep : 0, up > 0 ? 1 : 1 - kStep);
    } else {
      this.#set(axis, low + up * kStep, high + up * kStep);
    }
    this.selection.tell();
  }
}
