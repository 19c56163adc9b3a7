// Several points over each other: memory over time, peak against time, overhead against budget.
import {memoryAxis, timeAxis} from './chart.js';
import {colourOf, empty, gutter, kMargin, make, panel, swatch} from './dom.js';
import {scatterPlot} from './scatter.js';
import {thinTotal} from './stack.js';
import {knowsBeyondLive, peakTerms} from './tables.js';
import {formatBytes, formatCount, formatSeconds, formatShare} from './units.js';

const kColours =
    ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#8a63c7', '#7a8490'];
const kDashes = [[], [6, 3], [2, 2]];
const kFirstShown = 6;

export const lineColour = (k) => kColours[k % kColours.length];
const fits = (point) => point.status === 'fits';

// Points that no other one beats in both memory and time, by memory.
export function paretoFront(points) {
  const sorted = points.filter(fits).sort(
      (a, b) => a.memory.device_used - b.memory.device_used || a.time.step - b.time.step);
  const front = [];
  for (const point of sorted) {
    if (front.length === 0 || point.time.step < front[front.length - 1].time.step)
      front.push(point);
  }
  return front;
}

class Overlay {
  constructor(points, load) {
    this.points = points.filter((point) => point.charts);
    this.load = load;
    this.shown = new Set(this.points.slice(0, kFirstShown));
    this.box =
        make('div.chart', {role: 'img', 'aria-label': 'Memory over time of the chosen runs'});
    this.readout =
        make('p.instant', 'Point at the chart to read all runs at one time of their step.');
    this.runs = new Map();
    this.choices = make(
        'div.runs',
        this.points.map(
            (point, k) => make(
                'label', make('input', {
                  type: 'checkbox',
                  checked: this.shown.has(point),
                  onchange: (event) => {
                    if (event.target.checked)
                      this.shown.add(point);
                    else
                      this.shown.delete(point);
                    this.build();
                  }
                }),
                swatch(lineColour(k)), make('span', point.label))));
    new ResizeObserver(() => {
      if (this.plot && this.plot.width !== this.box.clientWidth) this.build();
    }).observe(this.box);
  }

  async build() {
    const shown = this.points.filter((point) => this.shown.has(point));
    for (const point of shown) {
      if (!this.runs.has(point)) this.runs.set(point, await this.load(point));
    }
    this.plot?.destroy();
    this.plot = null;
    this.box.replaceChildren();
    if (shown.length === 0 || this.box.clientWidth === 0) {
      if (shown.length === 0) this.box.append(empty('Choose runs above.'));
      return;
    }
    const columns = this.box.clientWidth - gutter() - kMargin;
    const longest =
        Math.max(...shown.map((p) => this.runs.get(p).end - this.runs.get(p).lastStepBegin));
    const lines = shown.map((point) => {
      const run = this.runs.get(point);
      const {x, y} = thinTotal(run, run.lastStepBegin, run.end, columns);
      return {x: x.map((time) => time - run.lastStepBegin), y};
    });
    const stepped = uPlot.paths.stepped({align: 1});
    const capacity = Math.max(...shown.map((point) => point.memory.capacity));
    const most = lines.reduce((a, line) => line.y.reduce((b, v) => Math.max(b, v), a), 0);
    const top = most > 0.35 * capacity ? Math.max(most, capacity) * 1.04 : most * 1.08;
    const data = uPlot.join(lines.map(({x, y}) => dropRepeats(x, y)), lines.map(() => [0]));
    const options = {
      width: this.box.clientWidth,
      height: window.innerWidth < 640 ? 260 : 340,
      padding: [18, kMargin, 0, 0],
      legend: {show: false},
      scales:
          {x: {time: false, range: () => this.range ?? [0, longest]}, y: {range: () => [0, top]}},
      axes: [timeAxis(), memoryAxis()],
      series: [
        {}, ...shown.map((point) => {
          const k = this.points.indexOf(point);
          return {
            stroke: lineColour(k),
            width: 1.75,
            paths: stepped,
            spanGaps: true,
            points: {show: false},
            dash: kDashes[Math.floor(k / kColours.length) % kDashes.length]
          };
        })
      ],
      cursor: {drag: {x: true, y: false, dist: 6, setScale: false}, points: {show: false}},
      hooks: {
        setSelect: [(u) => {
          if (u.select.width < 6) return;
          this.range =
              [u.posToVal(u.select.left, 'x'), u.posToVal(u.select.left + u.select.width, 'x')];
          this.build();
        }],
        setCursor: [(u) => this.#read(u, shown)],
        draw: [(u) => {
          if (capacity > top) return;
          const y = u.valToPos(capacity, 'y', true);
          const {ctx, bbox} = u;
          ctx.save();
          ctx.strokeStyle = ctx.fillStyle = colourOf('bad');
          ctx.lineWidth = 1.5 * devicePixelRatio;
          ctx.beginPath();
          ctx.moveTo(bbox.left, y);
          ctx.lineTo(bbox.left + bbox.width, y);
          ctx.stroke();
          ctx.font = `600 ${11 * devicePixelRatio}px system-ui, sans-serif`;
          ctx.textAlign = 'right';
          ctx.fillText(
              `capacity ${formatBytes(capacity)}`, bbox.left + bbox.width,
              y - 6 * devicePixelRatio);
          ctx.restore();
        }],
      },
    };
    this.plot = new uPlot(options, data, this.box);
    this.plot.over.addEventListener('dblclick', () => {
      this.range = null;
      this.build();
    });
  }

  #read(u, shown) {
    if (u.cursor.left < 0) return;
    const time = u.posToVal(u.cursor.left, 'x');
    this.readout.replaceChildren(
        make('b', formatSeconds(time * 1e-9)), ' into the step: ', ...shown.map((point) => {
          const run = this.runs.get(point);
          const i = run.pointAt(run.lastStepBegin + time);
          return make(
              'span.reading', swatch(lineColour(this.points.indexOf(point))),
              run.lastStepBegin + time > run.end ? 'over' : formatBytes(run.context + run.live[i]));
        }));
  }
}

