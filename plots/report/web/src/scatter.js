// Marks and lines in a plane, as SVG: few enough to be elements that can be focused and opened.
import {colourOf, make} from './dom.js';
import {clipped, formatCount, niceStep, unitOf} from './units.js';

const kHeight = 340;
const kSides = {
  left: 74,
  right: 26,
  top: 16,
  bottom: 48
};
const kLine = 15;     // height of a label
const kLetter = 6.3;  // width of a letter

export function svg(tag, attributes, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on'))
      element.addEventListener(key.slice(2), value);
    else
      element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

// Marks of an axis over [low, high]: {at, text}.
export function ticksOf(kind, low, high, count) {
  const largest = Math.max(Math.abs(low), Math.abs(high));
  const plain = {percent: {size: 1, unit: ' %'}, number: {size: 1, unit: ''}}[kind];
  const {size, unit} = plain ?? unitOf(largest, kind === 'time');
  const step = niceStep((high - low) / size, count) * size;
  const digits = Math.min(4, Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9)));
  const whole = kind === 'number' && digits === 0;
  const text = (at) => (whole ? formatCount(at) : (at / size).toFixed(digits));
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-6; at += step) {
    ticks.push({at, text: at === 0 ? '0' : `${text(at)}${plain ? unit : ` ${unit}`}`});
  }
  return ticks;
}

// From below the smallest to above the largest value; places are read here, not lengths, so the
// axes need not begin at zero. Values that hardly differ are not drawn as if they did.
function extent(values, least) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  const span = Math.max(high - low, Math.abs(high) * 0.05, least);
  const pad = (high - low) * 0.12 + (span - (high - low)) / 2;
  return [low >= 0 ? Math.max(low - pad, 0) : low - pad, high + pad];
}

// Shapes beside colours, so that series can be told apart without seeing colours.
const kShapes = [
  'M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0', 'M-4.5-4.5h9v9h-9z', 'M0-6L5.6 4.4H-5.6z',
  'M0-6.2L6.2 0L0 6.2L-6.2 0z', 'M-5.6-4.4H5.6L0 6z', 'M-2-6h4v4h4v4h-4v4h-4v-4h-4v-4h4z',
  'M-6 0L-3-5H3L6 0L3 5H-3z'
];
export const kShapeCount = kShapes.length;
const shapeOf = (k) => kShapes[(k ?? 0) % kShapes.length];

export function markSwatch(colour, shape) {
  return svg(
      'svg', {viewBox: '-8 -8 16 16', width: 14, height: 14, 'aria-hidden': true},
      svg('path', {d: shapeOf(shape), fill: colour}));
}

// In a box that it fills, drawn anew when that changes its width.
export function scatterPlot(plot) {
  const box = make('div.scatter-box');
  let drawn = 0;
  new ResizeObserver(() => {
    if (box.clientWidth === drawn || box.clientWidth === 0) return;
    drawn = box.clientWidth;
    box.replaceChildren(drawPlot(plot, drawn));
  }).observe(box);
  return box;
}

// Marks of an axis at given places, those left out that have no room.
function placedTicks(ticks, x, width) {
  const placed = [];
  let free = 0;
  ticks.forEach(({at, text}, k) => {
    const apart = Math.min(...[ticks[k - 1], ticks[k + 1]].filter((other) => other)
                               .map((other) => Math.abs(x(other.at) - x(at))));
    const short = clipped(text, Math.max(Math.floor((Math.min(apart, width) - 8) / kLetter), 10));
    const half = short.length * kLetter / 2;
    if (x(at) - half < free) return;
    free = x(at) + half + 6;
    placed.push({at, text: short, full: text});
  });
  return placed;
}

