// Phases of the steps as bands behind a picture over time, as in the figures for papers.
import {colourOf} from './dom.js';

const kShort = {
  forward: 'fwd',
  backward: 'bwd',
  optimizer: 'opt'
};

// [{begin, end, phase}, ...] of the whole run, in order: from the first kernel of a phase to that of
// the next one.
export function phaseBands(run) {
  const [start, stream, kind, position] =
      ['start', 'stream', 'kind', 'position'].map((name) => run.columns[`work.${name}`]);
  const [phases, steps] = [run.columns['position.phase'], run.columns['position.step']];
  const bands = [];
  let last = {phase: -1};
  for (let i = 0; i < start.length; ++i) {
    if (stream[i] !== 0 || kind[i] !== 0) continue;
    const phase = phases[position[i]];
    const step = steps[position[i]];
    if (last.phase === phase && last.step === step) continue;
    last.end = start[i];
    last = {begin: bands.length ? start[i] : run.begin, end: run.end, phase, step};
    bands.push(last);
  }
  return bands;
}

// Shades every backward phase between `top` and `bottom`.
export function shadePhases(context, run, view, x, top, bottom) {
  context.fillStyle = colourOf('band');
  for (const {begin, end, phase} of run.bands) {
    if (run.description.phases[phase] !== 'backward' || end < view.begin || begin > view.end)
      continue;
    const [from, to] = [x(Math.max(begin, view.begin)), x(Math.min(end, view.end))];
    context.fillRect(from, top, to - from, bottom - top);
  }
}

// Names each phase between its edges, where it has room; the last one's at the end of the frame.
// `y` is the middle of the names. Returns what was written: [{text, left, right}, ...].
export function namePhases(context, run, view, x, y, scale = 1) {
  context.font = `${11 * scale}px system-ui, sans-serif`;
  context.textAlign = 'left';
  context.textBaseline = 'middle';
  context.fillStyle = colourOf('muted');
  const shown = run.bands.filter(({begin, end}) => end > view.begin && begin < view.end);
  const written = [];
  const write = (text, left, right) => {
    context.fillText(text, left, y);
    written.push({text, left, right});
  };
  const room = x(view.end);
  shown.forEach(({begin, end, phase}, k) => {
    const name = run.description.phases[phase];
    const [from, to] = [x(Math.max(begin, view.begin)), x(Math.min(end, view.end))];
    for (const text of [name, kShort[name] ?? name]) {
      const width = context.measureText(text).width;
      if (width + 6 * scale > to - from) continue;
      write(text, (from + to - width) / 2, (from + to + width) / 2);
      return;
    }
    if (k + 1 < shown.length) return;
    const text = kShort[name] ?? name;
    const left = room - context.measureText(text).width;
    if (written.every(({right}) => right + 4 * scale < left)) write(text, left, room);
  });
  return written;
}
