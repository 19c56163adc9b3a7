// All points of a sweep as a table: a column per key and per figure, sorted by a click on a head,
// filtered by words and terms. Few rows are in the page at a time, so that many points do not slow
// it.
import {commandNote} from './command.js';
import {make} from './dom.js';
import {parseFilter} from './filter.js';
import {fits, paretoFront, statusOf} from './fronts.js';
import {formatCount, formatShare} from './units.js';

const kRows = 200;
const kMoreRows = 1000;
const kAtOnce = 60;
const kOneLine = 28;  // letters of a cell that is not broken into lines

// Columns: {id, head, title, right, value(point), cell(point), rank(point)}. What has a smaller
// rank comes first in both directions.
function columnsOf({points}, keys, figures) {
  const front = new Set(paretoFront(points));
  const named = points.some(({name}) => name !== points[0].name);
  const runs = keys.length === 0 || (named && keys.every(({key}) => key !== 'name'));
  const rank = (point) => (fits(point) ? 0 : 1);
  const [memory, ...others] = figures;
  const column = (figure) => ({
    id: figure.id,
    head: figure.name,
    title: figure.name,
    right: true,
    rank,
    value: figure.of,
    cell: (point) => (figure.of(point) === null ? '–' : figure.text(figure.of(point)))
  });
  return [
    {
      id: 'number',
      head: '#',
      title: 'number of the point',
      right: true,
      value: ({number}) => number
    },
    ...(runs ? [{
      id: 'run',
      head: 'run',
      title: 'name of the run',
      value: (point) => (keys.length ? point.name : point.label),
      cell: (point) => (keys.length ? point.name : point.label)
    }] :
               []),
    ...keys.map((key) => ({
                  id: key.key,
                  head: key.name,
                  title: key.key,
                  right: key.numeric,
                  value: (point) => key.of(point),
                  cell: (point) => key.text(point)
                })),
    {
      id: 'status',
      head: 'status',
      title: 'whether it fits its device',
      value: statusOf,
      cell: (point) => make(`span.badge.${fits(point) ? 'good' : 'bad'}`, statusOf(point))
    },
    column(memory), {
      id: 'used',
      head: 'used',
      title: 'share of the device\'s memory',
      right: true,
      rank,
      value: (point) =>
          (memory.of(point) === null ? null : memory.of(point) / point.memory.capacity),
      cell: (point) => formatShare(memory.of(point), point.memory.capacity)
    },
    ...others.map(column), {
      id: 'front',
      head: 'front',
      title: 'whether no other point beats it in both time and memory',
      value: (point) => (front.has(point) ? 0 : 1),
      cell: (point) => (front.has(point) ? 'on the front' : '')
    }
  ];
}

// `selection` is what ranges on axes leave of the points; `chosen` outlives the page's colours.
export class PointsTable {
  constructor(summary, keys, figures, selection, open) {
    this.summary = summary;
    this.keys = keys;
    this.figures = figures;
    this.selection = selection;
    this.open = open;
    this.columns = columnsOf(summary, keys, figures);
    this.chosen = summary.chosen.table ??=
        {by: 'number', down: false, text: '', fitsOnly: false, rows: kRows};
    this.asked = null;  // the point whose command is shown
    this.body = make('tbody');
    this.heads = this.columns.map(
        (column) => make(
            `th${column.right ? '.right' : ''}`, {scope: 'col'},
            make(
                'button.sorts', {
                  type: 'button',
                  title: `sort by ${column.title}`,
                  onclick: () => this.sort(column)
                },
                column.head)));
    this.more = make('button.link', {
      type: 'button',
      onclick: () => {
        this.chosen.rows += kMoreRows;
        this.#drawUpTo(this.chosen.rows);
      }
    });
    this.element = make(
        'div.points', this.#toolbar(),
        make(
            'div.scroll.tall',
            make('table.figures', make('thead', make('tr', this.heads)), this.body)),
        this.more);
    selection.listen(() => this.filter());
    this.filter();
  }

