// Whether texts can be read: WCAG 2.1, 1.4.3 asks for a contrast of 4.5 : 1.
// Measured between the colour of every text that is shown and the ground that it stands on.
function lowest() {
  const channel = (value) => {
    const share = value / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  };
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
    return [r, g, b, a];
  };
  const groundOf = (element) => {
    for (let at = element; at !== null; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    return [255, 255, 255, 1];
  };
  let least = {ratio: 21, text: ''};
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const text = texts.currentNode.textContent.trim();
    if (text === '' || element.getClientRects().length === 0 ||
        /SCRIPT|STYLE/.test(element.tagName))
      continue;
    const style = getComputedStyle(element);
    const ink = parse(element.namespaceURI.endsWith('svg') ? style.fill : style.color);
    const [x, y] = [luminance(ink), luminance(groundOf(element))];
    const ratio = (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
    if (ratio < least.ratio) least = {ratio, text};
  }
  // What canvases write, on their panels and lanes.
  const variable = (name) => {
    const probe = document.body.appendChild(document.createElement('i'));
    probe.style.color = `var(--${name})`;
    const colour = parse(getComputedStyle(probe).color);
    probe.remove();
    return colour;
  };
  const drawn = [['muted', 'surface'], ['bad', 'surface'], ['ink', 'surface']];
  for (const name of ['forward', 'backward', 'optimizer', 'copy', 'communication'])
    drawn.push(['white', name]);
  for (const [ink, ground] of drawn) {
    const [x, y] =
        [luminance(ink === 'white' ? [255, 255, 255] : variable(ink)), luminance(variable(ground))];
    const ratio = (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
    if (ratio < least.ratio) least = {ratio, text: `${ink} on ${ground}`};
  }
  return least;
}

export async function contrast(checks, name) {
  await checks.with(`${name}.html`, {}, async (page) => {
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({colorScheme});
      const {ratio, text} = await page.evaluate(lowest);
      checks.check(
          ratio >= 4.5, `texts of ${name} can be read, ${colorScheme}`,
          `${ratio.toFixed(2)} of "${text}"`);
    }
  });
}
