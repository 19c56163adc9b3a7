// Why one peak is larger than another: every term of both, and their differences.
import {make, panel} from './dom.js';
import {knowsBeyondLive, peakTerms, termSwatch} from './tables.js';
import {formatBytes} from './units.js';

const kShown = 12;  // layers and tensors that differ; the others together

const signed = (bytes) =>
    (bytes === 0 ? '±0' : `${bytes > 0 ? '+' : '−'}${formatBytes(Math.abs(bytes))}`);

// `terms`: [{label, a, b, colour}, ...] in bytes; the last line is their sum.
function termsTable(title, terms, sum, summary) {
  const most = Math.max(...terms.map(({a, b}) => Math.abs(b - a)), 1);
  const total = (side) => terms.reduce((bytes, term) => bytes + term[side], 0);
  const [a, b] = [total('a'), total('b')];
  return make(
      'table.figures.terms',
      make(
          'thead',
          make(
              'tr', make('th', title), make('th.right', 'A'), make('th.right', 'B'),
              make('th.right', 'B − A'), make('th', ''))),
      make(
          'tbody',
          terms.map(
              ({label, a: x, b: y, colour, hatch}) => make(
                  'tr', make('td', colour ? termSwatch({colour, hatch}, summary) : null, label),
                  make('td.right', formatBytes(x)), make('td.right', formatBytes(y)),
                  make('td.right', signed(y - x)),
                  make('td.bar', y === x ? null : make('span', {
                         style: `width:${
                             (Math.abs(y - x) / most * 100).toFixed(1)}%;background:var(--${
                             y > x ? 'bad' : 'good'})`
                       }))))),
      make(
          'tfoot',
          make(
              'tr', make('th', sum), make('th.right', formatBytes(a)),
              make('th.right', formatBytes(b)), make('th.right', signed(b - a)), make('th'))));
}

// What the device holds, in the order of either; what only B has comes after what it follows there.
function deviceTerms(a, b, summary) {
  const inDetail = knowsBeyondLive(a) && knowsBeyondLive(b);
  const [left, right] = [peakTerms(a, summary, inDetail), peakTerms(b, summary, inDetail)];
  const labels = left.map((term) => term.label);
  right.forEach(({label}, k) => {
    if (labels.includes(label)) return;
    labels.splice(k === 0 ? 0 : labels.indexOf(right[k - 1].label) + 1, 0, label);
  });
  const bytesOf = (terms, label) => terms.find((term) => term.label === label)?.bytes ?? 0;
  return labels.map((label) => ({
                      label,
                      a: bytesOf(left, label),
                      b: bytesOf(right, label),
                      colour: [...left, ...right].find((term) => term.label === label).colour,
                      hatch: [...left, ...right].find((term) => term.label === label).hatch
                    }));
}

// "h.*.attn" of "h.3.attn": what repeated layers have in common.
const patternOf = (layer) => layer.replace(/(^|\.)\d+(?=\.|$)/, '$1*');

// What is live at the peaks of two runs, together where `labelOf(block)` is the same: largest
// differences first.
function liveTerms(a, b, labelOf) {
  const terms = new Map();
  for (const [side, run] of [['a', a], ['b', b]]) {
    for (const allocation of run.liveAt(run.peak)) {
      const block = run.describeBlock(run.blockOf(allocation));
      const label = labelOf(block, run.summary.roles);
      if (!terms.has(label)) terms.set(label, {label, a: 0, b: 0});
      terms.get(label)[side] += block.bytes;
    }
  }
  const size = (term) => Math.abs(term.b - term.a);
  const sorted = [...terms.values()].sort((x, y) => size(y) - size(x) || y.b - x.b);
  const differ = sorted.filter((term) => size(term) > 0).length;
  const others = sorted.slice(Math.min(differ, kShown));
  if (others.length === 0) return sorted;
  const sum = (side) => others.reduce((bytes, term) => bytes + term[side], 0);
  return [...sorted.slice(0, sorted.length - others.length), {label: 'all others', a: sum('a'), b: sum('b')}];
}

const layerOf = ({layer}) => patternOf(layer) || '(no layer)';

function tensorOf({name, layer, role, madeBy}, roles) {
  const own = layer && name.startsWith(`${layer}.`) ? name.slice(layer.length + 1) : name;
  const made = madeBy && madeBy !== own ? ` of ${madeBy}` : '';
  return `${layer ? `${patternOf(layer)}: ` : ''}${own}${made} (${roles[role].label})`;
}

// `load(point)` gives the Run of one that has charts: of two such runs it also says which layers
// and tensors differ.
export function differencePanel(points, summary, load) {
  // Of very many points only those with charts have their terms in the page.
  const built =
      points.filter((point) => point.status !== 'error' && !point.sharesRun && point.memory.peak);
  if (built.length < 2) return null;
  const others = points.some((point) => point.status !== 'error' && !point.memory.peak);
  const charted = built.filter((point) => point.charts);
  const [first, second] = charted.length < 2 ? built : charted;
  const select = (chosen, label) => make(
      'select', {'aria-label': label, onchange: () => draw()},
      built.map(
          (point, k) =>
              make('option', {value: String(k), selected: point === chosen}, point.label)));
  const [from, to] = [select(first, 'first run'), select(second, 'second run')];
  const device = make('div.scroll');
  const live = make('div.scroll');
  let turn = 0;
  const draw = async () => {
    const asked = ++turn;
    const [a, b] = [built[from.value], built[to.value]];
    device.replaceChildren(termsTable('at the peak', deviceTerms(a, b, summary), 'of the device', summary));
    live.replaceChildren();
    if (!a.charts || !b.charts) return;
    const [runA, runB] = [await load(a), await load(b)];
    if (asked !== turn || runA.count === 0 || runB.count === 0) return;
    live.replaceChildren(
        termsTable('by layer', liveTerms(runA, runB, layerOf), 'live at the peak'),
        termsTable(
            'by tensor, those alike together', liveTerms(runA, runB, tensorOf),
            'live at the peak'));
  };
  const element = panel(
      'What makes the difference',
      `Every term of two peaks; the terms of each add up to its total.${
          others ? ' Of so many points only those with charts have their terms in the page.' : ''}`,
      make('p.pair', make('label', 'A ', from), make('label', 'B ', to)), device, live);
  return {element, show: draw};
}
