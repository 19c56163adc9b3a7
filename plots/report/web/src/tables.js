// What is read rather than looked at: tensors at an instant, the terms of the peak, layers,
// policies, the scenario.
import {largestOf, placeText} from './chart.js';
import {empty, make, swatch} from './dom.js';
import {inkSwatch} from './inks.js';
import {formatBytes, formatCount, formatSeconds, formatShare, formatTime} from './units.js';

const kRows = 15;
const kMoreRows = 500;
const kHeld = 'var(--faint)';
const kBeyondLive = [
  ['rounding', 'rounding of blocks'], ['pending_events', 'freed, waiting for streams'],
  ['inactive_splits', 'free parts of segments in use'], ['free_segments', 'free segments, cached']
];

export class TensorTable {
  constructor(run, view) {
    this.run = run;
    this.view = view;
    this.rows = kRows;
    this.where = make('p.instant', {'aria-live': 'polite'});
    this.body = make('tbody');
    this.more = make('button.link', {
      type: 'button',
      onclick: () => {
        this.rows = this.rows === kRows ? kMoreRows : kRows;
        this.draw();
      }
    });
    this.filter = make('input', {
      type: 'search',
      placeholder: 'Filter by name, layer, role …',
      'aria-label': 'Filter tensors',
      oninput: () => this.draw()
    });
    this.element = make(
        'div', this.where, this.filter,
        make(
            'div.scroll',
            make(
                'table.figures',
                make(
                    'thead',
                    make(
                        'tr', make('th', 'tensor'), make('th.right', 'size'),
                        make('th.right', 'share'), make('th', 'role'), make('th', 'layer'),
                        make('th', 'made by'), make('th.right', 'since'))),
                this.body)),
        this.more);
    view.listen((what) => {
      if (what === 'instant') this.draw();
    });
    this.kept = null;  // the row that was clicked: its lifetime stays marked
  }

  // A row marks its tensor's lifetime in the pictures while it is pointed at, and once clicked
  // until it is clicked again.
  #marking(a) {
    const {view} = this;
    const show = () => view.markLifetime(a);
    const leave = () => view.markLifetime(this.kept);
    const keep = () => {
      this.kept = this.kept === a ? null : a;
      view.markLifetime(this.kept);
      for (const row of this.body.rows)
        row.setAttribute('aria-pressed', row.dataset.allocation === String(this.kept));
    };
    return {
      'data-allocation': String(a),
      tabindex: '0',
      role: 'button',
      title: 'when it is live, in the pictures above and below',
      'aria-pressed': this.kept === a ? 'true' : 'false',
      onmouseenter: show,
      onmouseleave: leave,
      onfocus: show,
      onblur: leave,
      onclick: keep,
      onkeydown: (event) => {
        if (event.key !== 'Enter' && event.key !== ' ') return;
        event.preventDefault();
        keep();
      }
    };
  }

  draw() {
    const {run, view} = this;
    if (run.count === 0) return;
    const i = view.instant;
    const place = run.describePoint(i);
    const since = run.time[i] - run.stepSpan(place.step)[0];
    const total = run.live[i];
    const mark = i === run.peak ? 'The peak' : 'Instant';
    this.where.replaceChildren(
        make('b', `${mark}: ${formatTime(Math.max(since, 0))}`),
        ` into step ${place.step}, ${placeText(place)}. `,
        `${formatBytes(total)} live, ${formatBytes(run.columns['point.active'][i])} allocated, ` +
            `${formatBytes(run.columns['point.reserved'][i])} reserved.`);
    const word = this.filter.value.trim().toLowerCase();
    let live = run.liveAt(i);
    const roles = run.summary.roles;
    if (word) {
      live = live.filter((a) => {
        const b = run.describeBlock(run.blockOf(a));
        return `${b.name} ${b.layer} ${roles[b.role].label} ${b.madeBy}`.toLowerCase().includes(
            word);
      });
    }
    this.body.replaceChildren(...largestOf(run, live, this.rows).map((a) => {
      const block = run.describeBlock(run.blockOf(a));
      const role = roles[block.role];
      const allocated = run.allocatedAt[a];
      return make(
          'tr.marks', this.#marking(a), make('td.name', block.name),
          make('td.right', formatBytes(block.bytes)),
          make('td.right', formatShare(block.bytes, total)),
          make('td.keep', inkSwatch(role, run.summary.hatches), role.label),
          make('td.name', block.layer), make('td', block.madeBy || 'before the first step'),
          make('td.right', block.madeBy ? run.when(run.time[allocated]) : '–'));
    }));
    if (live.length === 0) {
      this.body.append(make(
          'tr',
          make(
              'td', {colspan: '7'},
              word ? `No live tensor matches “${word}”.` : 'Nothing is live at this instant.')));
    }
    const hidden = live.length - Math.min(live.length, kRows);
    this.more.hidden = hidden <= 0;
    this.more.textContent = this.rows === kRows ?
        `Show ${formatCount(Math.min(live.length, kMoreRows))} of ${
            formatCount(live.length)} tensors` :
        `Show the ${kRows} largest`;
  }
}

