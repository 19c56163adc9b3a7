// A figure over one key, a line for each value of another one.
import {empty, make} from './dom.js';
import {fits} from './fronts.js';
import {bestOf} from './keys.js';
import {kLineColours, lineColour} from './overlay.js';
import {markSwatch, scatterPlot} from './scatter.js';
import {formatBytes} from './units.js';

const kPlaces = 100;  // along the axis; of more values neighbours share one

// Where the values of a key lie, their marks, and what the axis is called.
function axisOf(key, groups) {
  const {places, ofNumbers, logarithmic} = key.scale();
  const ofAll =
      groups.first.map((value) => 1 + places[value] * Math.max(groups.first.length - 1, 1));
  return {
    places: ofAll,
    ticks: ofAll.map((at, k) => ({at, text: groups.texts[k]})),
    ofNumbers,
    title: logarithmic ? `${key.key} (logarithmic)` : key.key
  };
}

// The capacity that all points share; null where there are several.
function capacityOf(points) {
  const known = new Set(
      points.filter((point) => point.status !== 'error').map((point) => point.memory.capacity));
  return known.size === 1 ? [...known][0] : null;
}

// `by` null: one line.
export function sweptLines({points, x, by, figure, open}) {
  const groups = x.groups(kPlaces);
  const axis = axisOf(x, groups);
  const series = (by ? by.values : [{text: 'best'}]).map(() => groups.first.map(() => []));
  for (const point of points)
    series[by ? by.of(point) : 0][groups.groupOf(point)].push(point);
  const marks = [];
  const lines = [];
  const entries = [];
  series.slice(0, kLineColours).forEach((places, k) => {
    const found = [];
    places.forEach((list, at) => {
      const point = bestOf(list, figure);
      if (point === null) return;
      const value = figure.of(point);
      const name = by ? `${by.name} ${by.values[k].text}, ` : '';
      found.push({
        x: axis.places[at],
        y: value,
        point,
        shape: k,
        colour: lineColour(k),
        hollow: !fits(point),
        opens: true,
        title: `${name}${x.name} ${groups.texts[at]}: ${figure.text(value)}${
            fits(point) ? '' : ', does not fit'} (${point.label})`
      });
    });
    if (found.length === 0) return;
    marks.push(...found);
    lines.push({points: found, colour: lineColour(k)});
    const {text} = by?.values[k] ?? {};
    const words = by?.numeric ? `${by.name} ${text}` : text;
    if (by) entries.push(make('li', markSwatch(lineColour(k), k), words));
  });
  const out = series.length - kLineColours;
  const capacity = figure.kind === 'bytes' ? capacityOf(points) : null;
  const notes = [
    groups.each > 1 ? 'Neighbouring values share a mark, which stands at the first of them.' : '',
    out > 0 ? `${out} more values of ${by.name} have no line: filter or choose another key.` : ''
  ];
  return {
    element: marks.length === 0 ?
        empty('No point has this figure.') :
        make(
            'div', scatterPlot({
              marks,
              lines,
              xOf: 'places',
              xTicks: axis.ticks,
              yOf: figure.kind,
              xTitle: axis.title,
              yTitle: figure.name,
              level: capacity === null ? undefined :
                                         {y: capacity, label: `capacity ${formatBytes(capacity)}`},
              open: (mark) => open(mark.point)
            }),
            entries.length ? make('ul.legend', entries) : null),
    note: notes.filter((note) => note !== '').join(' ')
  };
}
