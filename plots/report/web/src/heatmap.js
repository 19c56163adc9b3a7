// Two keys against each other: a cell for each pair of values, coloured by a figure.
import {make, Tooltip} from './dom.js';
import {fits} from './fronts.js';
import {bestOf} from './keys.js';
import {scaleOf, shadeOf, shadesBar} from './shades.js';

const kMost = 60;        // columns and rows; of more values neighbours share one
const kLegible = 62;     // width of a cell that has room for a figure
const kHeadWidth = 150;  // of the names of rows

// The best point of each cell, by row and column.
function cellsOf(points, x, y, figure) {
  const [columns, rows] = [x.groups(kMost), y.groups(kMost)];
  const grid = rows.texts.map(() => columns.texts.map(() => []));
  for (const point of points)
    grid[rows.groupOf(point)][columns.groupOf(point)].push(point);
  return {columns, rows, cells: grid.map((row) => row.map((list) => bestOf(list, figure)))};
}

let tooltip = null;

function describe(point, figure, figures) {
  return [
    make('div.when', point.label), make('div.where', fits(point) ? 'fits' : 'does not fit'),
    ...figures.filter((one) => one.of(point) !== null)
        .map(
            (one) => make(
                'div.band', `${one.name}: `,
                one === figure ? make('b', one.text(one.of(point))) : one.text(one.of(point))))
  ];
}

// `use(point)` opens it or says how to draw it.
export function heatmap({points, x, y, figure, figures, use}) {
  tooltip ??= new Tooltip();
  const {columns, rows, cells} = cellsOf(points, x, y, figure);
  const found = cells.flat().filter((point) => point !== null);
  const values = found.map(figure.of);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const best = bestOf(found, figure);
  const scale = scaleOf(low, high);
  const cellOf = (point, r, c) => {
    const place = `${y.name} ${rows.texts[r]}, ${x.name} ${columns.texts[c]}`;
    if (point === null)
      return make('td.none', {tabindex: '-1', 'aria-label': `${place}: no figure`});
    const {ground, ink} = shadeOf(scale.share(figure.of(point)));
    const kind = `${fits(point) ? '' : '.unfit'}${point === best ? '.best' : ''}`;
    const cell = make(
        `td${kind}`, {
          tabindex: '-1',
          style: `background-color:${ground};color:${ink}`,
          'aria-label':
              `${place}: ${figure.text(figure.of(point))}${fits(point) ? '' : ', does not fit'}`
        },
        make('span', {style: `background-color:${ground}`}, figure.text(figure.of(point))));
    cell.point = point;
    return cell;
  };
  const body = make(
      'tbody',
      cells.map(
          (row, r) => make(
              'tr', make('th.row', {scope: 'row', title: rows.texts[r]}, rows.texts[r]),
              row.map((point, c) => cellOf(point, r, c)))));
  const table = make(
      'table.heat',
      make(
          'thead',
          make('tr', make('th'), make('th.axis', {colspan: String(columns.texts.length)}, x.name)),
          make(
              'tr', make('th.axis.row', y.name),
              columns.texts.map(
                  (text) => make('th.column', {scope: 'col', title: text}, make('span', text))))),
      body);
  listen(table, body, (point) => describe(point, figure, figures), use);
  const box = make('div.scroll.heat-box', table);
  new ResizeObserver(() => {
    const width = (box.clientWidth - kHeadWidth) / columns.texts.length;
    table.classList.toggle('dense', width < kLegible);
  }).observe(box);
  const shared = Math.max(columns.each, rows.each) > 1;
  const legend = found.length === 0 ?
      null :
      make(
          'ul.legend',
          make(
              'li', figure.text(low), make('span.shades', {style: `background:${shadesBar()}`}),
              figure.text(high), scale.words),
          make('li', make('span.swatch.best-cell'), 'best'),
          found.some((point) => !fits(point)) ?
              make('li', make('span.swatch.unfit-cell'), 'does not fit') :
              null);
  return {
    element: make('div', box, legend),
    note: shared ? 'Neighbouring values share a cell, which is named by the first of them.' : ''
  };
}

// Pointing, clicking, and arrow keys between cells.
function listen(table, body, words, use) {
  const cellAt = (event) => event.target.closest('td');
  const showAt = (cell, x, y) => {
    if (cell?.point)
      tooltip.show(x, y, ...words(cell.point));
    else
      tooltip.hide();
  };
  table.addEventListener(
      'pointermove', (event) => showAt(cellAt(event), event.clientX, event.clientY));
  table.addEventListener('pointerleave', () => tooltip.hide());
  table.addEventListener('click', (event) => {
    const cell = cellAt(event);
    if (!cell?.point) return;
    tooltip.hide();
    use(cell.point);
  });
  const first = body.querySelector('td');
  if (first) first.tabIndex = 0;
  table.addEventListener('focusin', (event) => {
    const cell = cellAt(event);
    if (!cell?.matches(':focus-visible')) return;
    const {left, bottom} = cell.getBoundingClientRect();
    showAt(cell, left, bottom);
  });
  table.addEventListener('focusout', () => tooltip.hide());
  table.addEventListener('keydown', (event) => {
    const cell = cellAt(event);
    if (!cell) return;
    const by = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [
                  1, 0
                ]}[event.key];
    if (event.key === 'Enter' && cell.point) use(cell.point);
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const next = body.rows[cell.parentNode.sectionRowIndex + by[0]]?.cells[cell.cellIndex + by[1]];
    if (next?.tagName !== 'TD') return;
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}
