// Where the time of the last step goes: kernels of the compute stream by kind and by layer.
import {make} from './dom.js';
import {formatCount, formatShare, formatTime} from './units.js';

const kRows = 12;

// "h.*.mlp" of "h.3.mlp": the name that repeated layers have in common.
const patternOf = (layer) => layer.replace(/(^|\.)\d+(?=\.|$)/, '$1*');

// {operators, layers}: lists of {name, count, time, again} in nanoseconds, longest first; `busy` is
// the sum of each.
export function timeTerms(run) {
  const c = run.columns;
  const lastStep = run.description.steps - 1;
  const count = c['operator.name'].length;
  const [kernels, time, again] = Array.from({length: 3}, () => new Float64Array(count));
  const [stream, kind, place, duration, restored] =
      ['stream', 'kind', 'position', 'duration', 'restored'].map((name) => c[`work.${name}`]);
  const [step, operator, recompute] =
      ['step', 'operator', 'recompute'].map((name) => c[`position.${name}`]);
  for (let i = 0; i < kind.length; ++i) {
    const position = place[i];
    if (stream[i] !== 0 || kind[i] !== 0 || step[position] !== lastStep) continue;
    const of = operator[position];
    ++kernels[of];
    time[of] += duration[i];
    again[of] += recompute[position] === 1 ? duration[i] : restored[i];
  }
  const operators = new Map();
  const layers = new Map();
  let busy = 0;
  const add = (terms, name, of) => {
    let term = terms.get(name);
    if (!term) terms.set(name, term = {name, count: 0, time: 0, again: 0});
    term.count += kernels[of];
    term.time += time[of];
    term.again += again[of];
  };
  for (let of = 0; of < count; ++of) {
    if (kernels[of] === 0) continue;
    const layer = c['operator.layer'][of];
    add(operators, run.operatorName(of), of);
    add(layers, layer > 0 ? patternOf(run.layers[layer - 1][0]) : 'no layer', of);
    busy += time[of];
  }
  const sorted = (terms) => [...terms.values()].sort((a, b) => b.time - a.time);
  return {operators: sorted(operators), layers: sorted(layers), busy};
}

function tableOf(title, terms, busy, step) {
  const shown = terms.length <= kRows + 1 ? terms : terms.slice(0, kRows);
  const others = terms.slice(shown.length);
  const sum = (of) => others.reduce((total, term) => total + of(term), 0);
  const rows = [...shown];
  if (others.length > 0) {
    rows.push({
      name: `${others.length} others`,
      count: sum((term) => term.count),
      time: sum((term) => term.time),
      again: sum((term) => term.again)
    });
  }
  const most = Math.max(...rows.map((row) => row.time), 1);
  const row = ({name, count, time, again}) => make(
      'tr', make('td.name', name), make('td.right', formatCount(count)),
      make('td.right', formatTime(time)), make('td.right', formatShare(time, step)),
      make('td.right', again > 0 ? formatTime(again) : '–'),
      make('td.bar', make('span', {style: `width:${(time / most * 100).toFixed(1)}%`})));
  const idle = step - busy;
  return make(
      'div.scroll',
      make(
          'table.figures',
          make(
              'thead',
              make(
                  'tr', make('th', title), make('th.right', 'kernels'), make('th.right', 'time'),
                  make('th.right', 'of the step'), make('th.right', 'recomputed'),
                  make('th.bar', ''))),
          make('tbody', rows.map(row)),
          make(
              'tfoot',
              idle > 0 ? make(
                             'tr', make('td', 'no kernel runs'), make('td'),
                             make('td.right', formatTime(idle)),
                             make('td.right', formatShare(idle, step)), make('td'), make('td')) :
                         null,
              make(
                  'tr', make('th', 'step'), make('th'), make('th.right', formatTime(step)),
                  make('th'), make('th'), make('th')))));
}

export function timeTables(run) {
  const {operators, layers, busy} = timeTerms(run);
  const step = run.point.time.step * 1e9;
  return make(
      'div.columns.times', make('div', tableOf('kind of kernel', operators, busy, step)),
      make('div', tableOf('layer, those that repeat together', layers, busy, step)));
}
