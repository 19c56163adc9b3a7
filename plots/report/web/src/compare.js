// Several points: their runs over each other, who is best, what differs, and all of them as a
// table.
import {differencePanel} from './difference.js';
import {make, panel} from './dom.js';
import {budgetPanel, fits, formatCost, paretoFront, paretoPanel, percent} from './fronts.js';
import {matrixPanel} from './matrix.js';
import {overlayPanel} from './overlay.js';
import {formatBytes, formatCount, formatRate, formatSeconds, formatShare} from './units.js';

function pointsTable(summary, open) {
  const {points} = summary;
  const front = new Set(paretoFront(points));
  const ofTokens = points.every((point) => !fits(point) || point.throughput.tokens_per_second > 0);
  const rate = ofTokens ? 'tokens_per_second' : 'samples_per_second';
  const keys = [...new Set(points.flatMap((point) => Object.keys(point.overrides ?? {})))];
  const rows = points.map((point, k) => {
    const cells = [
      make('td.right', String(k + 1)),
      make(
          'td.name',
          point.opens ?
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
            fits(point) && point.throughput[rate] > 0 ? formatRate(point.throughput[rate]) : '–'),
        make('td.keep', front.has(point) ? 'on the front' : ''));
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
                  make('th.right', ofTokens ? 'tokens/s' : 'samples/s'), make('th', ''))),
          make('tbody', rows)));
}

// Policies against budgets, as `tidemark compare` prints them.
function comparedTable(summary, open) {
  const {points} = summary;
  const cost = summary.compare.cost_graph;
  const figure = (share) => make('td.right', share === null ? '–' : percent(share * 100));
  const rows = points.map((point) => {
    const {policies, budget, overhead, lower_bound_overhead: least, gap, reason} = point.compare;
    const said = [
      make(
          'td.name',
          point.opens ?
              make('button.link', {type: 'button', onclick: () => open(point)}, policies) :
              policies),
      make('td.right', budget === null ? '–' : formatBytes(budget))
    ];
    if (point.status === 'error') {
      return make(
          'tr', said, make('td', make('span.badge.bad', 'error')),
          make('td', {colspan: '7'}, reason));
    }
    const found = point.memory.peak_live > 0;
    const word = fits(point) ? 'kept' : point.status === 'out_of_memory' ? 'no room' : 'not kept';
    return make(
        'tr', said, make('td', make(`span.badge.${fits(point) ? 'good' : 'bad'}`, word)),
        make('td.right', found ? formatBytes(point.memory.peak_live) : '–'),
        make('td.right', overhead === null ? '–' : formatCost(point, summary)), figure(overhead),
        figure(least), figure(gap), make('td.keep', point.compare.pareto ? 'on the front' : ''),
        make('td.reason', fits(point) ? '' : reason));
  });
  return make(
      'div.scroll.tall',
      make(
          'table.figures',
          make(
              'thead',
              make(
                  'tr', make('th', 'policies'), make('th.right', 'budget'), make('th', ''),
                  make('th.right', 'peak live'), make('th.right', cost ? 'cost' : 'step'),
                  make('th.right', {title: 'time beyond that without policies'}, 'overhead'),
                  make(
                      'th.right', {title: 'the least overhead that is proven for this budget'},
                      'at least'),
                  make('th.right', {title: 'of the plan over its bound'}, 'gap'), make('th', ''),
                  make('th', ''))),
          make('tbody', rows)));
}

// `load(point)` gives its Run, `open(point)` shows it.
export function comparePage(summary, load, open) {
  const {points, compare} = summary;
  const overlay = points.some((point) => point.charts) ? overlayPanel(points, load) : null;
  const matrix = compare?.cost_graph ? null : matrixPanel(points, load);
  const difference = compare?.cost_graph ? null : differencePanel(points, summary, load);
  const base = compare ?
      `Without policies ${formatBytes(compare.base.peak_live)} live at the peak, ${
          compare.cost_graph ? `cost ${formatCount(compare.base.step * 1e9)}` :
                               `a step of ${formatSeconds(compare.base.step)}`}.` :
                               null;
  const element = make(
      'div.page', overlay?.element,
      make('div.columns.even', paretoPanel(summary, open), budgetPanel(summary, open)),
      matrix?.element, difference?.element,
      compare ? panel('Policies against budgets', base, comparedTable(summary, open)) :
                panel(`All ${points.length} points`, null, pointsTable(summary, open)));
  const show = () => {
    difference?.show();
    return overlay?.show();
  };
  return {element, show};
}