// uPlot joins lines by time, so each time may come once: of those that share one, the first level
// and the last one stay, half a nanosecond apart.
function dropRepeats(x, y) {
  const xs = [];
  const ys = [];
  for (let k = 0; k < x.length; ++k) {
    let largest = k;
    let last = k;
    while (last + 1 < x.length && x[last + 1] === x[k]) {
      ++last;
      if (y[last] > y[largest]) largest = last;
    }
    xs.push(x[k]);
    ys.push(y[largest]);
    if (last > largest) {
      xs.push(x[k] + 0.5);
      ys.push(y[last]);
    }
    k = last;
  }
  return [xs, ys];
}

function paretoPanel(points, open) {
  const built = points.filter((point) => point.status !== 'error');
  const front = new Set(paretoFront(built));
  const oneCapacity = built.every((point) => point.memory.capacity === built[0].memory.capacity);
  const marks = built.map(
      (point) => ({
        x: point.time.step * 1e9,
        y: point.memory.device_needed,
        label: point.label,
        point,
        colour: front.has(point) ? colourOf('accent') : colourOf('faint'),
        hollow: !fits(point),
        named: front.has(point) || built.length <= 6,
        title: `${point.label}: ${formatBytes(point.memory.device_needed)}, ` +
            `${formatSeconds(point.time.step)} a step${fits(point) ? '' : ' – does not fit'}`,
      }));
  marks.sort((a, b) => front.has(a.point) - front.has(b.point));  // the front is drawn last
  const line =
      [...front].map((point) => ({x: point.time.step * 1e9, y: point.memory.device_needed}));
  return panel(
      'Peak against time',
      'One mark per point; those on the line are not beaten in both. Hollow: does not fit (as it ' +
          'would be with enough memory). Click to open.',
      scatterPlot({
        marks,
        lines: [{points: line, colour: colourOf('accent'), stepped: true}],
        xOf: 'time',
        yOf: 'bytes',
        xTitle: 'time of a step',
        yTitle: 'memory of the device',
        limit: oneCapacity ? {y: built[0].memory.capacity, label: 'capacity'} : undefined,
        open: (mark) => open(mark.point)
      }));
}

