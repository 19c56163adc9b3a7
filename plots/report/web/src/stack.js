// The part of a run that a chart shows, thinned to its pixels. In each column of pixels the instant
// of the largest total stays, and the state at the end, so that neither a peak nor a level is lost.

// {x, total, tops, allocated, reserved, point}: `tops[g]` is the upper edge of group g, context
// included; point[k] is the point of the run that column k shows.
export function thinStack(run, grouping, begin, end, columns) {
  const {time, block, sign, bytes, live, count} = run;
  const active = run.columns['point.active'];
  const reserved = run.columns['point.reserved'];
  const {of, groups} = grouping;
  // The first point of the part: what came before is its state.
  let first = count === 0 ? 0 : run.pointAt(begin);
  while (first > 0 && time[first - 1] >= begin)
    --first;
  if (count > 0 && time[first] < begin) ++first;
  const state = grouping.before(first);
  const x = [];
  const point = [];
  const tops = Array.from({length: groups}, () => []);
  const allocatedLine = [];
  const reservedLine = [];
  const put = (at, i, sums) => {
    x.push(at);
    point.push(i);
    let top = run.context;
    for (let g = 0; g < groups; ++g) {
      top += sums[g];
      tops[g].push(top);
    }
    allocatedLine.push(run.context + (i >= 0 ? active[i] : 0));
    reservedLine.push(run.context + (i >= 0 ? reserved[i] : 0));
  };
  put(begin, first - 1, state);

  const width = (end - begin) / columns;
  const best = new Float64Array(groups);
  let bestPoint = -1;
  let bestLive = -1;
  let bestReserved = 0;
  let column = -1;
  let last = first - 1;
  const flush = () => {
    if (bestPoint < 0) return;
    put(time[bestPoint], bestPoint, best);
    reservedLine[reservedLine.length - 1] = run.context + bestReserved;
    if (last > bestPoint) put(time[last], last, state);
    bestPoint = -1;
    bestLive = -1;
    bestReserved = 0;
  };
  for (let i = first; i < count && time[i] <= end; ++i) {
    const c = Math.floor((time[i] - begin) / width);
    if (c !== column) {
      flush();
      column = c;
    }
    state[of[block[i]]] += sign[i] * bytes[block[i]];
    last = i;
    if (reserved[i] > bestReserved) bestReserved = reserved[i];
    if (live[i] > bestLive) {
      bestLive = live[i];
      bestPoint = i;
      best.set(state);
    }
  }
  flush();
  put(end, last, state);
  return {x, tops, allocated: allocatedLine, reserved: reservedLine, point};
}

// The same for one line: {x, y, point} of the total.
export function thinTotal(run, begin, end, columns) {
  const {time, live, count} = run;
  const x = [];
  const y = [];
  const width = (end - begin) / columns;
  let first = run.pointAt(begin);
  while (first > 0 && time[first - 1] >= begin)
    --first;
  if (time[first] < begin) ++first;
  x.push(begin);
  y.push(run.context + (first > 0 ? live[first - 1] : 0));
  let column = -1;
  let best = -1;
  let last = -1;
  const flush = () => {
    if (best < 0) return;
    x.push(time[best]);
    y.push(run.context + live[best]);
    if (last > best) {
      x.push(time[last]);
      y.push(run.context + live[last]);
    }
    best = -1;
  };
  for (let i = first; i < count && time[i] <= end; ++i) {
    const c = Math.floor((time[i] - begin) / width);
    if (c !== column) {
      flush();
      column = c;
    }
    if (best < 0 || live[i] > live[best]) best = i;
    last = i;
  }
  flush();
  x.push(end);
  y.push(y[y.length - 1]);
  return {x, y};
}
