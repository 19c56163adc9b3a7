// Figures over the swept keys: lines over one, a heatmap over two, parallel coordinates over more.
import {commandNote} from './command.js';
import {choice, make, panel} from './dom.js';
import {heatmap} from './heatmap.js';
import {ParallelCoordinates} from './parallel.js';
import {sweptLines} from './swept_lines.js';

const kForms =
    [['lines', 'Lines', 1], ['heatmap', 'Heatmap', 2], ['parallel', 'Parallel coordinates', 3]];

const kNotes = {
  lines: (figure) => `Where several points share a place, the best of them by ${figure.name}. ` +
      'Hollow: does not fit (as it would be with enough memory).',
  heatmap: (figure) =>
      `Each cell has the best point by ${figure.name} of those with its two values. ` +
      'Hatched: does not fit (as it would be with enough memory).',
  parallel: () =>
      'A line for each point. Drag along an axis to keep what lies in that range, also in ' +
      'the table; click on the axis to clear it. Arrow keys move a range, Shift widens it.',
};

class Swept {
  constructor(summary, keys, figures, selection, open) {
    this.summary = summary;
    this.keys = keys;
    this.figures = figures;
    this.selection = selection;
    this.open = open;
    const forms = kForms.filter(([, , least]) => keys.length >= least);
    // At first what shows all keys at once.
    this.chosen = summary.chosen.swept ??= {
      form: forms[forms.length - 1][0],
      figure: 'memory',
      x: keys.findIndex((key) => key === this.#first()),
      by: keys.findIndex((key) => key !== this.#first())
    };
    this.forms = choice('Form', forms, this.chosen.form, (form) => {
      this.chosen.form = form;
      this.forms.show(form);
      this.draw();
    });
    this.figure = this.#select(
        'figure', figures.map(({id, name}) => [id, name]), this.chosen.figure,
        (id) => (this.chosen.figure = id));
    this.x = this.#select(
        'over', keys.map(({name}, k) => [String(k), name]), String(this.chosen.x),
        (k) => this.#choose('x', 'by', Number(k)));
    this.by = this.#select(
        'a line for each', [['-1', 'none'], ...keys.map(({name}, k) => [String(k), name])],
        String(this.chosen.by), (k) => this.#choose('by', 'x', Number(k)));
    this.choices = make('p.pair', this.figure.label, this.x.label, this.by.label);
    this.note = make('p', '');
    this.content = make('div');
    this.asked = make('div');
    const box = panel(
        'Over the swept keys', null,
        make('div.toolbar', forms.length > 1 ? this.forms.element : null), this.choices,
        this.content, this.asked);
    box.querySelector('header').append(this.note);
    this.element = box;
    this.draw();
  }

  #first() { return this.keys.find(({numeric}) => numeric) ?? this.keys[0]; }

  #select(words, options, value, act) {
    const element = make(
        'select', {
          'aria-label': words,
          onchange: (event) => {
            act(event.target.value);
            this.draw();
          }
        },
        options.map(([id, text]) => make('option', {value: id, selected: id === value}, text)));
    const text = make('span', words);
    return {element, text, label: make('label', text, ' ', element)};
  }

  // A key is on one axis only: the other one takes the place that this one leaves.
  #choose(which, other, k) {
    if (this.chosen[other] === k) this.chosen[other] = this.chosen[which];
    this.chosen[which] = k;
    if (this.chosen.x < 0) this.chosen.x = this.keys.findIndex((_, at) => at !== this.chosen.by);
  }

  #use(point) {
    if (point.opens)
      this.open(point);
    else
      this.asked.replaceChildren(commandNote(point, this.summary));
  }

  draw() {
    const {form} = this.chosen;
    if (form === 'heatmap' && this.chosen.by < 0)
      this.chosen.by = this.keys.findIndex((_, k) => k !== this.chosen.x);
    const x = this.keys[this.chosen.x];
    const by = this.keys[this.chosen.by] ?? null;
    this.x.element.value = String(this.chosen.x);
    this.by.element.value = String(this.chosen.by);
    this.by.element.options[0].hidden = form === 'heatmap';
    this.by.text.textContent = form === 'heatmap' ? 'and' : 'a line for each';
    this.by.label.hidden = this.keys.length < 2;
    this.choices.hidden = form === 'parallel';
    const figure = this.figures.find(({id}) => id === this.chosen.figure);
    const {points} = this.summary;
    const {figures} = this;
    this.asked.replaceChildren();
    const use = (point) => this.#use(point);
    const drawn = form === 'lines' ? sweptLines({points, x, by, figure, open: use}) :
        form === 'heatmap'         ? heatmap({points, x, y: by, figure, figures, use}) :
                                     this.#parallel();
    this.content.replaceChildren(drawn.element);
    this.note.textContent = [kNotes[form](figure), drawn.note].filter((words) => words).join(' ');
  }

  // Made once, as it listens to the ranges that it shares with the table.
  #parallel() {
    const {points} = this.summary;
    return (
        this.parallel ??= new ParallelCoordinates(points, this.keys, this.figures, this.selection));
  }
}

// Null where no key has several values. `keys` are all keys of the sweep.
export function sweptPanel(summary, keys, figures, selection, open) {
  const varying = keys.filter((key) => key.varies);
  if (varying.length === 0) return null;
  return new Swept(summary, varying, figures, selection, open).element;
}
