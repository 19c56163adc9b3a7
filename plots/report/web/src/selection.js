// Ranges that were drawn on axes, and the points that lie in all of them.
export class Selection {
  constructor() {
    this.ranges = new Map();  // by axis: {low, high, at(point)}
    this.listeners = [];
  }
  get active() { return this.ranges.size > 0; }
  listen(listener) { this.listeners.push(listener); }
  holds(point) {
    for (const {low, high, at} of this.ranges.values()) {
      const place = at(point);
      if (place === null || place < low || place > high) return false;
    }
    return true;
  }
  // `range` null: all of the axis. Listeners are told once `tell()` is called.
  set(axis, range) {
    if (range === null)
      this.ranges.delete(axis);
    else
      this.ranges.set(axis, range);
  }
  clear() {
    this.ranges.clear();
    this.tell();
  }
  tell() {
    for (const listener of this.listeners)
      listener();
  }
}
