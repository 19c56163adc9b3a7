// The keys that a sweep changes, their values in order, and the figures that points are compared
// by.
import {fits, parseBytes} from './fronts.js';
import {formatBytes, formatRate, formatTime} from './units.js';

const kUnset = 'as given';  // of points that leave a key as the scenario has it
const kLogarithmic = 8;     // times the smallest value: beyond, even ratios are drawn evenly
const kOrdinal = 12;        // values of a key that are drawn evenly on an axis

// The number in a setting, of sizes their bytes; null of words.
export function numberOf(value) {
  if (typeof value === 'number') return value;
  if (typeof value !== 'string' || value.trim() === '') return null;
  const plain = Number(value.replace(/\s*%$/, ''));
  return Number.isFinite(plain) ? plain : parseBytes(value);
}

// The shortest ends of keys that are still distinct: "micro_batch" of "training.micro_batch".
function shortNames(keys) {
  const end = (key, parts) => key.split('.').slice(-parts).join('.');
  return keys.map((key) => {
    for (let parts = 1;; ++parts) {
      const name = end(key, parts);
      if (name === key || keys.filter((other) => end(other, parts) === name).length === 1)
        return name;
    }
  });
}

// A key of the sweep. `values`: [{text, number}, ...] in order; `of(point)` is the place of its
// value among them.
class SweptKey {
  constructor(key, name, points) {
    this.key = key;
    this.name = name;
    const values = new Map();  // by their words
    for (const {overrides = {}, settings = {}} of points) {
      const text = settings[key] ?? kUnset;
      if (!values.has(text)) values.set(text, {text, number: numberOf(overrides[key])});
    }
    const listed = [...values.values()];
    const given = listed.filter(({text}) => text !== kUnset);
    this.numeric = given.every(({number}) => number !== null);
    const last = (value) => (value.text === kUnset ? 1 : 0);
    listed.sort((a, b) => last(a) - last(b) || (this.numeric ? a.number - b.number : 0));
    this.values = listed;
    this.places = new Map(listed.map(({text}, k) => [text, k]));
    this.complete = given.length === listed.length;
  }
  get varies() { return this.values.length > 1; }
  text(point) { return point.settings?.[this.key] ?? kUnset; }
  of(point) { return this.places.get(this.text(point)); }
  // Where each value lies on an axis from 0 to 1 (`places`), and whether that axis is logarithmic.
  scale() {
    const last = Math.max(this.values.length - 1, 1);
    const evenly = {places: this.values.map((_, k) => k / last), ofNumbers: false};
    if (!this.numeric || !this.complete) return evenly;
    const numbers = this.values.map(({number}) => number);
    const [low, high] = [numbers[0], numbers[numbers.length - 1]];
    // Ratios that hardly differ are drawn evenly, else differences.
    const logarithmic = low > 0 && high / low >= kLogarithmic &&
        numbers.every((number, k) => k === 0 || number / numbers[k - 1] >= 1.25);
    const place = logarithmic ? (v) => Math.log(v / low) / Math.log(high / low) :
                                (v) => (v - low) / (high - low || 1);
    return {places: numbers.map(place), ofNumbers: true, logarithmic};
  }
  // The same, with few values evenly apart.
  axis() {
    const last = Math.max(this.values.length - 1, 1);
    if (this.values.length <= kOrdinal) return this.values.map((_, k) => k / last);
    return this.scale().places;
  }
  // At most `most` groups of neighbouring values: {texts, first, groupOf, each}; of a group its
  // first value is named.
  groups(most) {
    const each = Math.ceil(this.values.length / most);
    const first = this.values.map((_, k) => k).filter((k) => k % each === 0);
    const name = (k) => (each === 1 ? this.values[k].text : `${this.values[k].text} …`);
    return {
      each,
      first,
      texts: first.map(name),
      groupOf: (point) => Math.floor(this.of(point) / each)
    };
  }
}

export function sweptKeys(points) {
  const keys = new Set();
  for (const point of points)
    for (const key of Object.keys(point.overrides ?? {}))
      keys.add(key);
  const list = [...keys];
  const names = shortNames(list);
  return list.map((key, k) => new SweptKey(key, names[k], points));
}

// Figures of points: `of(point)` is null where there is none; `most`: more is better.
export function figuresOf({points, time_of: timeOf}) {
  const ofTokens = points.every((point) => !fits(point) || point.throughput.tokens_per_second > 0);
  const rate = ofTokens ? 'tokens_per_second' : 'samples_per_second';
  const built = (value) => (point) => (point.status === 'error' ? null : value(point));
  const time = (seconds) => (seconds === null ? null : seconds * 1e9);
  return [
    {
      id: 'memory',
      name: 'device memory',
      kind: 'bytes',
      of: built((point) => point.memory.device_needed),
      text: formatBytes
    },
    {
      id: 'live',
      name: 'peak live',
      kind: 'bytes',
      of: built((point) => point.memory.peak_live),
      text: formatBytes
    },
    {
      id: 'time',
      name: `time of ${timeOf}`,
      kind: 'time',
      of: built((point) => time(point.time.compared)),
      text: formatTime
    },
    {
      id: 'rate',
      name: ofTokens ? 'tokens/s' : 'samples/s',
      kind: 'number',
      most: true,
      of: built(
          (point) => (fits(point) && point.throughput[rate] > 0 ? point.throughput[rate] : null)),
      text: formatRate
    },
  ];
}

// The best of points by a figure, one that fits before any other; null where none has the figure.
export function bestOf(points, figure) {
  let best = null;
  for (const point of points) {
    const value = figure.of(point);
    if (value === null) continue;
    const better = best === null ||
        (fits(point) === fits(best) ?
             (figure.most ? value > figure.of(best) : value < figure.of(best)) :
             fits(point));
    if (better) best = point;
  }
  return best;
}
