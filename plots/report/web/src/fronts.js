// Points against each other: peak against time, overhead against budget.
import {colourOf, empty, make, panel} from './dom.js';
import {kLineColours, lineColour} from './overlay.js';
import {markSwatch, scatterPlot} from './scatter.js';
import {formatBytes, formatCount, formatSeconds} from './units.js';

const kManyMarks = 1000;  // beyond, those that would lie on others are left out
const kManyNames = 50;
const kMostBudgetLines = 8;  // of a sweep: beyond, its other keys are what lines are told apart by

export const fits = (point) => point.status === 'fits';
export const statusOf = (point) =>
    (fits(point) ? 'fits' : point.status === 'error' ? 'error' : 'does not fit');

// The device memory of a run, or what a comparison holds against its budgets: the live peak.
const sizeOf = (point) => (point.compare ? point.memory.peak_live : point.memory.device_needed);

// Time of a step, or the cost of a schedule of a cost graph, which has a nanosecond for each unit.
export function formatCost(point, summary) {
  return summary.compare?.cost_graph ? formatCount(point.time.step * 1e9) :
                                       formatSeconds(point.time.step);
}

// The time by which points are compared: of a step, of a sample or of 1000 tokens.
const timeOf = (point) => point.time.compared;

// Points that no other one beats in both memory and time, by memory.
export function paretoFront(points) {
  const sorted =
      points.filter((point) => fits(point) && timeOf(point) !== null).sort((a, b) => sizeOf(a) - sizeOf(b) || timeOf(a) - timeOf(b));
  const front = [];
  for (const point of sorted) {
    const last = front[front.length - 1];
    const equal = last && timeOf(point) === timeOf(last) && sizeOf(point) === sizeOf(last);
    if (!last || equal || timeOf(point) < timeOf(last)) front.push(point);
  }
  return front;
}

// The devices of a sweep, where it changes them: {names, of(point)}. Sizes of their memory alone
// make no other device. Of many, the last place is shared.
function devicesOf(points) {
  const keys = new Set();
  for (const {overrides = {}} of points) {
    for (const key of Object.keys(overrides))
      if (/^hardware(\.|$)/.test(key) && !key.endsWith('capacity')) keys.add(key);
  }
  const nameOf = ({settings = {}}) =>
      [...keys].map((key) => settings[key] ?? 'as given').join(', ');
  const names = [...new Set(points.map(nameOf))];
  if (names.length < 2) return null;
  const shown = names.length > kLineColours ? names.slice(0, kLineColours - 1) : names;
  const places = new Map(shown.map((name, k) => [name, k]));
  return {
    names: names.length > shown.length ? [...shown, `${names.length - shown.length} others`] :
                                         shown,
    of: (point) => places.get(nameOf(point)) ?? shown.length
  };
}

// Of very many marks those that would lie on others are left out; those on a front always stay.
function withoutCovered(marks) {
  if (marks.length <= kManyMarks) return marks;
  const [lowX, lowY] = ['x', 'y'].map((of) => Math.min(...marks.map((mark) => mark[of])));
  const [highX, highY] = ['x', 'y'].map((of) => Math.max(...marks.map((mark) => mark[of])));
  const cell = (value, low, high, cells) => Math.floor((value - low) / (high - low || 1) * cells);
  const taken = new Set();
  return marks.filter((mark) => {
    const place = `${cell(mark.x, lowX, highX, 160)} ${cell(mark.y, lowY, highY, 50)} ${mark.hollow} ${
        mark.shape ?? 0}`;
    const free = !taken.has(place);
    taken.add(place);
    return free || mark.onFront;
  });
}

