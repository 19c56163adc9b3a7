// The page: reads what the report holds, shows one run or the comparison, listens to keys.
import {AddressMap} from './addresses.js';
import {MemoryChart} from './chart.js';
import {unpack} from './columns.js';
import {comparePage} from './compare.js';
import {choice, empty, make, panel, Tooltip} from './dom.js';
import {Lanes} from './lanes.js';
import {Overview} from './overview.js';
import {Run} from './run.js';
import {failurePanel, layerTable, lossesOf, peakTables, policyTable, scenarioTables, TensorTable} from './tables.js';
import {timeTables} from './timetables.js';
import {formatBytes, formatCount, formatRate, formatSeconds, formatShare} from './units.js';
import {View} from './view.js';

const kGroupings = [['role', 'Role'], ['layer', 'Layer'], ['operator', 'Operator']];
const kKeys = [
  ['← →', 'previous, next instant (Shift: the very next change of memory)'],
  ['Home End', 'first, last instant shown'],
  ['p', 'the peak'],
  ['+ −', 'zoom in, out, around the instant'],
  ['[ ]', 'move the part shown'],
  ['0', 'the last step'],
  ['a', 'all steps'],
  ['g', 'stack by role, layer or operator'],
  ['1 … 9', 'the first runs'],
  ['c', 'compare'],
  ['t', 'light or dark'],
  ['?', 'this help'],
];

// Where most of a step's time goes beside computing what has to be computed.
function lossOf(time) {
  const [what, seconds] = lossesOf(time).reduce((most, loss) => (loss[1] > most[1] ? loss : most));
  return seconds > 0.005 * time.step ? `${formatSeconds(seconds)} of it ${what}` :
                                       'nothing lost to waiting';
}

// What shows one run.
class RunPage {
  constructor(run, summary, tooltip, viewBefore) {
    this.run = run;
    this.view = new View(run, viewBefore);
    const {view} = this;
    const {point} = run;
    // A comparison holds points to budgets of its own; here the device counts.
    this.fits =
        point.status === 'fits' || (point.compare !== undefined && point.status === 'infeasible');
    this.chart = new MemoryChart(run, view, tooltip);
    this.lanes = new Lanes(run, view, tooltip);
    this.overview = new Overview(run, view);
    this.addresses = new AddressMap(run, view, tooltip);
    this.tensors = new TensorTable(run, view);
    this.groups = choice('Stack by', kGroupings, view.grouping, (kind) => view.group(kind));
    view.listen((what) => {
      if (what === 'grouping') this.groups.show(view.grouping);
    });
    const scale = make(
        'label.check', make('input', {
          type: 'checkbox',
          checked: this.chart.toCapacity,
          onchange: (event) => {
            this.chart.toCapacity = event.target.checked;
            this.chart.build();
          }
        }),
        'up to capacity');
    const button = (text, title, act) =>
        make('button.tool', {type: 'button', title, 'aria-label': title, onclick: act}, text);
    const toolbar = make(
        'div.toolbar', make('span.quiet', 'Stack by'), this.groups.element, scale,
        make('span.spacer'), button('−', 'Zoom out (−)', () => view.zoom(2)),
        button('+', 'Zoom in (+)', () => view.zoom(0.5)),
        button('Peak', 'Go to the peak (p)', () => this.toPeak()),
        button('Last step', 'Show the last step (0)', () => view.reset()),
        button('All steps', 'Show all steps (a)', () => view.showAll()));
    const lines = make(
        'ul.legend.lines', make('li', make('span.line.reserved'), 'reserved'),
        make('li', make('span.line.allocated'), 'allocated'),
        make('li', make('span.line.capacity'), 'capacity'));
    const legend = make('div.legends', this.chart.legend, lines);
    const shownAs = this.fits ?
        null :
        make(
            'p.hint',
            'Drawn as it would run with enough memory; the red dashed line marks where it fails on ' +
                'this device.');
    this.element = make(
        'div.page', this.#cards(), point.failure && !this.fits ? failurePanel(point) : null,
        make(
            'section.panel.timeline',
            make(
                'header', make('h2', 'Memory over time'),
                make(
                    'p',
                    'Point to see what is live; click to choose an instant; drag to zoom, ' +
                        'double-click to go back.')),
            shownAs, toolbar,
            run.count > 0 ?
                [
                  this.chart.box, this.overview.box, legend, make('h3', 'Streams'), this.lanes.box,
                  this.lanes.legend
                ] :
                empty('Nothing was allocated, so there is nothing to draw.')),
        panel(
            'Largest tensors at the chosen instant',
            'Point at a row to see in the pictures when its tensor is live; click to keep that.',
            this.tensors.element),
        panel('At the peak', null, peakTables(run)),
        panel('Time by kernel and layer', 'Of the last step.', timeTables(run)),
        panel(
            'Addresses',
            this.addresses.known ?
                'Where each block lies in the memory that the allocator took (grey), over true ' +
                    'time. Gaps inside grey are free but may be too small for the next request: ' +
                    'point at one for its size and its neighbours.' :
                null,
            this.addresses.box),
        panel(
            'Policies', null, policyTable(point), make('h3', 'By layer, in the last step'),
            layerTable(run)),
        panel('Scenario', null, scenarioTables(point, summary.tidemark)));
  }

