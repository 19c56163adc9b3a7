// A matrix of policies and layers: the outcome of each value that a layer saves for backward.
import {make, panel} from './dom.js';
import {layerRows} from './tables.js';
import {formatBytes} from './units.js';

// Decisions: the letter of a cell, its class and the bytes of a row that it is about.
const kDecisions = [
  {letter: 'K', name: 'keep', verb: 'keeps', bytes: (row) => row.kept},
  {letter: 'R', name: 'recompute', verb: 'recomputes', bytes: (row) => row.again},
  {letter: 'O', name: 'offload', verb: 'offloads', bytes: (row) => row.moved},
  {letter: 'E', name: 'evict', verb: 'evicts', bytes: (row) => row.evicted},
];
const kShared = 0.02;  // of a layer's bytes: less is not worth a letter

// What is decided about a layer, most bytes first: [{decision, bytes}, ...].
export function decisionsOf(row) {
  const found = kDecisions.map((decision) => ({decision, bytes: decision.bytes(row)}))
                    .filter(({bytes}) => bytes > 0);
  const sum = found.reduce((total, {bytes}) => total + bytes, 0);
  return found.filter(({bytes}) => bytes >= kShared * sum).sort((a, b) => b.bytes - a.bytes);
}

function cellOf(row, layer) {
  const found = row ? decisionsOf(row) : [];
  if (found.length === 0) return make('td', {title: `${layer}: saves nothing`}, '');
  const words = found.map(({decision, bytes}) => `${decision.verb} ${formatBytes(bytes)}`);
  return make(
      `td.${found[0].decision.name}`, {title: `${layer}: ${words.join(', ')}`},
      found.map(({decision}) => decision.letter).join(''));
}

function tableOf(points, runs) {
  const columns = new Map();  // by key: the name of a layer
  const rows = runs.map((run) => {
    const byLayer = new Map();
    for (const row of layerRows(run)) {
      if (decisionsOf(row).length === 0) continue;
      byLayer.set(row.key, row);
      if (!columns.has(row.key)) columns.set(row.key, {name: row.name ?? 'no layer', order: row.order});
    }
    return byLayer;
  });
  const layers = [...columns].sort((a, b) => a[1].order - b[1].order);
  return make(
      'table.matrix',
      make(
          'thead',
          make('tr', make('th'), layers.map(([, {name}]) => make('th.layer', make('span', name))))),
      make(
          'tbody',
          points.map(
              (point, k) => make(
                  'tr', make('th.policy', point.label),
                  layers.map(([key, {name}]) => cellOf(rows[k].get(key), name))))));
}

// `load(point)` gives the Run of one with charts. The panel is filled when it comes into sight.
export function matrixPanel(points, load) {
  const charted = points.filter((point) => point.charts);
  if (charted.length < 2) return null;
  const box = make('div.scroll');
  let filled = null;
  const fill = () => (filled ??= (async () => {
    const runs = [];
    for (const point of charted)
      runs.push(await load(point));
    box.replaceChildren(tableOf(charted, runs));
  })());
  new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) fill();
  }, {rootMargin: '400px 0px'}).observe(box);
  const legend = kDecisions.map(
      ({letter, name}) => make('li', make(`span.decision.${name}`, letter), name));
  return {
    element: panel(
        'What policies do, layer by layer',
        'The outcome of what each layer saves for backward in the last step; of several letters ' +
            'the first stands for most bytes. Point at a cell for the bytes.',
        box, make('ul.legend', legend)),
    show: fill
  };
}
