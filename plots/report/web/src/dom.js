// Elements and canvases.

// make('td.right', {title}, 'text', child, ...): text is never read as HTML.
export function make(tag, ...rest) {
  const [name, ...classes] = tag.split('.');
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(' ');
  for (const part of rest.flat()) {
    if (part === null || part === undefined || part === false) continue;
    if (part instanceof Node || typeof part === 'string') {
      element.append(part);
    } else {
      for (const [key, value] of Object.entries(part)) {
        if (key.startsWith('on'))
          element.addEventListener(key.slice(2), value);
        else if (key === 'style')
          element.style.cssText = value;
        else if (value !== false && value !== undefined)
          element.setAttribute(key, value);
      }
    }
  }
  return element;
}

export const swatch = (colour) => make('span.swatch', {style: `background:${colour}`});

export function colourOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// Fits a canvas to its box in device pixels and returns its context, scaled to CSS pixels.
export function fitCanvas(canvas, width, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, 3);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext('2d');
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// Calls `draw` once before the next frame, however often it is asked for.
export function onNextFrame(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}

// The gutter on the left of every panel over time, so that their times lie above each other.
export const gutter = () => (window.innerWidth < 640 ? 66 : 76);
export const kMargin = 12;  // on the right

export function panel(title, note, ...children) {
  return make(
      'section.panel', make('header', make('h2', title), note ? make('p', note) : null),
      ...children);
}

export function empty(text) { return make('p.empty', text); }

// Buttons of which one is pressed: choices [[value, label], ...]. Arrow keys move between them.
export function choice(label, choices, value, choose) {
  const group = make('div.choice', {role: 'radiogroup', 'aria-label': label});
  const show = (chosen) => {
    for (const button of group.children) {
      const on = button.dataset.value === chosen;
      button.setAttribute('aria-checked', on);
      button.tabIndex = on ? 0 : -1;
    }
  };
  group.addEventListener('keydown', (event) => {
    const by = {ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1}[event.key];
    if (by === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    const buttons = [...group.children];
    const next = buttons[(buttons.indexOf(event.target) + by + buttons.length) % buttons.length];
    choose(next.dataset.value);
    next.focus();
  });
  for (const [key, text] of choices) {
    const button =
        make('button', {type: 'button', role: 'radio', onclick: () => choose(key)}, text);
    button.dataset.value = key;
    group.append(button);
  }
  show(value);
  return {element: group, show};
}

// What floats beside the pointer.
export class Tooltip {
  constructor() {
    this.element = make('div.tooltip', {role: 'status', hidden: ''});
    document.body.append(this.element);
  }
  show(x, y, ...children) {
    this.element.replaceChildren(...children.filter((child) => child));
    this.element.hidden = false;
    const {width, height} = this.element.getBoundingClientRect();
    const left = x + 16 + width > window.innerWidth ? x - 16 - width : x + 16;
    const top = Math.min(y + 12, window.innerHeight - height - 8);
    this.element.style.transform = `translate(${Math.max(left, 6)}px, ${Math.max(top, 6)}px)`;
  }
  hide() { this.element.hidden = true; }
}