// Whether the allocator's own terms are of the live peak: they are of the instant at which most is
// reserved, which may be another one.
export function knowsBeyondLive({memory}) {
  return memory.allocator.fragmentation.live === memory.peak_live;
}

// Terms that add up to what the step takes of the device: [{label, bytes, colour}, ...].
// `inDetail`: what is reserved beyond the live bytes by its reasons.
export function peakTerms(point, summary, inDetail = knowsBeyondLive(point)) {
  const {memory} = point;
  const terms = [];
  for (const role of summary.stack_order) {
    const {name, label, colour, hatch} = summary.roles[role];
    const bytes = memory.peak.by_role[name];
    if (bytes > 0) terms.push({label, bytes, colour, hatch, live: true});
  }
  const {fragmentation} = memory.allocator;
  if (inDetail) {
    for (const [key, label] of kBeyondLive) {
      if (fragmentation[key] > 0) terms.push({label, bytes: fragmentation[key], colour: kHeld});
    }
  } else if (memory.peak_reserved > memory.peak_live) {
    terms.push({
      label: 'held by the allocator beyond that',
      bytes: memory.peak_reserved - memory.peak_live,
      colour: kHeld
    });
  }
  if (memory.context > 0) {
    terms.push({
      label: 'CUDA context',
      bytes: memory.context,
      colour: summary.context_colour,
      hatch: summary.context_hatch
    });
  }
  return terms;
}

// A sample of a term's ink.
export const termSwatch = (term, summary) =>
    (term.hatch ? inkSwatch(term, summary.hatches) : swatch(term.colour));

function termsTable(point, summary) {
  const terms = peakTerms(point, summary);
  const total = terms.reduce((sum, term) => sum + term.bytes, 0);
  return make(
      'table.figures.terms',
      make(
          'tbody',
          terms.map(
              ({label, bytes, colour, hatch}) => make(
                  'tr', make('td', termSwatch({colour, hatch}, summary), label),
                  make('td.right', formatBytes(bytes)),
                  make('td.right', formatShare(bytes, total)),
                  make('td.bar', make('span', {
                         style: `width:${(bytes / total * 100).toFixed(2)}%;background:${colour}`
                       }))))),
      make(
          'tfoot',
          make(
              'tr', make('th', 'of the device'), make('th.right', formatBytes(total)),
              make('th.right', formatShare(total, point.memory.capacity)),
              make('th', 'of its capacity'))));
}

// Where a step's time goes beside computing what has to be computed: [what, seconds].
export function lossesOf(time) {
  return [
    ['recomputing', time.recompute], ['waiting for copies', time.exposed_transfer],
    ['waiting for the host\'s optimizer', time.exposed_host_optimizer],
    ['waiting for communication', time.exposed_communication],
    ['waiting for the host', time.host_bound]
  ];
}