// `limit`: a line at a value of x, `level`: one at a value of y. `xTicks`: the marks of x, where they
// do not follow from its unit. `bars`: [{x, y, label}], short lines that bound what is above.
function drawPlot(plot, width) {
  const {marks, lines, bars = [], xOf, yOf, xTitle, yTitle, limit, level, xTicks, open} = plot;
  const least = {percent: 2, places: 1};  // of what an axis shows
  const xs = [...marks, ...bars].map((mark) => mark.x);
  const near = limit !== undefined && limit.x < Math.max(...xs) * 2;
  const [x0, x1] = extent(near ? [...xs, limit.x] : xs, least[xOf] ?? 1e-9);
  const ys = [...marks, ...bars].map((mark) => mark.y);
  const under = level !== undefined && level.y < Math.max(...ys) * 2;
  const [y0, y1] = extent(under ? [...ys, level.y] : ys, least[yOf] ?? 1e-9);
  const x = (v) => kSides.left + (v - x0) / (x1 - x0) * (width - kSides.left - kSides.right);
  const y = (v) =>
      kHeight - kSides.bottom - (v - y0) / (y1 - y0) * (kHeight - kSides.top - kSides.bottom);
  const root = svg('svg', {
    viewBox: `0 0 ${width} ${kHeight}`,
    height: kHeight,
    class: 'scatter',
    role: 'img',
    'aria-label': `${yTitle} against ${xTitle}`
  });
  for (const {at, text} of ticksOf(yOf, y0, y1, 6)) {
    root.append(
        svg('line',
            {x1: kSides.left, x2: width - kSides.right, y1: y(at), y2: y(at), class: 'grid'}),
        svg('text', {x: kSides.left - 8, y: y(at) + 4, 'text-anchor': 'end'}, text));
  }
  const xMarks = xTicks ? placedTicks(xTicks, x, width) :
                          ticksOf(xOf, x0, x1, Math.max(2, Math.floor(width / 130)));
  for (const {at, text, full} of xMarks) {
    root.append(
        svg('line',
            {x1: x(at), x2: x(at), y1: kSides.top, y2: kHeight - kSides.bottom, class: 'grid'}),
        svg('text', {x: x(at), y: kHeight - kSides.bottom + 18, 'text-anchor': 'middle'}, text,
            ...(full ? [svg('title', {}, full)] : [])));
  }
  root.append(
      svg('text', {
        x: (kSides.left + width - kSides.right) / 2,
        y: kHeight - 8,
        'text-anchor': 'middle',
        class: 'title'
      },
          xTitle));
  root.append(
      svg('text', {
        x: 0,
        y: 0,
        'text-anchor': 'middle',
        class: 'title',
        transform: `translate(13 ${(kHeight - kSides.bottom) / 2}) rotate(-90)`
      },
          yTitle));
  if (near) {
    root.append(
        svg('line', {
          x1: x(limit.x),
          x2: x(limit.x),
          y1: kSides.top,
          y2: kHeight - kSides.bottom,
          stroke: colourOf('bad'),
          'stroke-width': 1.5
        }),
        svg('text', {
          x: x(limit.x) - 5,
          y: kSides.top + 10,
          'text-anchor': 'end',
          fill: colourOf('bad'),
          class: 'limit'
        },
            limit.label));
  }
  if (under) {
    root.append(
        svg('line', {
          x1: kSides.left,
          x2: width - kSides.right,
          y1: y(level.y),
          y2: y(level.y),
          stroke: colourOf('bad'),
          'stroke-width': 1.5,
          class: 'level'
        }),
        svg('text',
            {x: width - kSides.right, y: y(level.y) - 6, 'text-anchor': 'end', class: 'limit'},
            level.label));
  }
  const taken = marks.map(
      (mark) =>
          ({left: x(mark.x) - 6, right: x(mark.x) + 6, top: y(mark.y) - 6, bottom: y(mark.y) + 6}));
  for (const {points, colour, stepped, dashed} of lines) {
    if (points.length < 2) continue;
    let path = '';
    points.forEach((point, k) => {
      if (k === 0)
        path += `M${x(point.x)} ${y(point.y)}`;
      else
        path += stepped ? `H${x(point.x)}V${y(point.y)}` : `L${x(point.x)} ${y(point.y)}`;
    });
    if (stepped) {  // names keep off its levels
      points.slice(1).forEach((point, k) => taken.push({
        left: Math.min(x(points[k].x), x(point.x)) - 2,
        right: Math.max(x(points[k].x), x(point.x)) + 2,
        top: y(points[k].y) - 2,
        bottom: y(points[k].y) + 2
      }));
    }
    root.append(svg('path', {
      d: path,
      fill: 'none',
      stroke: colour,
      'stroke-width': 1.5,
      'stroke-dasharray': dashed ? '5 4' : 'none',
      opacity: 0.75
    }));
  }
  if (near)
    taken.push(
        {
          left: x(limit.x) - 5 - limit.label.length * kLetter,
          right: x(limit.x) + 2,
          top: kSides.top - 4,
          bottom: kSides.top + 14
        },
        {
          left: x(limit.x) - 2,
          right: x(limit.x) + 2,
          top: kSides.top,
          bottom: kHeight - kSides.bottom
        });
  const half = barWidth(bars.map((bar) => x(bar.x)), width) / 2;
  for (const bar of bars) {
    const [from, to] = [
      Math.max(x(bar.x) - half, kSides.left), Math.min(x(bar.x) + half, width - kSides.right)
    ];
    root.append(svg('line', {
      x1: from,
      x2: to,
      y1: y(bar.y),
      y2: y(bar.y),
      stroke: colourOf('ink'),
      'stroke-width': 3,
      class: 'bound'
    }));
    taken.push({left: from, right: to, top: y(bar.y) - 2, bottom: y(bar.y) + 2});
  }
  for (const mark of marks) {
    const opens = mark.opens ?? mark.point.opens;
    root.append(
        svg('path', {
          d: shapeOf(mark.shape),
          transform: `translate(${x(mark.x)} ${y(mark.y)})`,
          fill: mark.hollow ? colourOf('surface') : mark.colour,
          stroke: mark.hollow ? mark.colour : colourOf('surface'),
          'stroke-width': mark.hollow ? 1.75 : 1,
          opacity: mark.faint ? 0.6 : 1,
          tabindex: 0,
          class: opens ? 'mark opens' : 'mark',
          role: opens ? 'button' : 'img',
          'aria-label': mark.title,
          onclick: () => opens && open(mark),
          onkeydown: (event) => {
            if (event.key === 'Enter' && opens) open(mark);
          }
        },
            svg('title', {}, mark.title)));
    if (mark.named) placeLabel(root, mark, x(mark.x), y(mark.y), taken, width);
  }
  for (const bar of bars) {
    if (!placeLabel(root, bar, x(bar.x) + half - 6, y(bar.y), taken, width))
      placeLabel(root, bar, x(bar.x) - half + 6, y(bar.y), taken, width);
  }
  return make('div.scatter-box', root);
}

