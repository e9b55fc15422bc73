// Arithmetic on the attention of an answer: what is drawn of it, as rows of weights.

/**
 * What can be drawn of one attention.
 * @typedef {object} Drawing
 * @property {string} name
 * @property {Item[]} items frames, branches or layers
 * @property {number[][]} weights (words, items), each row 1 in all or less
 * @property {?number[][][]} places (words, items, cells of the grid row by row, or regions)
 * @property {?number[]} grid rows and columns of a frame's places; null if they are regions
 * @property {number[][]} chosen (words, …) the items that the model chose for a word; [] if it mixes all
 *
 * @typedef {object} Item
 * @property {string} title
 * @property {?string} picture
 * @property {?number} time
 * @property {?(?number[])[]} boxes of the regions: left, top, right, bottom in thousandths of the frame
 * @property {boolean} isKey whether it is the key frame of the whole caption
 */

/** Sums nested lists over all axes that are not in ``keep``, which has their order. */
export function sumOver(weights, axes, keep) {
  if (!axes.length) return weights;
  const parts = weights.map(part => sumOver(part, axes.slice(1), keep));
  return keep.includes(axes[0]) ? parts : parts.reduce(add);
}

function add(a, b) {
  return Array.isArray(a) ? a.map((each, i) => add(each, b[i])) : a + b;
}

const total = values => values.flat(Infinity).reduce((sum, value) => sum + value, 0);

/** Shares of a word's weights, which exceed 1 together if they were summed over heads or picks. */
function asShares(row) {
  const sum = total(row);
  const divide = value => Array.isArray(value) ? value.map(divide) : value / sum;
  return sum > 1.001 ? divide(row) : row;
}

/** The drawings of an answer's attention, in its order; maps over words or entries have none. */
export function drawingsOf(attention) {
  return attention.maps.map(map => drawingOf(map, attention)).filter(Boolean);
}

function drawingOf(map, { frames: allFrames, key_frame: keyFrame = null }) {
  const { axes, name } = map;
  const word = ['word', ...axes];
  const rows = keep => sumOver(map.weights, word, ['word', ...keep]).map(asShares);
  const framed = (index, place) => ({
    title: `Frame ${place + 1}`, picture: allFrames[index].picture, time: allFrames[index].time,
    boxes: allFrames[index].boxes ?? null, isKey: index === keyFrame,
  });
  const hasPlaces = axes.includes('places');
  const grid = hasPlaces && Array.isArray(map.grid) ? map.grid : null;
  const chosen = map.chosen ?? [];
  if (axes.includes('frames') && map.frames.length) {
    return {
      name, items: map.frames.map(framed), weights: rows(['frames']), grid, chosen,
      places: hasPlaces ? rows(['frames', 'places']) : null,
    };
  }
  // Places of the mean of all frames, each of which has an equal share; or of a picture.
  const averaged = map.frames.length || allFrames.length !== 1 ? [...new Set(map.frames)] : [0];
  if (hasPlaces && averaged.length) {
    const shares = rows(['places']).map(row => row.map(weight => weight / averaged.length));
    return {
      name, items: averaged.map(framed), grid, chosen,
      weights: shares.map(row => averaged.map(() => total(row))),
      places: shares.map(row => averaged.map(() => row)),
    };
  }
  const named = ['branches', 'layers', 'heads'].find(axis => axes.includes(axis));
  if (named && map.labels.length > 1 && !axes.includes('frames') && !axes.includes('places')) {
    const items = map.labels.map(
      label => ({ title: label, picture: null, time: null, boxes: null, isKey: false }));
    return { name, items, weights: rows([named]), places: null, grid: null, chosen };
  }
  return null;
}