function timeTable(point) {
  const {time} = point;
  const rows =
      [['forward', time.forward], ['backward', time.backward], ['optimizer', time.optimizer]];
  const within = lossesOf(time);
  const row = ([label, seconds], i, all, indent) => make(
      'tr', make(indent ? 'td.indent' : 'td', label), make('td.right', formatSeconds(seconds)),
      make('td.right', formatShare(seconds, time.step)),
      make(
          'td.bar',
          make('span', {style: `width:${(seconds / (time.step || 1) * 100).toFixed(2)}%`})));
  const shown = within.filter(([, seconds]) => seconds > 0);
  return make(
      'table.figures.terms',
      make(
          'tbody', rows.map((r) => row(r)),
          shown.length ? make('tr.between', make('td', {colspan: '4'}, 'of which')) : null,
          shown.map((r) => row(r, 0, 0, true))),
      make(
          'tfoot',
          make(
              'tr', make('th', 'step'), make('th.right', formatSeconds(time.step)), make('th'),
              make('th'))));
}

export function peakTables(run) {
  const {peak} = run.point.memory;
  return make(
      'div.columns',
      make(
          'div',
          make(
              'h3',
              `Memory at the peak: ${peak.phase}, ${peak.layer ? `${peak.layer}: ` : ''}${
                  peak.operator}`),
          termsTable(run.point, run.summary)),
      make('div', make('h3', 'Time of the last step'), timeTable(run.point)));
}

// What each block of layers keeps, recomputes and moves; of the last step.
export function layerRows(run) {
  const c = run.columns;
  const lastStep = run.description.steps - 1;
  const rows = new Map();
  const known = [];  // by reference
  const rowOf = (reference) => known[reference] ??= findRow(reference);
  const findRow = (reference) => {
    let key = 'no layer';
    let order = -1;
    if (reference > 0) {
      const [name, block] = run.layers[reference - 1];
      key = block >= 0 ? block : name.split('.')[0] || 'no layer';
      order = reference;
    }
    if (!rows.has(key)) {
      rows.set(key, {
        key,
        evicted: 0,
        name: null,
        order,
        parameters: 0,
        kept: 0,
        recomputed: 0,
        again: 0,
        operators: 0,
        moved: 0,
        forward: 0,
        backward: 0
      });
    }
    const row = rows.get(key);
    if (reference > 0) {
      const name = typeof key === 'number' ? run.layers[reference - 1][0] : key;
      if (row.name === null || name.length < row.name.length) row.name = name;
    }
    return row;
  };
  const [parameter, saved] = ['parameter', 'saved_activation'].map(
      (name) => run.summary.roles.findIndex((role) => role.name === name));
  let afterForward = run.peak;
  for (let i = run.count - 1; i >= 0; --i) {
    const position = c['point.position'][i];
    if (c['position.step'][position] !== lastStep || c['position.phase'][position] !== 0) continue;
    afterForward = i;
    break;
  }
  for (const a of run.liveAt(afterForward)) {
    const b = run.blockOf(a);
    const row = rowOf(c['block.layer'][b]);
    if (c['block.role'][b] === parameter) row.parameters += run.bytes[b];
    if (c['block.role'][b] === saved) row.kept += run.bytes[b];
  }
  for (let i = 0; i < c['work.start'].length; ++i) {
    const position = c['work.position'][i];
    if (c['position.step'][position] !== lastStep) continue;
    const operator = c['position.operator'][position];
    const duration = c['work.duration'][i] - c['work.restored'][i];
    if (c['work.kind'][i] === 1) {
      rowOf(c['block.layer'][c['work.block'][i] - 1]).moved += run.bytes[c['work.block'][i] - 1];
    } else if (c['work.kind'][i] === 0) {
      const row = rowOf(c['operator.layer'][operator]);
      if (c['position.recompute'][position] === 1) {
        row.recomputed += duration;
        ++row.operators;
      } else if (c['position.phase'][position] === 0) {
        row.forward += duration;
      } else if (c['position.phase'][position] === 1) {
        row.backward += duration;
      }
    }
  }
  // What is allocated by an operator that is recomputed.
  const [positions, steps, recompute, roles] =
      [c['point.position'], c['position.step'], c['position.recompute'], c['block.role']];
  for (const point of run.allocatedAt) {
    const position = positions[point];
    if (steps[position] !== lastStep || recompute[position] !== 1 ||
        roles[run.block[point]] !== saved)
      continue;
    rowOf(c['block.layer'][run.block[point]]).again += run.bytes[run.block[point]];
  }
  addRestored(run, lastStep, rowOf);
  return [...rows.values()].sort((a, b) => a.order - b.order);
}

