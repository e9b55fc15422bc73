// Texts of scores, names and captions.

import { element } from './dom.js';

export const scoreText = value => value === null || value === undefined ? '' : value.toFixed(3);
export const changeText = value => {
  if (Math.abs(value) < 0.0005) return scoreText(0);
  return (value > 0 ? '+' : '') + scoreText(value).replace('-', '\u2212');
};
export const nameText = name => name.replaceAll('_', '-');
export const captionText = caption => caption || '(empty)';

/** Text of people in its own direction, which may be another one than that of the text around it. */
export const inOwnDirection = text => element('bdi', {}, text);
export const captionOf = caption => inOwnDirection(captionText(caption));
