// The whole run in one strip, with the part that is shown; dragging moves it.
import {colourOf, fitCanvas, gutter, kMargin, make, onNextFrame} from './dom.js';
import {thinTotal} from './stack.js';

const kHeight = 40;

export class Overview {
  constructor(run, view) {
    this.run = run;
    this.view = view;
    this.canvas =
        make('canvas', {role: 'img', 'aria-label': 'The whole run; drag to move the part shown'});
    this.box = make('div.overview', this.canvas);
    this.redraw = onNextFrame(() => this.draw());
    view.listen((what) => {
      if (what === 'range') this.redraw();
    });
    new ResizeObserver(this.redraw).observe(this.box);
    let grip = null;
    this.canvas.addEventListener('pointerdown', (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      const time = this.#timeAt(event.offsetX);
      if (time < view.begin || time > view.end) {
        const span = view.end - view.begin;
        view.setRange(time - span / 2, time + span / 2);
      }
      grip = time - view.begin;
    });
    this.canvas.addEventListener('pointermove', (event) => {
      if (grip === null) return;
      const span = view.end - view.begin;
      const begin = this.#timeAt(event.offsetX) - grip;
      view.setRange(begin, begin + span);
    });
    for (const end of ['pointerup', 'pointercancel']) {
      this.canvas.addEventListener(end, () => {
        grip = null;
      });
    }
  }

  #timeAt(x) {
    const {run} = this;
    const width = this.box.clientWidth - gutter() - kMargin;
    return run.begin + (x - gutter()) / width * (run.end - run.begin);
  }

  draw() {
    const width = this.box.clientWidth;
    if (width === 0) return;
    const {run, view} = this;
    const left = gutter();
    const inner = width - left - kMargin;
    const context = fitCanvas(this.canvas, width, kHeight);
    if (this.line?.width !== inner) {
      this.line = {width: inner, ...thinTotal(run, run.begin, run.end, Math.max(inner, 10))};
    }
    const x = (time) => left + (time - run.begin) / (run.end - run.begin) * inner;
    const most = this.line.y.reduce((a, b) => Math.max(a, b), 1);
    const y = (bytes) => kHeight - 1 - bytes / most * (kHeight - 6);
    context.fillStyle = colourOf('lane');
    context.fillRect(left, 0, inner, kHeight);
    context.beginPath();
    context.moveTo(left, kHeight);
    let level = y(this.line.y[0]);
    this.line.x.forEach((time, k) => {
      context.lineTo(x(time), level);
      level = y(this.line.y[k]);
      context.lineTo(x(time), level);
    });
    context.lineTo(left + inner, kHeight);
    context.closePath();
    context.fillStyle = colourOf('silhouette');
    context.fill();
    const [from, to] = [x(view.begin), x(view.end)];
    context.fillStyle = colourOf('veil');
    context.fillRect(left, 0, from - left, kHeight);
    context.fillRect(to, 0, left + inner - to, kHeight);
    context.strokeStyle = colourOf('accent');
    context.lineWidth = 1.5;
    context.strokeRect(from + 0.75, 0.75, Math.max(to - from - 1.5, 2), kHeight - 1.5);
  }
}
