// The frame that canvases over time share: what is drawn stays while only the marks move; pointing,
// choosing, zooming and panning work the same on each.
import {colourOf, fitCanvas, gutter, kMargin, make, onNextFrame} from './dom.js';
import {attachGestures} from './view.js';

const kSoon = 100;  // pixels from where it is in sight

export class TimeCanvas {
  // `draw(context, width, x)` paints everything over the time that is shown, x(time) in pixels;
  // `hover(event, time)` tells what is under the pointer.
  // `over(context, x)` paints what moves, after the marks.
  constructor({run, view, tooltip, box, label, height, inset = 0, draw, hover, over = () => {}}) {
    this.run = run;
    this.view = view;
    this.box = box;
    this.height = height;
    this.inset = inset;  // pixels above and below that marks leave out
    this.paint = draw;
    this.over = over;
    this.canvas = make('canvas', {role: 'img', 'aria-label': label});
    box.append(this.canvas);
    this.redraw = onNextFrame(() => {
      if (this.#inSight()) this.draw();
    });
    new ResizeObserver(() => this.repaint()).observe(box);
    new IntersectionObserver(this.redraw, {rootMargin: `${kSoon}px 0px`}).observe(box);
    this.canvas.addEventListener('mousemove', (event) => {
      if (event.offsetX < gutter()) {
        tooltip.hide();
        return;
      }
      const time = this.timeAt(event.offsetX);
      view.hover(time);
      hover(event, time);
    });
    this.canvas.addEventListener('mouseleave', () => {
      tooltip.hide();
      view.hover(null);
    });
    this.canvas.addEventListener(
        'click', (event) => view.choose(run.pointAt(this.timeAt(event.offsetX))));
    this.canvas.addEventListener('dblclick', () => view.reset());
    attachGestures(this.canvas, view, (x) => this.timeAt(x));
  }

  // What is out of sight is drawn when it comes near: maps of long runs take long to draw.
  #inSight() {
    const {top, bottom} = this.box.getBoundingClientRect();
    return bottom > -kSoon && top < window.innerHeight + kSoon;
  }

  timeAt(x) {
    const width = this.box.clientWidth - gutter() - kMargin;
    return this.view.begin + (x - gutter()) / width * (this.view.end - this.view.begin);
  }

  // Everything anew: after a change of range, size or colours.
  repaint() {
    this.painted = null;
    this.redraw();
  }

  draw() {
    const width = this.box.clientWidth;
    if (width === 0) return;
    const left = gutter();
    const inner = width - left - kMargin;
    const {begin, end} = this.view;
    const x = (time) => left + (time - begin) / (end - begin) * inner;
    if (!this.painted || this.painted.width !== width) {
      const canvas = document.createElement('canvas');
      this.paint(fitCanvas(canvas, width, this.height), width, x);
      this.painted = {canvas, width};
    }
    const context = fitCanvas(this.canvas, width, this.height);
    context.drawImage(this.painted.canvas, 0, 0, width, this.height);
    if (this.view.lifetime !== null) {
      const [allocated, freed] = this.run.lifetimeOf(this.view.lifetime);
      const from = Math.max(x(allocated), left);
      context.fillStyle = colourOf('accent');
      context.globalAlpha = 0.16;
      if (freed > begin && allocated < end) {
        context.fillRect(
            from, this.inset, Math.max(Math.min(x(freed), left + inner) - from, 1),
            this.height - 2 * this.inset);
      }
      context.globalAlpha = 1;
    }
    const mark = (time, colour, thickness) => {
      if (time === null || time < begin || time > end) return;
      context.fillStyle = colour;
      context.fillRect(
          x(time) - thickness / 2, this.inset, thickness, this.height - 2 * this.inset);
    };
    mark(this.view.hovered, colourOf('faint'), 1);
    if (this.run.count > 0) mark(this.run.time[this.view.instant], colourOf('accent'), 1.5);
    this.over(context, x);
  }
}
