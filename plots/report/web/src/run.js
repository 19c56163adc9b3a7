// One run: its tables, what is live at any instant, and how memory is put into groups.
import {readColumns, unpack} from './columns.js';
import {hatchInTurn} from './inks.js';
import {phaseBands} from './phases.js';
import {formatTime} from './units.js';

export const kStreamLabels = {
  compute: 'compute',
  d2h: 'copies to host',
  h2d: 'copies to device',
  communication: 'communication',
  host: 'host worker',
  nvme_read: 'reads of NVMe',
  nvme_write: 'writes to NVMe',
};
const kMostBands = 12;     // in a stack; more cannot be told apart
const kCheckpoint = 4096;  // points between two kept states of a grouping

export class Run {
  constructor(point, file, summary) {
    const {description, columns} = file;
    this.point = point;
    this.summary = summary;
    this.description = description;
    this.columns = columns;
    this.names = description.names;
    this.layers = description.layers;
    this.time = columns['point.time'];
    this.count = this.time.length;
    this.block = Int32Array.from(columns['point.block']);
    this.sign = Int8Array.from(columns['point.sign']);
    this.bytes = columns['block.bytes'];
    this.context = point.memory.context;
    this.capacity = point.memory.capacity;
    this.begin = this.count > 0 ? this.time[0] : 0;
    this.end = Math.max(description.end, this.begin + 1);
    this.groupings = new Map();
    // Whether evicted values were recomputed.
    this.restores = columns['work.restored'].some((time) => time > 0);
    this.#follow();
    this.bands = phaseBands(this);
  }

  static async load(point, element, summary) {
    return new Run(point, readColumns(await unpack(element.textContent)), summary);
  }

  // Totals, the peak, and from when to when each allocation lives.
  #follow() {
    const {count, block, sign, bytes} = this;
    const positions = this.columns['point.position'];
    const steps = this.columns['position.step'];
    this.live = new Float64Array(count);
    this.bornAt = [];                                          // points that allocate
    const allocation = new Int32Array(bytes.length).fill(-1);  // the latest of each block
    const allocatedAt = new Int32Array(count);
    const deaths = new Int32Array(count).fill(count);  // of the allocation with that number
    const returns = new Int32Array(count).fill(count);
    let allocations = 0;
    let live = 0;
    const lastStep = this.description.steps - 1;
    this.peak = 0;
    let most = -1;
    this.stepBegin = new Array(this.description.steps).fill(undefined);
    for (let i = 0; i < count; ++i) {
      live += sign[i] * bytes[block[i]];
      this.live[i] = live;
      if (sign[i] > 0) {
        allocation[block[i]] = allocations;
        allocatedAt[allocations++] = i;
      } else {
        const of = allocation[block[i]];
        if (sign[i] < 0 && of >= 0) deaths[of] = i;
        if (of >= 0) returns[of] = i;
      }
      const step = steps[positions[i]];
      if (this.stepBegin[step] === undefined) this.stepBegin[step] = this.time[i];
      if (step === lastStep && live > most) {
        most = live;
        this.peak = i;
      }
    }
    this.allocatedAt = allocatedAt.subarray(0, allocations);
    this.deaths = deaths.subarray(0, allocations);
    this.returns = returns.subarray(0, allocations);
    this.lastStepBegin = this.description.last_step_begin;
  }

  // From when to when a step runs.
  stepSpan(k) {
    const last = this.description.steps - 1;
    if (k === last) return [Math.max(this.lastStepBegin, this.begin), this.end];
    return [this.stepBegin[k] ?? this.begin, this.stepSpan(k + 1)[0]];
  }
  stepAt(time) {
    let k = this.description.steps - 1;
    while (k > 0 && this.stepSpan(k)[0] > time)
      --k;
    return k;
  }
  // A time in words, from 0 of its step: "46.5 ms", of another step than the last "46.5 ms of step 1".
  when(time) {
    const k = this.stepAt(time);
    const words = formatTime(Math.max(time - this.stepSpan(k)[0], 0));
    return k + 1 === this.description.steps ? words : `${words} of step ${k}`;
  }

  // The last point at or before a time: the state that holds there.
  pointAt(time) {
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.time[middle] <= time)
        low = middle + 1;
      else
        high = middle;
    }
    return Math.max(low - 1, 0);
  }

  // Allocations live after point `i`, unsorted.
  liveAt(i) {
    const live = [];
    for (let a = 0; a < this.allocatedAt.length && this.allocatedAt[a] <= i; ++a) {
      if (this.deaths[a] > i) live.push(a);
    }
    return live;
  }

  // From when to when an allocation lives.
  lifetimeOf(allocation) {
    const death = this.deaths[allocation];
    return [this.time[this.allocatedAt[allocation]], death < this.count ? this.time[death] : this.end];
  }

  blockOf(allocation) { return this.block[this.allocatedAt[allocation]]; }

  layerName(reference) { return reference > 0 ? this.layers[reference - 1][0] : ''; }

  operatorName(operator) { return this.names[this.columns['operator.name'][operator]]; }

  // Everything that tables say of a block.
  describeBlock(block) {
    const c = this.columns;
    const maker = c['block.operator'][block];
    return {
      name: this.names[c['block.name'][block]],
      bytes: this.bytes[block],
      role: c['block.role'][block],
      layer: this.layerName(c['block.layer'][block]),
      madeBy: maker > 0 ? this.operatorName(maker - 1) : '',
    };
  }

  // What the device is about at a place of the program order: {step, phase, layer, operator}.
  describePosition(position) {
    const c = this.columns;
    const operator = c['position.operator'][position];
    return {
      step: c['position.step'][position],
      phase: this.description.phases[c['position.phase'][position]],
      recompute: c['position.recompute'][position] === 1,
      layer: this.layerName(c['operator.layer'][operator]),
      operator: this.operatorName(operator),
    };
  }

  describePoint(i) { return this.describePosition(this.columns['point.position'][i]); }

  // The point at which a run with less memory had failed; -1 when it did not.
  failedAt() {
    const failed = this.point.failed_position;
    if (failed === null || failed === undefined) return -1;
    const positions = this.columns['point.position'];
    for (let i = 0; i < this.count; ++i) {
      if (positions[i] >= failed && this.sign[i] > 0) return i;
    }
    return -1;
  }

  grouping(kind) {
    if (!this.groupings.has(kind)) this.groupings.set(kind, makeGrouping(this, kind));
    return this.groupings.get(kind);
  }
}

