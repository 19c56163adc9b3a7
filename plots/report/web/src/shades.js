// Colours for quantities: one scale from little to much, for each theme, with what can be read on
// it.
const kShades = {
  light: ['#edf3fa', '#6fa3d8', '#0a2f6b'],
  dark: ['#1c2634', '#3a6ea8', '#b9dcff']
};
// Of lines, which must stand out from the page at both ends.
const kLines = {
  light: ['#d98200', '#1f8f86', '#3d1f80'],
  dark: ['#ffd84d', '#38b5a8', '#9484ee']
};

function themeNow() {
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  return document.documentElement.dataset.theme ?? (dark ? 'dark' : 'light');
}

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

function mixed(stops, share) {
  const at = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const k = Math.min(Math.floor(at), stops.length - 2);
  const [a, b] = [channels(stops[k]), channels(stops[k + 1])];
  return a.map((value, c) => Math.round(value + (b[c] - value) * (at - k)));
}

const css = (rgb) => `rgb(${rgb.join(', ')})`;

// Black or white, whichever is easier to read: one of both has a contrast of 4.5 to any colour.
function inkOn(rgb) {
  const [r, g, b] = rgb.map((value) => {
    const share = value / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? '#000' : '#fff';
}

// {ground, ink} of a share of the scale.
export function shadeOf(share) {
  const rgb = mixed(kShades[themeNow()], share);
  return {ground: css(rgb), ink: inkOn(rgb)};
}
export const lineShade = (share) => css(mixed(kLines[themeNow()], share));

// The whole scale as a background.
const gradient = (stops) => `linear-gradient(to right, ${stops.join(', ')})`;
export const shadesBar = () => gradient(kShades[themeNow()]);
export const linesBar = () => gradient(kLines[themeNow()]);

const kLogarithmic = 20;  // times the smallest quantity: beyond, ratios are shown evenly

// Shares of a scale between two quantities: {share(value), words}.
export function scaleOf(low, high) {
  if (!(high > low)) return {share: () => 0.5, words: ''};
  if (low > 0 && high / low >= kLogarithmic) {
    const span = Math.log(high / low);
    return {share: (value) => Math.log(value / low) / span, words: ' (logarithmic)'};
  }
  return {share: (value) => (value - low) / (high - low), words: ''};
}