// Width of bars at these places: so that neighbours do not touch.
function barWidth(places, width) {
  const sorted = [...places].sort((a, b) => a - b);
  const apart = sorted.slice(1).map((place, k) => place - sorted[k]);
  return Math.min(width * 0.12, ...apart.map((distance) => distance * 0.8));
}

// Beside its mark where it covers neither a mark nor another label; nowhere if there is no place.
// Returns whether there was one.
function placeLabel(root, mark, px, py, taken, right) {
  const most = Math.floor(right / 13);
  const text = mark.label.length > most ? `${mark.label.slice(0, most - 1)}…` : mark.label;
  const width = text.length * kLetter + 4;
  const places = [
    [px + 10, py + 4, 'start'], [px - 10, py + 4, 'end'], [px, py - 12, 'middle'],
    [px, py + 21, 'middle'], [px + 10, py - 12, 'start'], [px + 10, py + 20, 'start'],
    [px - 10, py - 12, 'end'], [px - 10, py + 20, 'end'], [px + 10, py - 28, 'start'],
    [px - 10, py - 28, 'end'], [px + 10, py - 44, 'start'], [px - 10, py - 44, 'end']
  ];
  for (const [tx, ty, anchor] of places) {
    const left = anchor === 'start' ? tx : anchor === 'end' ? tx - width : tx - width / 2;
    const box = {left, right: left + width, top: ty - kLine + 3, bottom: ty + 3};
    if (box.left < kSides.left || box.right > right - 2 || box.top < 2 ||
        box.bottom > kHeight - kSides.bottom)
      continue;
    if (taken.some(
            (other) => box.left < other.right && box.right > other.left && box.top < other.bottom &&
                box.bottom > other.top))
      continue;
    taken.push(box);
    root.append(svg('text', {x: tx, y: ty, 'text-anchor': anchor, class: 'label'}, text));
    return true;
  }
  return false;
}
