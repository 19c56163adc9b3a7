// What the panels of one run share: the part of time that is shown, the instant that was chosen and
// the one under the pointer.

const kClosest = 50;  // nanoseconds across the screen

export class View {
  // `before`: a view of the same run whose part, instant and grouping this one takes over.
  constructor(run, before) {
    this.run = run;
    this.grouping = before?.grouping ?? 'role';
    this.listeners = [];
    this.instant = before?.instant ?? run.peak;  // a point of the run
    this.hovered = null;                         // a time
    this.lifetime = null;                        // the allocation whose lifetime is marked
    this.home = [Math.max(run.lastStepBegin, run.begin), run.end];
    [this.begin, this.end] = before ? [before.begin, before.end] : this.home;
  }

  // `listener(what)`: 'range', 'instant', 'hover', 'lifetime' or 'grouping'.
  listen(listener) { this.listeners.push(listener); }
  #tell(what) {
    for (const listener of this.listeners)
      listener(what);
  }

  setRange(begin, end) {
    const {run} = this;
    const whole = run.end - run.begin;
    const span = Math.min(Math.max(end - begin, Math.min(kClosest, whole)), whole);
    const middle = (begin + end) / 2;
    let from = Math.min(Math.max(middle - span / 2, run.begin), run.end - span);
    this.begin = from;
    this.end = from + span;
    this.#tell('range');
  }
  zoom(factor, around = (this.begin + this.end) / 2) {
    const share = (around - this.begin) / (this.end - this.begin);
    const span = (this.end - this.begin) * factor;
    this.setRange(around - share * span, around + (1 - share) * span);
  }
  pan(share) {
    const by = (this.end - this.begin) * share;
    this.setRange(this.begin + by, this.end + by);
  }
  reset() { this.setRange(...this.home); }
  showAll() { this.setRange(this.run.begin, this.run.end); }

  // `reveal`: brings it into sight.
  choose(point, reveal = false) {
    this.instant = Math.min(Math.max(point, 0), this.run.count - 1);
    if (reveal) {
      const time = this.run.time[this.instant];
      const span = this.end - this.begin;
      if (time < this.begin || time > this.end) this.setRange(time - span / 2, time + span / 2);
    }
    this.#tell('instant');
  }
  hover(time) {
    if (time === this.hovered) return;
    this.hovered = time;
    this.#tell('hover');
  }
  // Marks from when to when an allocation lives; null: none.
  markLifetime(allocation) {
    if (allocation === this.lifetime) return;
    this.lifetime = allocation;
    this.#tell('lifetime');
  }
  // The step that the part shown lies in, -1 where there are several; times count from 0 of it.
  get step() {
    for (let k = this.run.description.steps - 1; k >= 0; --k) {
      const [from, to] = this.run.stepSpan(k);
      const slack = (to - from) * 0.02;
      if (this.begin >= from - slack && this.end <= to + slack) return k;
    }
    return -1;
  }
  get origin() { return this.step < 0 ? this.run.begin : this.run.stepSpan(this.step)[0]; }
  get timeTitle() {
    if (this.step < 0) return 'time of the run';
    return this.run.description.steps > 1 ? `time in step ${this.step}` : 'time in the step';
  }
  group(kind) {
    this.grouping = kind;
    this.#tell('grouping');
  }
}

// Zooming and panning that work the same on every panel over time. `timeAt(x)` is the time at a
// pixel of the element. Dragging is the panel's own.
export function attachGestures(element, view, timeAt) {
  element.addEventListener('wheel', (event) => {
    const rect = element.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      view.zoom(
          Math.exp(Math.min(Math.max(event.deltaY, -60), 60) * 0.01),
          timeAt(event.clientX - rect.left));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      view.pan((event.shiftKey ? event.deltaY || event.deltaX : event.deltaX) / rect.width);
    }
  }, {passive: false});
  let pinch = null;
  element.addEventListener('touchstart', (event) => {
    if (event.touches.length !== 2) return;
    const [a, b] = event.touches;
    pinch = {
      distance: Math.abs(a.clientX - b.clientX),
      begin: view.begin,
      end: view.end,
      x: (a.clientX + b.clientX) / 2
    };
  }, {passive: true});
  element.addEventListener('touchmove', (event) => {
    if (pinch === null || event.touches.length !== 2) return;
    event.preventDefault();
    const rect = element.getBoundingClientRect();
    const [a, b] = event.touches;
    const span =
        (pinch.end - pinch.begin) * pinch.distance / Math.max(Math.abs(a.clientX - b.clientX), 10);
    const anchor = pinch.begin + (pinch.end - pinch.begin) * (pinch.x - rect.left) / rect.width;
    const share = ((a.clientX + b.clientX) / 2 - rect.left) / rect.width;
    view.setRange(anchor - span * share, anchor + span * (1 - share));
  }, {passive: false});
  element.addEventListener('touchend', () => {
    pinch = null;
  }, {passive: true});
}
