// Figures in words. Memory in binary units, as everywhere in Tidemark.

const kByteUnits = [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']];
const kTimeUnits = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];

// Three significant digits, without an exponent.
function short(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

export function formatBytes(bytes) {
  for (const [size, unit] of kByteUnits) {
    if (Math.abs(bytes) >= size * 0.9995) return `${short(bytes / size)} ${unit}`;
  }
  return `${bytes} B`;
}

export function formatTime(nanoseconds) {
  if (nanoseconds === 0) return '0';
  for (const [size, unit] of kTimeUnits) {
    if (Math.abs(nanoseconds) >= size * 0.9995) return `${short(nanoseconds / size)} ${unit}`;
  }
  return `${short(nanoseconds)} ns`;
}

export const formatSeconds = (seconds) => formatTime(seconds * 1e9);
export const formatCount = (count) => Math.round(count).toLocaleString('en-US');

// Three digits, and whole numbers beyond.
export const formatRate = (rate) => (rate >= 999.5 ? formatCount(rate) : rate.toPrecision(3));

export function formatShare(part, whole) {
  if (!(whole > 0)) return '';
  const percent = (part / whole) * 100;
  if (percent > 0 && percent < 0.1) return '< 0.1 %';
  return `${percent >= 9.95 || percent === 0 ? percent.toFixed(0) : percent.toFixed(1)} %`;
}

// The unit in which an axis up to `largest` reads best: {size, unit}.
export function unitOf(largest, ofTime) {
  const units = ofTime ? kTimeUnits : kByteUnits;
  for (const [size, unit] of units) {
    if (largest >= size) return {size, unit};
  }
  return {size: 1, unit: ofTime ? 'ns' : 'B'};
}

// Distances between marks of an axis: 1, 2, 5, 10, ... or powers of two for memory.
export function niceStep(span, marks, ofBytes) {
  const raw = span / Math.max(marks, 1);
  if (ofBytes) return 2 ** Math.ceil(Math.log2(raw));
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].find((factor) => factor * power >= raw) * power;
}

// A text in at most `most` letters: its middle is left out, as names often differ at their ends.
export function clipped(text, most) {
  if (text.length <= most) return text;
  const kept = Math.max(most - 1, 2);
  const head = Math.ceil(kept * 0.55);
  return `${text.slice(0, head)}…${text.slice(text.length - (kept - head))}`;
}
