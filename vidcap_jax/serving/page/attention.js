// The words of a caption over the frames of its video: a chosen word lights up what it was read from.

import { announce, element, percentText } from './dom.js';
import { drawingsOf } from './maps.js';

/** The section of a result's attention; null if nothing of it can be drawn. */
export function attentionSection(attention) {
  const drawings = drawingsOf(attention);
  if (!drawings.length || !attention.words.length) return null;
  let drawing = drawings[0];
  let items = [];
  let word = mostCertain(drawing.weights);
  const hint = element('p', { className: 'muted small' });
  const strip = element('ol', { className: 'strip' });
  const buttons = attention.words.map(text => element(
    'button', { type: 'button', role: 'radio', 'aria-checked': 'false', tabIndex: -1 }, text));
  const select = (index, spoken = false) => {
    word = index;
    buttons.forEach((button, i) => {
      button.setAttribute('aria-checked', String(i === index));
      button.tabIndex = i === index ? 0 : -1;
    });
    lightUp(drawing, items, index);
    if (spoken) announce(summary(drawing, attention.words[index], index));
  };
  const draw = chosen => {
    drawing = chosen;
    items = drawing.items.map((_, i) => makeItem(drawing, i));
    strip.replaceChildren(...items.map(item => item.box));
    strip.classList.toggle('single', items.length === 1);
    hint.textContent = 'Choose a word to see the weights of its attention.'
      + (drawing.places ? ' Yellow: the places.' : '');
    select(word);
  };
  buttons.forEach((button, index) => {
    button.addEventListener('pointerenter', event => {
      if (event.pointerType === 'mouse') select(index);
    });
    button.addEventListener('click', () => select(index, true));
    button.addEventListener('focus', () => select(index, true));
  });
  const group = element(
    'div', { className: 'words', role: 'radiogroup', 'aria-label': 'Words of the caption' }, ...buttons);
  group.addEventListener('keydown', event => moveWithKeys(event, buttons));
  draw(drawing);
  return element(
    'section', { className: 'attention', 'aria-label': 'Attention' }, chooser(drawings, draw), hint,
    group, strip);
}

/** The name of the attention, or a list of names to choose from. */
function chooser(drawings, draw) {
  if (drawings.length === 1) return element('h3', {}, `Attention: ${drawings[0].name}`);
  const names = element(
    'select', {}, ...drawings.map(({ name }, i) => element('option', { value: i }, name)));
  names.addEventListener('change', () => draw(drawings[Number(names.value)]));
  return element('h3', {}, element('label', {}, 'Attention: ', names));
}

/** The word whose largest weight is the largest of all, as an example to begin with. */
function mostCertain(weights) {
  const largest = weights.map(row => Math.max(...row));
  return largest.indexOf(Math.max(...largest));
}

function moveWithKeys(event, buttons) {
  const at = buttons.indexOf(event.target);
  const last = buttons.length - 1;
  const to = {
    ArrowRight: Math.min(at + 1, last), ArrowDown: Math.min(at + 1, last),
    ArrowLeft: Math.max(at - 1, 0), ArrowUp: Math.max(at - 1, 0), Home: 0, End: last,
  }[event.key];
  if (at < 0 || to === undefined) return;
  event.preventDefault();
  buttons[to].focus();
}

const timeText = time => `${time.toFixed(1)} s`;

function makeItem(drawing, index) {
  const { title, picture: source, time } = drawing.items[index];
  // Only pictures inside the answer, or in the folder of a report, are shown.
  const picture = /^(data:image\/|pictures\/[\w-]+\.jpg$)/.test(source)
    ? element('img', { src: source, alt: title }) : null;
  const canvas = picture && drawing.places ? element('canvas', { 'aria-hidden': 'true' }) : null;
  if (canvas) [canvas.height, canvas.width] = drawing.grid;
  const fill = element('i');
  const percent = element('span');
  const name = time === null ? title : timeText(time);
  const box = element(
    'li', {},
    picture && element('div', { className: 'frame' }, picture, canvas),
    element('div', { className: 'bar', 'aria-hidden': 'true' }, fill),
    element('div', { className: 'figures' }, element('span', {}, name), percent));
  return { box, picture, canvas, fill, percent };
}

function lightUp(drawing, items, word) {
  const row = drawing.weights[word];
  const largest = Math.max(...row, 1e-9);
  const places = drawing.places?.[word];
  const brightest = places ? Math.max(...places.flat(), 1e-9) : 1;
  items.forEach(({ box, picture, canvas, fill, percent }, i) => {
    box.className = row.length > 1 && row[i] === largest ? 'most' : '';
    if (picture) picture.style.opacity = String(0.25 + 0.75 * (row[i] / largest));
    fill.style.width = `${100 * (row[i] / largest)}%`;
    percent.textContent = percentText(row[i]);
    if (canvas) paint(canvas, places[i], brightest);
  });
}

/** Paints the weights of a frame's places as yellow of different strength. */
function paint(canvas, weights, brightest) {
  const context = canvas.getContext('2d');
  const image = context.createImageData(canvas.width, canvas.height);
  weights.forEach((weight, i) => {
    image.data.set([255, 205, 20, 190 * (weight / brightest)], 4 * i);
  });
  context.putImageData(image, 0, 0);
}

function summary(drawing, text, word) {
  const row = drawing.weights[word];
  const largest = row.indexOf(Math.max(...row));
  const { title, time } = drawing.items[largest];
  const where = time === null ? title : `the frame at ${time.toFixed(1)} seconds`;
  return `${text}: ${percentText(row[largest])} on ${where}`;
}
