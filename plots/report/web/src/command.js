// The command that draws a point whose charts are not in the page.
import {make} from './dom.js';

// A word as a shell reads it.
const shellWord = (word) =>
    (/^[\w./=:,+\-%@]+$/.test(word) ? word : `'${word.replaceAll('\'', '\'\\\'\'')}'`);

// JSON as YAML in one line, [checkpoint_every: {period: 1}], as a person would write it.
function inLine(value) {
  if (Array.isArray(value)) {
    return `[${value.map((item) => (isSingle(item) ? entries(item) : inLine(item))).join(', ')}]`;
  }
  if (value !== null && typeof value === 'object') return `{${entries(value)}}`;
  if (typeof value !== 'string') return String(value);
  const word = /^[A-Za-z_./][\w ./+%@-]*$/.test(value) && value.trim() === value &&
      !/^(true|false|null|yes|no|on|off|y|n)$/i.test(value);
  const size = /^\d+(\.\d+)?\s?(%|[kKMGT]?i?B)$/.test(value);
  return word || size ? value : JSON.stringify(value);
}
const isSingle = (item) => item !== null && typeof item === 'object' && !Array.isArray(item) &&
    Object.keys(item).length === 1;
const entries = (object) =>
    Object.entries(object).map(([key, item]) => `${key}: ${inLine(item)}`).join(', ');

export function commandOf(point, summary) {
  const settings =
      Object.entries(point.overrides ?? {}).map(([key, value]) => `${key}=${inLine(value)}`);
  const words = [...settings, 'report.formats=[html]'].map((word) => `-s ${shellWord(word)}`);
  const start = summary.point_command || 'tidemark run SCENARIO -s sweep=null';
  return `${start} ${words.join(' ')} -o point-${point.number + 1}`;
}

// What stands where the charts of a point were asked for.
export function commandNote(point, summary) {
  return make(
      'div.command', {role: 'status'},
      `Point ${point.number + 1} has no charts in this page. This draws them:`,
      make('code.reproduce', commandOf(point, summary)));
}
