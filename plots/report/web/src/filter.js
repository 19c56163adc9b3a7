// What is written into the field above the table: words, and terms such as micro_batch>=4.
import {statusOf} from './fronts.js';
import {numberOf} from './keys.js';

const kTimes = {
  ns: 1,
  us: 1e3,
  'µs': 1e3,
  ms: 1e6,
  s: 1e9
};
const kCompare = {
  '=': (a, b) => a === b,
  '!=': (a, b) => a !== b,
  '>=': (a, b) => a >= b,
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '<': (a, b) => a < b
};

const plain = (text) => text.toLowerCase().replace(/"/g, '');

// A limit on a figure: nanoseconds for times, bytes for sizes.
function limitOf(text, kind) {
  const match = kind === 'time' ? /^([\d.]+)\s*(ns|us|µs|ms|s)$/.exec(text) : null;
  return match ? Number(match[1]) * kTimes[match[2]] : numberOf(text);
}

// Returns what tests a point, or a string that says what is wrong with the term.
function termTest(term, keys, figures) {
  const match = /^([\w. /]+?)\s*(>=|<=|!=|=|>|<)(.+)$/.exec(term);
  if (!match) {
    const word = plain(term);
    return (point) => wordsOf(point).includes(word);
  }
  const [, written, operator, limited] = match;
  const name = written.replace(/\s+/g, ' ');
  const value = limited.trim().replace(/"/g, '');
  const compare = kCompare[operator];
  const key = keys.find((one) => one.name === name || one.key === name);
  const figure = figures.find((one) => one.id === name || one.name === name);
  if (!key && !figure) return `no column is named ${name}`;
  const limit = key ? numberOf(value) : limitOf(value, figure.kind);
  const ofNumbers = key ? key.numeric && limit !== null : true;
  if (limit === null && (figure || !/^!?=$/.test(operator))) return `${value} is no number`;
  if (figure) {
    return (point) => {
      const found = figure.of(point);
      return found !== null && compare(found, limit);
    };
  }
  const holds = key.values.map(
      ({text, number}) =>
          (ofNumbers ? number !== null && compare(number, limit) :
                       compare(text.toLowerCase(), value.toLowerCase())));
  return (point) => holds[key.of(point)];
}

function wordsOf(point) {
  point.words ??= `${point.label} ${statusOf(point)}`.toLowerCase();
  return point.words;
}

// Returns what matches one term: blanks belong to it between quotes, in a column's name before a
// comparison, and around that.
function termPattern(keys, figures) {
  const names = [...keys.flatMap(({name, key}) => [name, key]), ...figures.map(({name}) => name)];
  const spaced = names.filter((name) => /\s/.test(name))
                     .map((name) => name.replace(/[^\w\s]/g, '\\$&').replace(/\s+/g, '\\s+'));
  const name = [...spaced, '[^\\s"<>=!]+'].join('|');
  const value = '(?:[^\\s"]|"[^"]*")+';
  return new RegExp(`(?:${name})\\s*(?:>=|<=|!=|=|>|<)\\s*${value}|${value}`, 'g');
}

// Returns {test, wrong}: what tests a point, and what could not be understood.
export function parseFilter(text, keys, figures) {
  const terms = text.match(termPattern(keys, figures)) ?? [];
  const tests = terms.map((term) => termTest(term, keys, figures));
  const wrong = tests.filter((test) => typeof test === 'string');
  const right = tests.filter((test) => typeof test !== 'string');
  return {test: (point) => right.every((test) => test(point)), wrong};
}
