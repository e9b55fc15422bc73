// The page of a video: pictures, caption, attention, scores, references and other captions.

import { attentionSection } from './attention.js';
import { loadEntry } from './data.js';
import { byId, element } from './dom.js';
import { stripOf } from './overview.js';
import { columnText } from './table.js';
import { captionOf, captionText, inOwnDirection, nameText } from './texts.js';

/** The attention of a file as shares, which the file holds as whole numbers. */
function withShares(attention) {
  const divide = (weights, levels) => Array.isArray(weights)
    ? weights.map(each => divide(each, levels)) : weights / levels;
  return {
    ...attention,
    maps: attention.maps.map(map => ({ ...map, weights: divide(map.weights, map.levels) })),
  };
}

async function attentionOf(summary, number) {
  const place = summary.attention.videos.indexOf(number);
  return place < 0 ? null : loadEntry('attention', summary.attention.starts, place);
}

/** Shows a video; ``order`` has the numbers of the videos before and after it. */
export async function showVideo(number, summary, videos, order) {
  const place = byId('video');
  const [[references, candidates], attention] = await Promise.all([
    loadEntry('texts', summary.texts, number), attentionOf(summary, number)]);
  const section = attention && attentionSection(withShares(attention));
  const other = videos.others?.[number];
  const heading = element(
    'h1', { tabIndex: -1, className: 'caption', dir: 'auto' }, captionText(videos.captions[number]));
  place.replaceChildren(...[
    navigation(number, order),
    element('p', { className: 'muted' }, inOwnDirection(videos.ids[number])),
    heading,
    other === undefined ? null : element('p', {},
      element('span', { className: 'muted' }, `${summary.compare.label}: `), captionOf(other)),
    section ? null : stripOf(number, videos, 160),
    figures(number, videos),
    section,
    attention?.saved_key_frame >= 0
      ? element('p', { className: 'small' }, `Key frame: frame ${attention.saved_key_frame + 1}`) : null,
    ...list('References', references.map(text => [captionOf(text)])),
    ...list('Captions of the search, with their log-probabilities',
      candidates.map(([caption, logProb]) =>
        [captionOf(caption), logProb === null ? '' : ` (${logProb.toFixed(2)})`])),
  ].filter(part => part !== null));
  return heading;
}

function navigation(number, order) {
  const at = order.indexOf(number);
  const link = (text, to, rel) => to === undefined
    ? element('span', { className: 'muted' }, text)
    : element('a', { href: `#video-${to}`, rel }, text);
  return element(
    'nav', { className: 'buttons', 'aria-label': 'Videos' },
    element('a', { href: '#videos' }, 'All videos'),
    link('Previous', at > 0 ? order[at - 1] : undefined, 'prev'),
    link('Next', at >= 0 ? order[at + 1] : order[0], 'next'),
    element('span', { className: 'muted small keys' }, 'keys: p, n, Esc'));
}

function figures(number, videos) {
  const items = Object.entries(videos.columns).filter(([, values]) => values[number] !== null).map(
    ([name, values]) => element('li', {}, element('b', {}, columnText(name, values[number])), ' ',
      name === 'certainty' ? 'probability per word' : name === 'change' ? 'CIDEr difference' : nameText(name)));
  return element('ul', { className: 'figures-list' }, ...items);
}

function list(title, items) {
  if (!items.length) return [];
  return [element('h2', {}, title), element('ul', {}, ...items.map(parts => element('li', {}, ...parts)))];
}
