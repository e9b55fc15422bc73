// The words of a caption over the frames of its video: a chosen word lights up what it was read from.

import { announce, element, percentText, svg } from './dom.js';
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
    strip.classList.toggle('few', items.length > 1 && items.length <= 4);
    hint.textContent = ['Choose a word to see the weights of its attention.', ...legend(drawing)].join(' ');
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
    'div', { className: 'words', role: 'radiogroup', 'aria-label': 'Words of the caption', dir: 'auto' },
    ...buttons);
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
  const next = Math.min(at + 1, last), previous = Math.max(at - 1, 0);
  const isLeftward = getComputedStyle(event.currentTarget).direction === 'rtl';
  const to = {
    ArrowDown: next, ArrowUp: previous, Home: 0, End: last,
    ArrowRight: isLeftward ? previous : next, ArrowLeft: isLeftward ? next : previous,
  }[event.key];
  if (at < 0 || to === undefined) return;
  event.preventDefault();
  buttons[to].focus();
}

/** What the marks of a drawing mean. */
function legend(drawing) {
  const texts = [];
  if (drawing.grid) texts.push('Yellow: the places.');
  else if (drawing.places) {
    texts.push(drawing.items.some(hasBoxes) ? 'Boxes: the regions, brighter the larger their weights.'
      : 'Bars below a frame: its regions, in their order.');
  }
  if (drawing.chosen.length) texts.push(`${MARK}: the frames that the model chose for the word.`);
  if (drawing.items.some(item => item.isKey)) {
    texts.push(`${MARK} key frame: the model reads the video from there.`);
  }
  return texts;
}

const MARK = '\u2605';
const hasBoxes = item => Boolean(item.picture && item.boxes);

const timeText = time => `${time.toFixed(1)} s`;

function makeItem(drawing, index) {
  const item = drawing.items[index];
  const { title, picture: source, time } = item;
  // Only pictures inside the answer, or in the folder of a report, are shown.
  const picture = /^(data:image\/|pictures\/[\w-]+\.jpg$)/.test(source)
    ? element('img', { src: source, alt: title }) : null;
  const canvas = picture && drawing.grid ? element('canvas', { 'aria-hidden': 'true' }) : null;
  if (canvas) [canvas.height, canvas.width] = drawing.grid;
  const isOfRegions = drawing.places && !drawing.grid;
  const boxes = isOfRegions && hasBoxes(item) ? item.boxes.map(makeBox) : null;
  const overlay = boxes && svg('svg', {
    viewBox: '0 0 1000 1000', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, ...boxes.filter(Boolean));
  const bars = isOfRegions && !boxes ? drawing.places[0][index].map(() => element('i')) : null;
  const fill = element('i');
  const percent = element('span');
  const name = element('span', {}, time === null ? title : timeText(time));
  const mark = element('b', {});
  const box = element(
    'li', {},
    picture && element('div', { className: 'frame' }, picture, canvas, overlay),
    element('div', { className: 'bar', 'aria-hidden': 'true' }, fill),
    bars && element('div', { className: 'regions', 'aria-hidden': 'true' }, ...bars),
    element('div', { className: 'figures' }, mark, name, percent));
  return { box, picture, canvas, boxes, bars, fill, percent, mark };
}

/** The outline of a region; null for an absent one. */
function makeBox(corners) {
  if (!corners) return null;
  const [left, top, right, bottom] = corners;
  return svg('rect', { x: left, y: top, width: right - left, height: bottom - top });
}

function lightUp(drawing, items, word) {
  const row = drawing.weights[word];
  const largest = Math.max(...row, 1e-9);
  const places = drawing.places?.[word];
  const brightest = places ? Math.max(...places.flat(), 1e-9) : 1;
  items.forEach(({ box, picture, canvas, boxes, bars, fill, percent, mark }, i) => {
    const { title, isKey } = drawing.items[i];
    const isChosen = Boolean(drawing.chosen[word]?.includes(i));
    box.className = row.length > 1 && row[i] === largest && row[i] > 0 ? 'most' : '';
    box.classList.toggle('marked', isKey || isChosen);
    mark.textContent = isKey ? `${MARK} key frame` : isChosen ? MARK : '';
    if (picture) picture.alt = title + (isKey ? ', key frame' : isChosen ? ', chosen for the word' : '');
    if (picture) picture.style.opacity = String(0.25 + 0.75 * (row[i] / largest));
    fill.style.width = `${100 * (row[i] / largest)}%`;
    percent.textContent = percentText(row[i]);
    if (canvas) paint(canvas, places[i], brightest);
    boxes?.forEach((shape, region) => {
      if (!shape) return;
      const strength = (places[i][region] ?? 0) / brightest;
      shape.style.opacity = String(0.15 + 0.85 * strength);
      shape.style.strokeWidth = `${1 + 3 * strength}px`;
    });
    bars?.forEach((bar, region) => {
      bar.style.height = `${100 * (places[i][region] / brightest)}%`;
    });
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
  const parts = [`${text}: ${percentText(row[largest])} on ${frameText(drawing.items[largest])}`];
  if (drawing.places && row[largest] > 0) {
    parts.push(`most of it on ${placeText(drawing, word, largest)}`);
  }
  if (drawing.chosen[word]?.length) {
    parts.push(`chosen: ${drawing.chosen[word].map(i => frameText(drawing.items[i])).join(' and ')}`);
  }
  const key = drawing.items.find(item => item.isKey);
  if (key) parts.push(`key frame: ${frameText(key)}`);
  return parts.join('; ');
}

const frameText = ({ title, time }) => time === null ? title : `the frame at ${time.toFixed(1)} seconds`;

/** The place of a frame with the largest weight, counted from 1. */
function placeText(drawing, word, frame) {
  const weights = drawing.places[word][frame];
  const place = weights.indexOf(Math.max(...weights));
  if (!drawing.grid) return `region ${place + 1} of ${weights.length}`;
  const [rows, columns] = drawing.grid;
  return `row ${1 + Math.floor(place / columns)} of ${rows}, column ${1 + place % columns} of ${columns}`;
}