  #cards() {
    const {point} = this.run;
    const {memory, time, throughput} = point;
    const fits = this.fits;
    const used = memory.device_needed;
    const card = (label, figure, note, tone = '') =>
        make(`div.card${tone}`, make('span', label), make('b', figure), make('small', note));
    const share = Math.min(used / memory.capacity, 1);
    const first = card(
        fits ? 'Fits' : 'Does not fit', formatBytes(used),
        `${formatShare(used, memory.capacity)} of ${formatBytes(memory.capacity)}` +
            (fits ? `, ${formatBytes(memory.capacity - used)} to spare` : ' would be needed'),
        fits ? '.good' : '.bad');
    first.append(make('div.meter', make('i', {style: `width:${(share * 100).toFixed(1)}%`})));
    return make(
        'div.cards', first,
        card(
            'Peak live', formatBytes(memory.peak_live),
            `${memory.peak.phase}${memory.peak.layer ? `, ${memory.peak.layer}` : ''}`),
        card('Step', formatSeconds(time.step), lossOf(time)),
        throughput.tokens_per_second > 0 ?
            card(
                'Tokens per second', formatCount(throughput.tokens_per_second),
                `${formatShare(throughput.model_flops_utilization, 1)} of peak arithmetic`) :
            card(
                fits ? 'Samples per second' : 'Throughput',
                fits ? formatRate(throughput.samples_per_second) : '–',
                fits ? `${formatShare(throughput.model_flops_utilization, 1)} of peak arithmetic` :
                       'it does not run'),
        card(
            'On the host', formatBytes(memory.host.peak),
            memory.host.peak > 0 ? `${formatShare(memory.host.peak, memory.host.capacity)} of ${
                                       formatBytes(memory.host.capacity)}` :
                                   'nothing moved there'));
  }

  // After the element is in the page. `everything`: also what is out of sight.
  show(everything) {
    if (this.run.count > 0) {
      this.chart.build();
      this.lanes.draw();
      this.overview.draw();
      if (everything)
        this.addresses.draw();
      else
        this.addresses.redraw();
    }
    this.tensors.draw();
  }

  toPeak() { this.view.choose(this.run.peak, true); }

  onKey(event) {
    const {view, run} = this;
    if (run.count === 0) return false;
    const around = run.time[view.instant];
    const acts = {
      ArrowLeft: () => (event.shiftKey ? view.choose(view.instant - 1, true) : this.chart.step(-1)),
      ArrowRight: () => (event.shiftKey ? view.choose(view.instant + 1, true) : this.chart.step(1)),
      Home: () => view.choose(Math.min(run.pointAt(view.begin) + 1, run.count - 1)),
      End: () => view.choose(run.pointAt(view.end)),
      '+': () => view.zoom(0.5, around),
      '=': () => view.zoom(0.5, around),
      '-': () => view.zoom(2, around),
      '[': () => view.pan(-0.25),
      ']': () => view.pan(0.25),
      0: () => view.reset(),
      a: () => view.showAll(),
      p: () => this.toPeak(),
      g: () => {
        const at = kGroupings.findIndex(([kind]) => kind === view.grouping);
        view.group(kGroupings[(at + 1) % kGroupings.length][0]);
      },
    };
    const act = acts[event.key];
    if (!act) return false;
    act();
    return true;
  }
}

