// Learning curves as inline SVG.

import { element, svg } from './dom.js';
import { nameText } from './texts.js';

const WIDTH = 420, HEIGHT = 240, LEFT = 58, RIGHT = 12, TOP = 12, BOTTOM = 38;

/** Round numbers between two values, about as many as given. */
function ticks(low, high, count) {
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(each => each >= raw * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(i * step);
  return found;
}

export function numberText(value) {
  return value === 0 || Math.abs(value) >= 1e-3
    ? String(Number(value.toPrecision(3))) : value.toExponential(1).replace('e', ' e');
}

function range(values) {
  const low = Math.min(...values), high = Math.max(...values);
  const margin = (high - low) * 0.05 || Math.abs(high) * 0.1 || 1;
  return [low - margin, high + margin];
}

// Names of scores have hyphens, as in tables; those of training are words.
const metricText = metric => /[A-Z]/.test(metric) ? nameText(metric) : metric.replaceAll('_', ' ');

/** A panel with a line for each run: {metric, kind, by, lines: [{label, points}]}. */
export function chart(panel) {
  const points = panel.lines.flatMap(line => line.points);
  const [x0, x1] = [0, Math.max(...points.map(([x]) => x), 1e-9)];
  const [y0, y1] = range(points.map(([, y]) => y));
  const x = value => LEFT + (WIDTH - LEFT - RIGHT) * ((value - x0) / (x1 - x0));
  const y = value => HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * ((value - y0) / (y1 - y0));
  const title = `${metricText(panel.metric)}, ${panel.kind === 'train' ? 'training' : panel.kind}`;
  const drawn = svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': title });
  for (const value of ticks(y0, y1, 4)) {
    drawn.append(
      svg('line', { class: 'grid', x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }),
      svg('text', { x: LEFT - 6, y: y(value) + 4, 'text-anchor': 'end' }, numberText(value)));
  }
  for (const value of ticks(x0, x1, 5)) {
    drawn.append(svg('text', { x: x(value), y: HEIGHT - BOTTOM + 17, 'text-anchor': 'middle' }, numberText(value)));
  }
  drawn.append(svg('text', { x: WIDTH - RIGHT, y: HEIGHT - 5, 'text-anchor': 'end' }, panel.by));
  panel.lines.forEach((line, i) => {
    const places = line.points.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(' ');
    drawn.append(svg('polyline', { class: `line line-${i}`, points: places }));
    if (line.points.length > 60) return;
    for (const [a, b] of line.points) {
      const text = `${line.label}: ${numberText(b)} at ${panel.by} ${numberText(a)}`;
      drawn.append(svg('circle', { class: `dot dot-${i}`, cx: x(a), cy: y(b), r: 3 }, svg('title', {}, text)));
    }
  });
  return element(
    'figure', { className: 'chart' }, element('figcaption', {}, title), drawn, legend(panel.lines));
}

function legend(lines) {
  if (lines.length < 2) return null;
  return element('p', { className: 'small legend' }, ...lines.map((line, i) => element(
    'span', {}, element('i', { className: `swatch swatch-${i}` }), line.label)));
}
