// Elements whose text is always set as text: names, captions and messages are never read as HTML.

/** Makes an element: properties by name, then children (elements or texts; null is left out). */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith('aria-') || name.startsWith('data-') || name === 'role') {
      made.setAttribute(name, value);
    } else {
      made[name] = value;
    }
  }
  made.append(...children.filter(child => child !== null));
  return made;
}

/** Makes an SVG element: attributes by name, then children. */
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** A labelled form field with a hint below it. */
export function labelled(label, input, hint = '') {
  const id = `hint-${input.name}`;
  if (hint) input.setAttribute('aria-describedby', id);
  return element(
    'div', {}, element('label', {}, label, input), hint ? element('small', { id }, hint) : null);
}

export const byId = id => document.getElementById(id);

/** Tells people who use a screen reader, without moving the focus. */
export function announce(text) {
  byId('announcement').textContent = text;
}

/** Shows a problem in its place, or hides it if the text is empty. */
export function showProblem(place, text) {
  place.textContent = text;
  place.hidden = !text;
}

/** A size in the server's megabytes, 2^20 bytes. */
export function bytesText(bytes) {
  const megabytes = bytes / 2 ** 20;
  return `${megabytes < 10 ? Math.max(0.1, megabytes).toFixed(1) : Math.round(megabytes)} MB`;
}

export function durationText(seconds) {
  if (seconds < 120) return `${seconds} seconds`;
  return `${Number((seconds / 60).toFixed(1))} minutes`;
}

export function percentText(share) {
  const percent = 100 * share;
  if (percent >= 9.95 || percent === 0) return `${percent.toFixed(0)} %`;
  if (percent >= 0.1) return `${percent.toFixed(1)} %`;
  return percent < 0.001 ? '< 0.001 %' : `${percent.toPrecision(1)} %`;
}
