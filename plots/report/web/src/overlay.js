// Memory over time of several runs over each other.
import {memoryAxis, timeAxis, titleTime} from './chart.js';
import {colourOf, empty, gutter, kMargin, make, panel} from './dom.js';
import {thinTotal} from './stack.js';
import {formatBytes, formatSeconds} from './units.js';

const kColours =
    ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#3a9bd6', '#8a63c7', '#7a8490'];
// Beside colours, so that lines can be told apart without seeing colours.
const kDashes = [[], [6, 3], [2, 2]];
const kOfEachDash = 4;  // lines, of the colours that differ most
const kFirstShown = 6;

export const kLineColours = kColours.length;
export const lineColour = (k) => kColours[k % kColours.length];
const dashOf = (k) => kDashes[Math.floor(k / kOfEachDash) % kDashes.length];

// A piece of line `k` for legends.
export function lineSwatch(k) {
  const style = ['solid', 'dashed', 'dotted'][kDashes.indexOf(dashOf(k))];
  return make('span.line', {style: `border-top:3px ${style} ${lineColour(k)}`});
}

class Overlay {
  constructor(points, load) {
    this.points = points.filter((point) => point.charts);
    this.load = load;
    // Of a comparison the best come first.
    const best = this.points.filter((point) => point.compare?.pareto);
    this.shown = new Set([...best, ...this.points].slice(0, kFirstShown));
    this.box = make('div.chart', {role: 'img'});
    this.readout =
        make('p.instant', 'Point at the chart to read all runs at one time of their step.');
    this.runs = new Map();
    this.turn = 0;  // how often it was asked to be built
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
                lineSwatch(k), make('span', point.label))));
    new ResizeObserver(() => {
      const width = this.box.clientWidth;
      if (this.turn > 0 && width > 0 && width !== this.width) this.build();
    }).observe(this.box);
  }

  async build() {
    const shown = this.points.filter((point) => this.shown.has(point));
    const turn = ++this.turn;
    for (const point of shown) {
      if (!this.runs.has(point)) this.runs.set(point, await this.load(point));
    }
    this.width = this.box.clientWidth;
    if (turn !== this.turn || this.width === 0) return;  // asked again meanwhile, or out of sight
    this.plot?.destroy();
    this.plot = null;
    this.box.replaceChildren();
    if (shown.length === 0) {
      this.box.append(empty('Choose runs above.'));
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
    // Runs on devices of several sizes share no line.
    const capacities = new Set(shown.map((point) => point.memory.capacity));
    const capacity = capacities.size === 1 ? shown[0].memory.capacity : Infinity;
    const most = lines.reduce((a, line) => line.y.reduce((b, v) => Math.max(b, v), a), 0);
    const top = most > 0.35 * capacity ? Math.max(most, capacity) * 1.04 : most * 1.08;
    this.box.setAttribute(
        'aria-label',
        `Memory over time of the chosen runs${
            capacity > top ? '' : ` and the capacity of ${formatBytes(capacity)}`}`);
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
            dash: dashOf(k)
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
          const {ctx, bbox} = u;
          this.#markPeaks(u, shown);
          titleTime(u, 'time in the step');
          if (capacity > top) return;
          const y = u.valToPos(capacity, 'y', true);
          ctx.save();
          ctx.setLineDash([]);
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

  #markPeaks(u, shown) {
    const {ctx} = u;
    ctx.save();
    ctx.setLineDash([]);
    for (const point of shown) {
      const run = this.runs.get(point);
      const time = run.time[run.peak] - run.lastStepBegin;
      if (run.count === 0 || time < u.scales.x.min || time > u.scales.x.max) continue;
      ctx.beginPath();
      ctx.arc(
          u.valToPos(time, 'x', true), u.valToPos(run.context + run.live[run.peak], 'y', true),
          4 * devicePixelRatio, 0, 2 * Math.PI);
      ctx.fillStyle = lineColour(this.points.indexOf(point));
      ctx.fill();
      ctx.strokeStyle = colourOf('surface');
      ctx.lineWidth = 1.5 * devicePixelRatio;
      ctx.stroke();
    }
    ctx.restore();
  }

  #read(u, shown) {
    if (u.cursor.left < 0) return;
    const time = u.posToVal(u.cursor.left, 'x');
    this.readout.replaceChildren(
        make('b', formatSeconds(time * 1e-9)), ' into the step: ', ...shown.map((point) => {
          const run = this.runs.get(point);
          const i = run.pointAt(run.lastStepBegin + time);
          return make(
              'span.reading', lineSwatch(this.points.indexOf(point)), ' ',
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


// The panel, and what draws it once it is in the page.
export function overlayPanel(points, load) {
  const overlay = new Overlay(points, load);
  const charted = overlay.points.length;
  const built = points.filter((point) => point.status !== 'error' && !point.sharesRun).length;
  const note = charted < built ?
      `The last step of each run, its peak marked. ${charted} of ${built} runs have charts. ` :
      'The last step of each run, its peak marked. ';
  return {
    element: panel(
        'Memory over time', `${note}Drag to zoom, double-click to go back.`, overlay.choices,
        overlay.box, overlay.readout),
    show: () => overlay.build()
  };
}