export function paretoPanel(summary, open) {
  // What is over one budget may still be within a larger one, and then it is a point of its own.
  const kept = new Set(summary.points.filter(fits).map((point) => point.run));
  const built = summary.points.filter(
      (point) => point.status !== 'error' && !point.sharesRun && sizeOf(point) > 0 &&
          timeOf(point) !== null);
  const works = (point) => fits(point) || kept.has(point.run);
  const compared = summary.compare !== undefined;
  const devices = compared ? null : devicesOf(built);
  // A front for each device.
  const fronts = (devices?.names ?? ['']).map(
      (_, k) => paretoFront(
          devices ? built.filter((point) => devices.of(point) === k) : summary.points));
  const front = new Set(fronts.flat().map((point) => point.run));
  const capacity = built[0]?.memory.capacity;
  const oneCapacity =
      !compared && built.every((point) => point.memory.capacity === built[0].memory.capacity);
  const inkOf = (point) =>
      (devices              ? lineColour(devices.of(point)) :
           front.has(point.run) ? colourOf('accent') :
                                  colourOf('faint'));
  const all = built.map(
      (point) => ({
        x: sizeOf(point),
        y: timeOf(point) * 1e9,
        label: point.label,
        point,
        colour: inkOf(point),
        shape: devices?.of(point),
        faint: devices !== null && !front.has(point.run),
        hollow: !works(point),
        onFront: front.has(point.run),
        named: front.has(point.run) || built.length <= 6,
        title: `${point.label}: ${formatBytes(sizeOf(point))}, ${formatCost(point, summary)}` +
            (summary.compare?.cost_graph ? '' : ' a step') +
            (works(point) ? '' :
                 compared ? ' – over every budget' :
                            ' – does not fit'),
      }));
  all.sort((a, b) => a.onFront - b.onFront);  // the front comes last
  const marks = withoutCovered(all);
  if (marks.length > kManyNames) {  // points on one spot share a name
    const named = new Set();
    for (const mark of marks.filter((one) => one.named)) {
      mark.named = !named.has(`${mark.x} ${mark.y}`);
      named.add(`${mark.x} ${mark.y}`);
    }
  }
  const lines = fronts.map((points, k) => {
    const runs = new Set(points.map(({run}) => run));
    const places = built.filter(({run}) => runs.has(run))
                       .map((point) => ({x: sizeOf(point), y: timeOf(point) * 1e9}))
                       .sort((a, b) => a.x - b.x || b.y - a.y);
    return {points: places, colour: devices ? lineColour(k) : colourOf('accent'), stepped: true};
  });
  const entries =
      (devices?.names ?? []).map((name, k) => make('li', markSwatch(lineColour(k), k), name));
  const covered = all.length - marks.length;
  return panel(
      'Time against memory',
      compared ? 'One mark per plan; those on the line are not beaten in both. Hollow: keeps no ' +
              'budget.' :
                 `One mark per point; those on ${
                     devices ? 'the line of their device' : 'the line'} are not beaten in both${
                     devices ? ' there' : ''}. Hollow: does not ` +
              `fit (as it would be with enough memory). Click to open.${
                  covered ? ` ${formatCount(covered)} marks that would lie on others are left out.` :
                            ''}`,
      marks.length ? scatterPlot({
        marks,
        lines,
        xOf: 'bytes',
        yOf: summary.compare?.cost_graph ? 'number' : 'time',
        xTitle: compared ? 'live bytes at the peak' : 'memory of the device',
        yTitle: summary.compare?.cost_graph ? 'cost' : `time of ${summary.time_of}`,
        limit: oneCapacity ? {x: capacity, label: `capacity ${formatBytes(capacity)}`} : undefined,
        open: (mark) => open(mark.point)
      }) :
                     empty('No point could be built.'),
      entries.length ? make('ul.legend', entries) : null);
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

// Points of a sweep whose settings limit memory: {title, note, asked, series}; of each series the
// name and its places {x, y, point}. Null where no setting does, and where so many other settings
// differ that no one could tell their lines apart.
function sweptBudgets(points) {
  const key = budgetKey(points);
  if (key === null) return null;
  const built = points.filter(
      (point) => key in point.overrides && point.status !== 'error' && timeOf(point) !== null);
  const fastest = Math.min(...built.filter(fits).map(timeOf));
  const series = new Map();
  for (const point of built) {
    const others = Object.entries(point.overrides).filter(([name]) => name !== key);
    const name = others.map(([word]) => point.settings[word]).join(', ') || 'this scenario';
    if (!series.has(name)) series.set(name, []);
    if (!fits(point)) continue;
    series.get(name).push(
        {x: parseBytes(point.overrides[key]), y: (timeOf(point) / fastest - 1) * 100, point});
  }
  const drawn = [...series.values()].filter((places) => places.length > 0).length;
  if (drawn > kMostBudgetLines) return null;
  return {title: key, over: 'the fastest point', asked: built.length, series};
}

// Policies of a comparison against its budgets, over the run without policies.
function comparedBudgets({points, compare}) {
  const asked = points.filter((point) => point.compare.budget !== null);
  if (asked.length === 0) return null;
  const series = new Map();
  for (const point of asked) {
    const {policies, budget, overhead} = point.compare;
    if (!series.has(policies)) series.set(policies, []);
    if (!fits(point) || overhead === null) continue;
    series.get(policies).push({x: budget, y: overhead * 100, point});
  }
  return {
    title: 'budget of live bytes',
    over: compare.cost_graph ? 'computing everything once' : 'the step without policies',
    asked: asked.length,
    series,
    least: compare.least
  };
}

export function budgetPanel(summary, open) {
  const found = summary.compare ? comparedBudgets(summary) : sweptBudgets(summary.points);
  if (found === null) return null;
  const marks = [];
  const lines = [];
  const entries = [];
  [...found.series.entries()].forEach(([name, places], k) => {
    if (places.length === 0) return;
    places.sort((a, b) => a.x - b.x);
    // Each time that colours come again they have other shapes: all of them, as seven is prime.
    const shape = k % kLineColours + 2 * Math.floor(k / kLineColours);
    lines.push({points: places, colour: lineColour(k)});
    entries.push(make('li', markSwatch(lineColour(k), shape), name));
    for (const place of places) {
      marks.push({
        ...place,
        shape,
        colour: lineColour(k),
        title: `${name} in ${formatBytes(place.x)}: ${percent(place.y)} more time`
      });
    }
  });
  const bars = [];
  if (found.least) {
    for (const [x, share] of found.least.points)
      bars.push({x, y: share * 100, label: `at least ${percent(share * 100)}`});
    entries.push(
        make('li', make('span.line.least'), `least that is proven, class ${found.least.class}`));
  }
  const missing = found.asked - marks.length;
  const kept = summary.compare ? 'keep their budget' : 'fit';
  return panel(
      'Overhead against budget',
      `Time beyond ${found.over}${
          missing === 0     ? '' :
              missing === 1 ? `; one point that does not ${
                                  summary.compare ? 'keep its budget' : 'fit'} is left out` :
                              `; ${missing} points that do not ${kept} are left out`}.`,
      marks.length ? scatterPlot({
        marks,
        lines,
        bars,
        xOf: 'bytes',
        yOf: 'percent',
        xTitle: found.title,
        yTitle: 'more time',
        open: (mark) => open(mark.point)
      }) :
                     empty('No point keeps its budget.'),
      make('ul.legend', entries));
}

export function percent(value) {
  const size = Math.abs(value);
  if (size > 0 && size < 0.005) return `< ${value < 0 ? '−' : ''}0.01 %`;
  return `${value.toFixed(size >= 9.95 || size === 0 ? 0 : size >= 0.995 ? 1 : 2)} %`;
}