class Report {
  constructor(summary) {
    this.summary = summary;
    this.runs = new Map();  // by point: the promise of its Run
    this.pages = new Map();
    this.views = new Map();  // of pages that were there before the colours changed
    this.tooltip = new Tooltip();
    summary.points.forEach((point, number) => {
      point.number = number;
      point.run = point.compare?.same_run_as ?? number;  // whose run it is
      point.sharesRun = point.run !== number;
      point.opens = summary.points[point.run].charts;
    });
    this.body = make('main');
    this.tabs = make('nav.tabs', {'aria-label': 'Runs'});
    this.help = make(
        'dialog', make('h2', 'Keys'),
        make(
            'table',
            kKeys.map(
                ([key, text]) => make(
                    'tr', make('th', key.split(' ').map((k) => make('kbd', k))),
                    make('td', text)))),
        make(
            'p',
            'Ctrl and the wheel, or two fingers, zoom; Shift and the wheel, or sideways, move.'),
        make('form', {method: 'dialog'}, make('button.tool', 'Close')));
    const head = make(
        'header.top', make('div', make('h1', summary.title), make('p.setting')), make('div.spacer'),
        make(
            'button.tool',
            {type: 'button', onclick: () => this.switchTheme(), title: 'Light or dark (t)'},
            'Theme'),
        make(
            'button.tool',
            {type: 'button', onclick: () => this.help.showModal(), title: 'Keys (?)'}, 'Help'));
    this.setting = head.querySelector('.setting');
    document.body.append(
        head, this.tabs, this.body,
        make(
            'footer',
            `Simulated by tidemark ${
                summary
                    .tidemark}. Charts by uPlot (MIT); its licence is at the head of this file.`,
            summary.reproduce ? make('p.reproduce', summary.reproduce) : null),
        this.help);
    document.addEventListener('keydown', (event) => this.#onKey(event));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#restyle());
    // Paper is light.
    addEventListener('beforeprint', () => {
      this.themeBefore = document.documentElement.dataset.theme;
      this.#setTheme('light');
    });
    addEventListener('afterprint', () => this.#setTheme(this.themeBefore));
  }

  get charted() { return this.summary.points.filter((point) => point.charts); }

  load(point) {
    if (!this.runs.has(point)) {
      this.runs.set(
          point, Run.load(point, document.getElementById(`run-${point.number}`), this.summary));
    }
    return this.runs.get(point);
  }

  #drawTabs(current) {
    if (this.charted.length === 0 || (this.summary.points.length < 2 && !this.summary.compare))
      return;
    const tab = (text, key, act) => make(
        'button', {type: 'button', 'aria-current': key === current ? 'page' : false, onclick: act},
        text);
    this.tabs.replaceChildren(
        tab('Compare', 'compare', () => this.compare()),
        ...this.charted.map((point) => tab(point.label, point, () => this.open(point))));
    this.tabs.querySelector('[aria-current]')
        ?.scrollIntoView({block: 'nearest', inline: 'nearest'});
  }

  compare() {
    this.#drawTabs('compare');
    this.tooltip.hide();
    const fitting = this.summary.points.filter((point) => point.status === 'fits').length;
    this.setting.textContent = `${fitting} of ${this.summary.points.length} ${
        this.summary.compare ? 'keep their budget' : 'fit'}`;
    if (!this.comparison) {
      this.comparison =
          comparePage(this.summary, (point) => this.load(point), (point) => this.open(point));
    }
    this.page = null;
    this.body.replaceChildren(this.comparison.element);
    return this.comparison.show();
  }

  async open(asked, everything = false) {
    const point = this.summary.points[asked.run];
    this.#drawTabs(point);
    this.tooltip.hide();
    const run = await this.load(point);
    if (!this.pages.has(point)) {
      this.pages.set(point, new RunPage(run, this.summary, this.tooltip, this.views.get(point)));
    }
    this.page = this.pages.get(point);
    this.setting.textContent = point.setting;
    this.body.replaceChildren(this.page.element);
    this.page.show(everything);
  }

  // What is drawn has its colours in it, so everything is made anew; what was chosen stays.
  #restyle() {
    this.comparison = null;
    for (const [point, {view}] of this.pages)
      this.views.set(point, view);
    this.pages.clear();
    if (this.page)
      this.open(this.page.run.point, true);
    else
      this.compare();
  }

  switchTheme() {
    const dark = matchMedia('(prefers-color-scheme: dark)').matches;
    const now = document.documentElement.dataset.theme ?? (dark ? 'dark' : 'light');
    this.#setTheme(now === 'dark' ? 'light' : 'dark');
  }

  #setTheme(theme) {
    if (theme === undefined)
      delete document.documentElement.dataset.theme;
    else
      document.documentElement.dataset.theme = theme;
    this.#restyle();
  }

  #onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== 'checkbox')
      return;
    if (this.help.open) return;
    const number = Number(event.key);
    if (event.key === '?')
      this.help.showModal();
    else if (event.key === 't')
      this.switchTheme();
    else if (event.key === 'c' && this.summary.points.length > 1)
      this.compare();
    else if (number >= 1 && this.charted[number - 1])
      this.open(this.charted[number - 1]);
    else if (!this.page?.onKey(event))
      return;
    event.preventDefault();
  }
}

async function start() {
  if (typeof DecompressionStream === 'undefined') {
    throw new Error('this browser is too old for the report; it needs DecompressionStream (2023)');
  }
  const bytes = await unpack(document.getElementById('summary').textContent);
  const report = new Report(JSON.parse(new TextDecoder().decode(bytes)));
  const {points} = report.summary;
  document.getElementById('loading').remove();
  if (points.length > 1 || report.summary.compare)
    await report.compare();
  else if (report.charted.length)
    await report.open(points[0]);
  else
    report.body.replaceChildren(empty(points[0]?.failure?.message ?? 'This report holds no runs.'));
  // For whoever drives the page.
  window.tidemark = report;
  requestAnimationFrame(() => requestAnimationFrame(() => {
                          performance.mark('painted');
                          document.documentElement.dataset.ready = 'true';
                        }));
}

start().catch((error) => {
  document.getElementById('loading')?.remove();
  document.body.append(empty(`The report cannot be shown: ${error.message}`));
  throw error;
});
