// Several points: their runs over each other, who is best, what differs, and all of them as a
// table.
import {differencePanel} from './difference.js';
import {make, panel} from './dom.js';
import {budgetPanel, fits, formatCost, paretoPanel, percent} from './fronts.js';
import {figuresOf, sweptKeys} from './keys.js';
import {matrixPanel} from './matrix.js';
import {overlayPanel} from './overlay.js';
import {PointsTable} from './points_table.js';
import {Selection} from './selection.js';
import {sweptPanel} from './swept.js';
import {formatBytes, formatCount, formatSeconds} from './units.js';

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

// The panels of a sweep: its figures over the keys, and all of its points.
function sweepPanels(summary, open) {
  const keys = sweptKeys(summary.points);
  const figures = figuresOf(summary);
  const selection = summary.chosen.selection ??= new Selection();
  selection.listeners = [];  // those of a page that was made before
  const table = new PointsTable(summary, keys, figures, selection, open);
  return {
    swept: sweptPanel(summary, keys, figures, selection, open),
    table: panel(
        `All ${formatCount(summary.points.length)} points`,
        'Click on a head to sort, on a row for its charts, or for the command that draws them.',
        table.element)
  };
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
  summary.chosen ??= {};  // stays when the page is made anew in other colours
  const sweep = compare ? null : sweepPanels(summary, open);
  const element = make(
      'div.page', overlay?.element, sweep?.swept,
      make('div.columns.even', paretoPanel(summary, open), budgetPanel(summary, open)), sweep?.table,
      matrix?.element, difference?.element,
      compare ? panel('Policies against budgets', base, comparedTable(summary, open)) : null);
  const show = () => {
    difference?.show();
    return overlay?.show();
  };
  return {element, show};
}