// A key of the points that limits memory, with its values in bytes; null when there is none.
export function budgetKey(points) {
  const values = new Map();
  for (const point of points) {
    for (const [key, value] of Object.entries(point.overrides)) {
      if (!/(^|[._])budget$|hbm\.capacity$/.test(key)) continue;
      const bytes = parseBytes(value);
      if (bytes === null) continue;
      if (!values.has(key)) values.set(key, new Set());
      values.get(key).add(bytes);
    }
  }
  for (const [key, distinct] of values)
    if (distinct.size > 1) return key;
  return null;
}

export function parseBytes(value) {
  if (typeof value === 'number') return value;
  const match = /^\s*([\d.]+)\s*(|[kKMGT]i?B|B)\s*$/.exec(String(value));
  if (!match) return null;
  const kSizes = {
    '': 1,
    B: 1,
    kB: 1e3,
    KB: 1e3,
    KiB: 2 ** 10,
    MB: 1e6,
    MiB: 2 ** 20,
    GB: 1e9,
    GiB: 2 ** 30,
    TB: 1e12,
    TiB: 2 ** 40
  };
  return Number(match[1]) * (kSizes[match[2]] ?? 1);
}

function budgetPanel(points, open) {
  const key = budgetKey(points);
  if (key === null) return null;
  const built = points.filter((point) => key in point.overrides && point.status !== 'error');
  const fastest = Math.min(...built.filter(fits).map((point) => point.time.step));
  const series = new Map();
  for (const point of built) {
    const others = Object.entries(point.overrides).filter(([name]) => name !== key);
    const name = others.map(([word]) => point.settings[word]).join(', ') || 'this scenario';
    if (!series.has(name)) series.set(name, []);
    series.get(name).push(point);
  }
  const marks = [];
  const lines = [];
  [...series.entries()].forEach(([name, members], k) => {
    const fitting = members.filter(fits).sort(
        (a, b) => parseBytes(a.overrides[key]) - parseBytes(b.overrides[key]));
    const place = (point) =>
        ({x: parseBytes(point.overrides[key]), y: (point.time.step / fastest - 1) * 100});
    lines.push({points: fitting.map(place), colour: lineColour(k)});
    for (const point of fitting) {
      marks.push({
        ...place(point),
        colour: lineColour(k),
        label: name,
        point,
        named: point === fitting[0] && series.size > 1,
        title: `${point.label}: ${place(point).y.toFixed(1)} % over the fastest`
      });
    }
  });
  const missing = built.length - marks.length;
  return panel(
      'Overhead against budget',
      `Time beyond the fastest point${
          missing === 0     ? '' :
              missing === 1 ? '; one point that does not fit is left out' :
                              `; ${missing} points that do not fit are left out`}.`,
      marks.length ? scatterPlot({
        marks,
        lines,
        xOf: 'bytes',
        yOf: 'percent',
        xTitle: key,
        yTitle: 'more time',
        open: (mark) => open(mark.point)
      }) :
                     empty('No point fits its budget.'));
}

function pointsTable(points, open) {
  const front = new Set(paretoFront(points));
  const keys = [...new Set(points.flatMap((point) => Object.keys(point.overrides ?? {})))];
  const rows = points.map((point, k) => {
    const cells = [
      make('td.right', String(k + 1)),
      make(
          'td.name',
          point.charts ?
              make('button.link', {type: 'button', onclick: () => open(point)}, point.label) :
              point.label)
    ];
    if (point.status === 'error') {
      cells.push(
          make('td', make('span.badge.bad', 'error')),
          make('td', {colspan: '6'}, point.failure?.message ?? ''));
      return make('tr', cells);
    }
    const needed = point.memory.device_needed;
    cells.push(
        make(
            'td',
            make(
                `span.badge.${fits(point) ? 'good' : 'bad'}`,
                fits(point) ? 'fits' : 'does not fit')),
        make('td.right', formatBytes(needed)),
        make('td.right', formatShare(needed, point.memory.capacity)),
        make('td.right', formatBytes(point.memory.peak_live)),
        make('td.right', formatSeconds(point.time.step)),
        make(
            'td.right',
            fits(point) && point.throughput.tokens_per_second > 0 ?
                formatCount(point.throughput.tokens_per_second) :
                '–'),
        make('td', front.has(point) ? 'on the front' : ''));
    return make('tr', cells);
  });
  return make(
      'div.scroll.tall',
      make(
          'table.figures',
          make(
              'thead',
              make(
                  'tr', make('th.right', '#'),
                  make(
                      'th',
                      keys.length ? keys.map((key) => key.split('.').pop()).join(', ') : 'run'),
                  make('th', ''), make('th.right', 'device memory'), make('th.right', 'used'),
                  make('th.right', 'peak live'), make('th.right', 'step'),
                  make('th.right', 'tokens/s'), make('th', ''))),
          make('tbody', rows)));
}