// Which group a block belongs to, and the state of all groups every kCheckpoint points, so that any
// part of a long run can be read without following it from the start.
function makeGrouping(run, kind) {
  const {labels, colours, of, hatches} =
      {role: byRole, layer: byLayer, operator: byOperator}[kind](run);
  const inks = colours.map((colour, g) => ({colour, hatch: hatches?.[g] ?? hatchInTurn(g)}));
  const groups = labels.length;
  const sums = new Float64Array(groups);
  // What each group holds at most in the last step, and the point from which on it does.
  const most = new Float64Array(groups);
  const mostAt = new Int32Array(groups);
  const positions = run.columns['point.position'];
  const steps = run.columns['position.step'];
  let inLastStep = false;
  const kept = new Float64Array((Math.floor(run.count / kCheckpoint) + 1) * groups);
  for (let i = 0; i < run.count; ++i) {
    if (i % kCheckpoint === 0) kept.set(sums, (i / kCheckpoint) * groups);
    if (!inLastStep && run.time[i] >= run.lastStepBegin &&
        steps[positions[i]] === run.description.steps - 1) {
      inLastStep = true;
      most.set(sums);
      mostAt.fill(Math.max(i - 1, 0));
    }
    const group = of[run.block[i]];
    sums[group] += run.sign[i] * run.bytes[run.block[i]];
    if (!inLastStep || sums[group] <= most[group]) continue;
    most[group] = sums[group];
    mostAt[group] = i;
  }
  // The state before point `first`.
  const before = (first) => {
    const checkpoint =
        Math.min(Math.floor(first / kCheckpoint), Math.floor(run.count / kCheckpoint));
    const state = kept.slice(checkpoint * groups, (checkpoint + 1) * groups);
    for (let i = checkpoint * kCheckpoint; i < first; ++i) {
      state[of[run.block[i]]] += run.sign[i] * run.bytes[run.block[i]];
    }
    return state;
  };
  return {kind, labels, colours, inks, of, groups, most, mostAt, before};
}

function byRole(run) {
  const {roles, stack_order: order} = run.summary;
  const roleOf = run.columns['block.role'];
  const rank = [];
  order.forEach((role, i) => {
    rank[role] = i;
  });
  return {
    labels: order.map((role) => roles[role].label),
    colours: order.map((role) => roles[role].colour),
    hatches: order.map((role) => roles[role].hatch),
    of: eachBlock(run, (block) => rank[roleOf[block]]),
  };
}

// The group of every block: from() with a function takes several times as long as a loop.
function eachBlock(run, groupOf) {
  const of = new Uint8Array(run.bytes.length);
  for (let block = 0; block < of.length; ++block)
    of[block] = groupOf(block);
  return of;
}

