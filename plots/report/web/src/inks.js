// Inks of areas: a colour under hatching, as in the figures for papers, so that areas can be told
// apart without seeing colours.
import {fitCanvas, make} from './dom.js';

const kSide = 8;  // pixels of the square that a hatching repeats
const kDots = 6;  // the hatching of dots

// Dark strokes on light inks and light ones on dark inks (ITU-R BT.601 luma).
function strokeOn(colour) {
  const match = /^#(..)(..)(..)$/.exec(colour);
  const [r, g, b] = match ? match.slice(1).map((hex) => parseInt(hex, 16)) :
                            colour.match(/[\d.]+/g).map(Number);
  return 0.299 * r + 0.587 * g + 0.114 * b > 110 ? '#333333' : '#eeeeee';
}

function paint(context, {colour, hatch}, hatches, width, height) {
  context.fillStyle = colour;
  context.fillRect(0, 0, width, height);
  if (!hatch) return;
  context.strokeStyle = strokeOn(colour);
  context.lineWidth = hatch === kDots ? 2 : 1;
  context.lineCap = hatch === kDots ? 'round' : 'butt';
  for (let left = 0; left < width; left += kSide) {
    for (let top = 0; top < height; top += kSide) {
      for (const [x0, y0, x1, y1] of hatches[hatch]) {
        context.beginPath();
        context.moveTo(left + x0, top + y0);
        context.lineTo(left + x1, top + y1);
        context.stroke();
      }
    }
  }
}

// What fillStyle takes. `scaled`: the context counts in CSS pixels, not in those of the device.
export function fillOf(context, ink, hatches, scaled) {
  if (!ink.hatch) return ink.colour;
  const ratio = Math.min(window.devicePixelRatio || 1, 3);
  const tile = document.createElement('canvas');
  paint(fitCanvas(tile, kSide, kSide), ink, hatches, kSide, kSide);
  const pattern = context.createPattern(tile, 'repeat');
  if (scaled) pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}

// A sample of an ink, for legends and tables.
export function inkSwatch(ink, hatches) {
  const canvas = make('canvas.swatch', {'aria-hidden': 'true'});
  const [width, height] = ink.hatch ? [16, 12] : [12, 12];
  paint(fitCanvas(canvas, width, height), ink, hatches, width, height);
  return canvas;
}

// Hatchings for a list of areas that lie on each other: of two neighbours one has none.
const kTurns = [0, 1, 0, 2, 0, 6, 0, 3, 0, 5, 0, 4];
export const hatchInTurn = (k) => kTurns[k % kTurns.length];