// Why one peak is larger than another: every term of both, and their differences.
function differencePanel(points, summary) {
  const built = points.filter((point) => point.status !== 'error');
  if (built.length < 2) return null;
  const select = (chosen, label) => make(
      'select', {'aria-label': label, onchange: () => draw()},
      built.map(
          (point, k) => make('option', {value: String(k), selected: k === chosen}, point.label)));
  const [from, to] = [select(0, 'first run'), select(1, 'second run')];
  const table = make('div.scroll');
  const draw = () => {
    const [a, b] = [built[from.value], built[to.value]];
    const inDetail = knowsBeyondLive(a) && knowsBeyondLive(b);
    const [left, right] = [peakTerms(a, summary, inDetail), peakTerms(b, summary, inDetail)];
    const labels = [...new Set([...left, ...right].map((term) => term.label))];
    const bytesOf = (terms, label) => terms.find((term) => term.label === label)?.bytes ?? 0;
    const sum = (terms) => terms.reduce((total, term) => total + term.bytes, 0);
    const signed = (bytes) =>
        (bytes === 0 ? '±0' : `${bytes > 0 ? '+' : '−'}${formatBytes(Math.abs(bytes))}`);
    const most = Math.max(
        ...labels.map((label) => Math.abs(bytesOf(right, label) - bytesOf(left, label))), 1);
    table.replaceChildren(make(
        'table.figures.terms',
        make(
            'thead',
            make(
                'tr', make('th', 'at the peak'), make('th.right', 'A'), make('th.right', 'B'),
                make('th.right', 'B − A'), make('th', ''))),
        make('tbody', labels.map((label) => {
          const [x, y] = [bytesOf(left, label), bytesOf(right, label)];
          const colour = [...left, ...right].find((term) => term.label === label).colour;
          return make(
              'tr', make('td', swatch(colour), label), make('td.right', formatBytes(x)),
              make('td.right', formatBytes(y)), make('td.right', signed(y - x)),
              make('td.bar', y === x ? null : make('span', {
                     style: `width:${(Math.abs(y - x) / most * 100).toFixed(1)}%;background:var(--${
                         y > x ? 'bad' : 'good'})`
                   })));
        })),
        make(
            'tfoot',
            make(
                'tr', make('th', 'of the device'), make('th.right', formatBytes(sum(left))),
                make('th.right', formatBytes(sum(right))),
                make('th.right', signed(sum(right) - sum(left))), make('th')))));
  };
  draw();
  return panel(
      'What makes the difference',
      'Every term of two peaks; the terms of each add up to its total.',
      make('p.pair', make('label', 'A ', from), make('label', 'B ', to)), table);
}

// `load(point)` gives its Run, `open(point)` shows it.
export function comparePage(summary, load, open) {
  const {points} = summary;
  const overlay = new Overlay(points, load);
  const charted = overlay.points.length;
  const built = points.filter((point) => point.status !== 'error').length;
  const note = charted < built ?
      `The last step of each run. The first ${charted} of ${built} points have charts.` :
      'The last step of each run. Drag to zoom, double-click to go back.';
  const element = make(
      'div.page', panel('Memory over time', note, overlay.choices, overlay.box, overlay.readout),
      make(
          'div.columns.even', built > 0 ? paretoPanel(points, open) : null,
          budgetPanel(points, open)),
      differencePanel(points, summary),
      panel(`All ${points.length} points`, null, pointsTable(points, open)));
  return {element, show: () => overlay.build()};
}