// Repeated blocks in the order of the forward pass, neighbours together where there are many; what
// lies outside of them by the first word of its name.
function byLayer(run) {
  const blocks = run.layers.map(([, block]) => block).filter((block) => block >= 0);
  const count = blocks.length ? Math.max(...blocks) + 1 : 0;
  const each = Math.max(1, Math.ceil(count / kMostBands));
  const prefix = new Map();  // block -> the name of its outermost module
  for (const [name, block] of run.layers) {
    if (block >= 0 && (!prefix.has(block) || name.length < prefix.get(block).length)) {
      prefix.set(block, name);
    }
  }
  const outside = new Map();
  const keyOf = (reference) => {
    if (reference === 0) return 'no layer';
    const [name, block] = run.layers[reference - 1];
    return block >= 0 ? Math.floor(block / each) : name.split('.')[0] || 'no layer';
  };
  const bytes = new Map();
  const keys = Array.from(run.columns['block.layer'], keyOf);
  keys.forEach((key, i) => bytes.set(key, Math.max(bytes.get(key) ?? 0, run.bytes[i])));
  const words = [...bytes.keys()].filter((key) => typeof key === 'string' && key !== 'no layer');
  words.sort((a, b) => bytes.get(b) - bytes.get(a));
  const labels = ['no layer'];
  outside.set('no layer', 0);
  words.forEach((word, i) => {
    if (i < 3)
      labels.push(word);
    else if (i === 3)
      labels.push('other modules');
    outside.set(word, Math.min(i, 3) + 1);
  });
  const first = labels.length;
  const bands = Math.ceil(count / each);
  for (let band = 0; band < bands; ++band) {
    const from = prefix.get(band * each) ?? `block ${band * each}`;
    const last = Math.min((band + 1) * each, count) - 1;
    labels.push(each === 1 ? from : `${from} – ${prefix.get(last)?.match(/\d+$/)?.[0] ?? last}`);
  }
  const kOutside = ['#8a8f98', '#b9975b', '#7d6b91', '#a9b0b8', '#93a3a0'];
  const colours = labels.map(
      (_, i) =>
          i < first ? kOutside[i % kOutside.length] : ramp((i - first) / Math.max(bands - 1, 1)));
  const of =
      Uint8Array.from(keys, (key) => typeof key === 'number' ? first + key : outside.get(key));
  return {labels, colours, of};
}

// By the kind of operator that made the memory: "linear" of "linear.weight_gradient".
function byOperator(run) {
  const c = run.columns;
  const kinds = Array.from(c['operator.name'], (name) => run.names[name].split('.')[0]);
  const key = Array.from(c['block.operator'], (maker) => maker > 0 ? kinds[maker - 1] : '');
  // Those that hold most at any time get a band of their own.
  const words = [...new Set(key)].filter((word) => word !== '');
  const index = new Map(words.map((word, w) => [word, w]));
  const wordOf = Int32Array.from(key, (word) => index.get(word) ?? -1);
  const now = new Float64Array(words.length);
  const most = new Float64Array(words.length);
  for (let i = 0; i < run.count; ++i) {
    const w = wordOf[run.block[i]];
    if (w < 0) continue;
    now[w] += run.sign[i] * run.bytes[run.block[i]];
    if (now[w] > most[w]) most[w] = now[w];
  }
  words.sort((x, y) => most[index.get(y)] - most[index.get(x)]);
  const shown = words.slice(0, 8);
  const labels = ['before the first step', ...shown];
  const number = new Map([['', 0], ...shown.map((word, i) => [word, i + 1])]);
  if (words.length > shown.length) labels.push('other operators');
  const kColours = [
    '#6b7785', '#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#b3a125',
    '#7f6bb3', '#a7adb5'
  ];
  return {
    labels,
    colours: labels.map((_, i) => kColours[i]),
    of: Uint8Array.from(key, (word) => number.get(word) ?? shown.length + 1),
  };
}

// A ramp from dark blue over green to yellow, as even to the eye as viridis.
function ramp(share) {
  const kStops = [[68, 58, 131], [49, 104, 142], [33, 145, 140], [84, 184, 104], [190, 210, 60]];
  const at = Math.min(Math.max(share, 0), 1) * (kStops.length - 1);
  const i = Math.min(Math.floor(at), kStops.length - 2);
  const mixed = kStops[i].map((from, k) => Math.round(from + (kStops[i + 1][k] - from) * (at - i)));
  return `rgb(${mixed.join(',')})`;
}
