// Arithmetic on the attention of an answer: what is drawn of it, as rows of weights.

/**
 * What can be drawn of one attention.
 * @typedef {object} Drawing
 * @property {string} name
 * @property {{title: string, picture: ?string, time: ?number}[]} items frames, branches or layers
 * @property {number[][]} weights (words, items), each row 1 in all or less
 * @property {?number[][][]} places (words, items, cells of the grid row by row)
 * @property {?number[]} grid rows and columns of a frame's places
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
  return attention.maps.map(map => drawingOf(map, attention.frames)).filter(Boolean);
}

function drawingOf(map, allFrames) {
  const { axes, name } = map;
  const word = ['word', ...axes];
  const rows = keep => sumOver(map.weights, word, ['word', ...keep]).map(asShares);
  const framed = index => ({
    title: `Frame ${index + 1}`, picture: allFrames[index].picture, time: allFrames[index].time,
  });
  const hasGrid = axes.includes('places') && Array.isArray(map.grid);
  if (axes.includes('frames') && map.frames.length) {
    return {
      name, items: map.frames.map(framed), weights: rows(['frames']),
      places: hasGrid ? rows(['frames', 'places']) : null, grid: hasGrid ? map.grid : null,
    };
  }
  if (hasGrid && allFrames.length === 1) {  // a picture
    const places = rows(['places']);
    return {
      name, items: [framed(0)], weights: places.map(row => [total(row)]),
      places: places.map(row => [row]), grid: map.grid,
    };
  }
  const named = ['branches', 'layers', 'heads'].find(axis => axes.includes(axis));
  if (named && map.labels.length > 1 && !axes.includes('frames') && !axes.includes('places')) {
    const items = map.labels.map(label => ({ title: label, picture: null, time: null }));
    return { name, items, weights: rows([named]), places: null, grid: null };
  }
  return null;
}