// What eviction had to recompute. A block is allocated once by the program, so where it is
// allocated once more its operator was recomputed; outputs that come back together are of one run.
function addRestored(run, lastStep, rowOf) {
  const c = run.columns;
  if (!run.restores) return;
  const firstAllocation = new Int32Array(run.bytes.length).fill(-1);
  const duration = new Map();  // of operators
  for (let i = 0; i < c['work.start'].length; ++i) {
    const operator = c['position.operator'][c['work.position'][i]];
    if (c['work.kind'][i] === 0 && !duration.has(operator))
      duration.set(operator, c['work.duration'][i] - c['work.restored'][i]);
  }
  const seen = new Set();
  for (let a = 0; a < run.allocatedAt.length; ++a) {
    const point = run.allocatedAt[a];
    const block = run.block[point];
    if (firstAllocation[block] < 0) {
      firstAllocation[block] = point;
      continue;
    }
    const maker = c['block.operator'][block] - 1;
    if (maker < 0 || c['position.step'][c['point.position'][point]] !== lastStep) continue;
    const row = rowOf(c['operator.layer'][maker]);
    row.evicted += run.bytes[block];
    const again = `${maker} at ${run.time[point]}`;
    if (seen.has(again)) continue;
    seen.add(again);
    row.recomputed += duration.get(maker) ?? 0;
    ++row.operators;
  }
}

function decisionOf(row) {
  const words = [];
  if (row.evicted > 0)
    words.push(make('span.tag.again', 'evicted'));
  else if (row.operators > 0)
    words.push(make('span.tag.again', 'recompute'));
  if (row.moved > 0) words.push(make('span.tag.moved', 'offload'));
  if (words.length === 0 && row.kept > 0) words.push(make('span.tag', 'keep'));
  return words;
}

export function layerTable(run) {
  const rows = layerRows(run);
  if (rows.length === 0) return empty('This graph names no layers.');
  const most = Math.max(...rows.map((row) => row.kept), 1);
  const figure = (value, format) => make('td.right', value > 0 ? format(value) : '–');
  return make(
      'div.scroll.tall',
      make(
          'table.figures',
          make(
              'thead',
              make(
                  'tr', make('th', 'layer'), make('th', 'decisions'),
                  make('th.right', 'parameters'),
                  make(
                      'th.right', {title: 'saved activations on the device at the end of forward'},
                      'kept'),
                  make('th.bar', ''), make('th.right', 'recomputed'),
                  make('th.right', 'operators recomputed'), make('th.right', 'copied to host'),
                  make('th.right', 'forward'), make('th.right', 'backward'))),
          make(
              'tbody',
              rows.map(
                  (row) => make(
                      'tr', make('td.name', row.name ?? 'no layer'),
                      make('td.keep', decisionOf(row)), figure(row.parameters, formatBytes),
                      figure(row.kept, formatBytes),
                      make(
                          'td.bar',
                          make('span', {style: `width:${(row.kept / most * 100).toFixed(1)}%`})),
                      figure(row.recomputed, formatTime), figure(row.operators, formatCount),
                      figure(row.moved, formatBytes), figure(row.forward, formatTime),
                      figure(row.backward, formatTime))))));
}