  #toolbar() {
    const example = this.keys.find(({numeric}) => numeric);
    this.count = make('span.quiet', {role: 'status'});
    this.clear = make(
        'button.tool', {type: 'button', onclick: () => this.selection.clear()}, 'Clear the ranges');
    return make(
        'div.toolbar', make('input', {
          type: 'search',
          value: this.chosen.text,
          placeholder: `Words, or terms as in ${
              example ? `${example.name}>=${example.values[0].text}` : 'memory<8GiB'} …`,
          title: 'All have to hold. KEY=VALUE, also with !=, <, <=, > and >=, of any column; ' +
              'quotes hold spaces together: policies="no policy".',
          'aria-label': 'Filter points',
          oninput: (event) => {
            this.chosen.text = event.target.value;
            this.filter();
          }
        }),
        make(
            'label.check', make('input', {
              type: 'checkbox',
              checked: this.chosen.fitsOnly,
              onchange: (event) => {
                this.chosen.fitsOnly = event.target.checked;
                this.filter();
              }
            }),
            'fits only'),
        this.clear, this.count);
  }

  // Of the same column once more: the other direction.
  sort({id}) {
    this.chosen.down = this.chosen.by === id && !this.chosen.down;
    this.chosen.by = id;
    this.chosen.rows = kRows;
    this.#order();
    this.draw();
  }

  filter() {
    const {points} = this.summary;
    const {text, fitsOnly} = this.chosen;
    const {test, wrong} = parseFilter(text, this.keys, this.figures);
    this.shown = points.filter(
        (point) => (!fitsOnly || fits(point)) && this.selection.holds(point) && test(point));
    this.clear.hidden = !this.selection.active;
    this.count.textContent =
        [
          this.shown.length === points.length ?
              '' :
              `${formatCount(this.shown.length)} of ${formatCount(points.length)} points`,
          ...wrong
        ].filter((words) => words !== '')
            .join('; ');
    this.#order();
    this.draw();
  }

  #order() {
    const {by, down} = this.chosen;
    const column = this.columns.find(({id}) => id === by);
    const sign = down ? -1 : 1;
    const values = this.shown.map(column.value);
    const words = [...new Set(values.filter((value) => typeof value === 'string'))].sort();
    const places = new Map(words.map((word, k) => [word, k]));
    const figures = Float64Array.from(values, (value) => sign * (places.get(value) ?? value ?? 0));
    const ranks = Uint8Array.from(
        this.shown, (point, k) => (values[k] === null ? 2 : column.rank?.(point) ?? 0));
    const order = Uint32Array.from(this.shown, (_, k) => k);  // of those that are equal
    order.sort((a, b) => ranks[a] - ranks[b] || figures[a] - figures[b] || a - b);
    this.sorted = Array.from(order, (k) => this.shown[k]);
  }

  // The rows in sight at once, the others in the next frame; all of them before it is in the page,
  // as paper does not wait.
  draw() {
    const {by, down, rows} = this.chosen;
    this.columns.forEach(({id}, k) => {
      this.heads[k].setAttribute(
          'aria-sort', id === by ? (down ? 'descending' : 'ascending') : 'none');
    });
    this.body.replaceChildren();
    this.drawn = 0;
    this.#drawUpTo(this.element?.isConnected ? Math.min(kAtOnce, rows) : rows);
    if (this.drawn < Math.min(rows, this.sorted.length))
      requestAnimationFrame(() => this.#drawUpTo(this.chosen.rows));
  }

  #drawUpTo(rows) {
    const list = document.createDocumentFragment();
    for (const point of this.sorted.slice(this.drawn, rows)) {
      list.append(this.#row(point));
      if (point === this.asked) list.append(this.#note(point));
    }
    this.body.append(list);
    this.drawn = Math.max(Math.min(rows, this.sorted.length), this.drawn);
    const left = this.sorted.length - this.chosen.rows;
    this.more.hidden = left <= 0;
    this.more.textContent =
        `${formatCount(Math.min(left, kMoreRows))} more of ${formatCount(left)} that are not shown`;
  }

  #note(point) {
    return make(
        'tr.note',
        make('td', {colspan: String(this.columns.length)}, commandNote(point, this.summary)));
  }

  #row(point) {
    const failed = point.status === 'error';
    const use = () => {
      if (point.opens) {
        this.open(point);
        return;
      }
      this.asked = this.asked === point ? null : point;
      for (const note of this.body.querySelectorAll('tr.note'))
        note.remove();
      if (this.asked) row.after(this.#note(point));
    };
    const button = make(
        'button.link', {
          type: 'button',
          title: point.opens ? 'open its charts' : 'the command that draws its charts',
          'aria-label': `${point.label}: ${point.opens ? 'open' : 'command'}`
        },
        String(point.number + 1));
    const cells = [];
    for (const {id, right, cell} of this.columns) {
      if (failed && id === 'memory') break;
      const content = id === 'number' ? button : cell(point);
      const long = typeof content === 'string' && content.length > kOneLine;
      cells.push(make(right ? 'td.right' : long ? 'td.name' : 'td.keep', content));
    }
    if (failed) {
      cells.push(make(
          'td.reason', {colspan: String(this.columns.length - cells.length)},
          point.failure?.message ?? ''));
    }
    const row = make(
        `tr.marks${point.opens ? '.opens' : ''}`, {
          onclick: () => {
            if (!getSelection()?.toString()) use();
          }
        },
        cells);
    return row;
  }
}