export function policyTable(point) {
  if (point.policies.length === 0) {
    return empty(
        'No policy: every value is kept where it is. Try checkpoint_every: {period: 1} to ' +
        'trade time for memory.');
  }
  return make(
      'div.scroll',
      make(
          'table.figures',
          make(
              'thead',
              make(
                  'tr', make('th', 'policy'), make('th.right', 'decisions'),
                  make('th.right', {title: 'an earlier policy had decided'}, 'contested'),
                  make('th.right', {title: 'would change results or need no memory'}, 'refused'),
                  make('th.right', 'operators recomputed'), make('th.right', 'moved to the host'))),
          make(
              'tbody',
              point.policies.map(
                  (p) => make(
                      'tr', make('td.name', p.name), make('td.right', formatCount(p.decided)),
                      make('td.right', formatCount(p.contested)),
                      make('td.right', formatCount(p.refused)),
                      make('td.right', formatCount(p.recomputed_operators)),
                      make('td.right', formatBytes(p.offloaded_bytes)))))));
}

// What was asked for, why it failed, and what would make it fit.
export function failurePanel(point) {
  const {failure} = point;
  const parts = [make('h2', 'Why it does not fit'), make('p', failure.reason || failure.message)];
  if (failure.suggestions?.length) {
    parts.push(
        make('h3', 'Changes that fit, tried by simulation'),
        make(
            'ul',
            failure.suggestions.map(
                (s) => make(
                    'li', make('b', s.change),
                    ` – ${formatBytes(s.device_used)} of the device` +
                        (s.step_time ? `, ${formatSeconds(s.step_time)} a step` : '')))));
  }
  if (failure.tried?.length) {
    parts.push(
        make('h3', 'Tried, and not enough'),
        make(
            'ul',
            failure.tried.map(
                (s) => make('li', `${s.change} – ${formatBytes(s.device_used)} would be needed`))));
  }
  return make('section.panel.failure', parts);
}

// JSON as the YAML that a person would write.
export function asYaml(value, indent = '') {
  const plain = (text) =>
      (/^[A-Za-z0-9_./+-][\w ./+%<>=*()-]*$/.test(text) &&
               !/^(true|false|null|yes|no|on|off|~)$/i.test(text) && text.trim() === text ?
           text :
           JSON.stringify(text));
  const scalar = (v) => (typeof v === 'string' ? plain(v) : String(v));
  const nested = (v) => v !== null && typeof v === 'object' && Object.keys(v).length > 0;
  const empties = (v) => (Array.isArray(v) ? '[]' : '{}');
  const inline = (v) => (v !== null && typeof v === 'object' ? empties(v) : scalar(v));
  if (!nested(value)) return `${indent}${inline(value)}\n`;
  if (Array.isArray(value)) {
    return value
        .map(
            (item) =>
                (nested(item) ?
                     `${indent}- ${asYaml(item, `${indent}  `).slice(indent.length + 2)}` :
                     `${indent}- ${inline(item)}\n`))
        .join('');
  }
  return Object.entries(value)
      .map(
          ([key, item]) =>
              (nested(item) ? `${indent}${plain(key)}:\n${asYaml(item, `${indent}  `)}` :
                              `${indent}${plain(key)}: ${inline(item)}\n`))
      .join('');
}

export function scenarioTables(point, version) {
  const rows = Object.entries(point.resolved ?? {});
  return make(
      'div.columns',
      make(
          'div', make('h3', 'As resolved'),
          make(
              'table.figures',
              make(
                  'tbody',
                  rows.map(
                      ([key, value]) => make('tr', make('td', key), make('td', String(value)))),
                  make('tr', make('td', 'tidemark'), make('td', version))))),
      make('div', make('h3', 'As given'), make('pre', asYaml(point.document ?? {}))));
}
