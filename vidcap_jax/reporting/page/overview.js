// The overview: scores, comparison, learning curves, extremes, captions and words.

import { chart } from './charts.js';
import { byId, element, percentText } from './dom.js';
import { captionOf, captionText, changeText, inOwnDirection, nameText, scoreText } from './texts.js';

const FEW = 6;  // videos of each list
const LISTS = {
  worst: 'Worst (lowest CIDEr)', best: 'Best (highest CIDEr)',
  uncertain: 'Most uncertain (lowest probability per word)',
};

/** A table of texts; the first row is its head, and cells but the first are numbers if ``right``. */
function tableOf(head, rows, right = true) {
  const className = right ? 'number' : '';
  const cells = (tag, row) => row.map((cell, i) => element(tag, { className: i ? className : '' }, cell));
  return element('div', { className: 'scroll' }, element(
    'table', { className: right ? 'scores' : '' },
    element('thead', {}, element('tr', {}, ...cells('th', head))),
    element('tbody', {}, ...rows.map(row => element('tr', {}, ...cells('td', row))))));
}

const intervalText = ([, low, high]) =>
  low === null || low === undefined ? '' : `${scoreText(low)} to ${scoreText(high)}`;

export function showOverview(summary, videos, search) {
  byId('title').textContent = `${summary.label}: ${summary.split}`;
  byId('about').textContent =
    `${summary.videos} videos of ${summary.data}; stage ${summary.stage}, step ${summary.step}`;
  showScores(summary);
  if (summary.compare) showComparison(summary, videos);
  if (summary.curves.length) {
    byId('curves').hidden = false;
    byId('curves').append(element('div', { className: 'charts' }, ...summary.curves.map(chart)));
  }
  for (const [name, title] of Object.entries(LISTS)) {
    const numbers = summary.orders[name].slice(0, FEW);
    if (numbers.length) byId('extremes').append(
      element('h3', {}, title), cards(numbers, videos, summary.compare?.label));
  }
  byId('extremes').hidden = !Object.keys(LISTS).some(name => summary.orders[name].length);
  showWords(summary, search);
  for (const link of document.querySelectorAll('#overview > header nav a')) {
    link.hidden = byId(link.hash.slice(1)).hidden;
  }
}

function showScores(summary) {
  const place = byId('scores');
  const [constant, constantScore] = summary.constant;
  if (summary.scores.length) {
    const rows = summary.scores.map(([name, ...score]) => [
      nameText(name), scoreText(score[0]), intervalText(score),
      name === 'CIDEr' && constantScore !== null ? scoreText(constantScore) : '']);
    place.append(tableOf(['', 'score', '95 % interval', 'best constant caption'], rows));
  } else {
    place.append(element('p', {}, 'There are no references to score the captions with.'));
  }
  if (constant) {
    place.append(element('p', { className: 'small' },
      'Best constant caption, said of every video: ', element('q', {}, captionOf(constant))));
  }
  const [candidates, oracle, random] = summary.oracle;
  if (oracle !== null && oracle !== undefined) {
    place.append(element('p', { className: 'small' },
      `Of up to ${candidates} captions a video the best gives CIDEr ${scoreText(oracle)}, `
      + `a random one ${scoreText(random)}.`));
  }
  const { distinct_captions: distinct, mean_words: words, vocabulary_used: used, novel_captions: novel } =
    summary.diversity;
  place.append(element('p', { className: 'small' }, [
    `${distinct} of ${summary.videos} captions are distinct`,
    words === null || words === undefined ? '' : `${words.toFixed(1)} words each, ${used} different words`,
    novel === null || novel === undefined ? '' : `${percentText(novel)} are not among the training captions`,
  ].filter(Boolean).join('; ') + '.'));
  for (const note of summary.notes) place.append(element('p', { className: 'problem' }, note));
  const details = [['Signature', summary.signature], ...summary.decode].filter(([, value]) => value);
  if (details.length) {
    place.append(element('details', {}, element('summary', {}, 'Signature and decoding'),
      tableOf(['setting', 'value'], details, false)));
  }
}

const testCells = test => test
  ? [`${changeText(test[1])} to ${changeText(test[2])}`, test[3] < 0.001 ? '< 0.001' : test[3].toFixed(3)]
  : ['', ''];

function showComparison(summary, videos) {
  const place = byId('comparison'), { compare, label } = summary;
  place.hidden = false;
  const rows = summary.scores.filter(([name]) => name in compare.scores).map(([name, ...score]) => [
    nameText(name), scoreText(score[0]), scoreText(compare.scores[name][0]),
    changeText(score[0] - compare.scores[name][0]), ...testCells(compare.tests[name]),
    intervalText(score), intervalText(compare.scores[name])]);
  if (rows.length) {
    place.append(tableOf(
      ['', label, compare.label, 'difference', '95 % interval', 'p',
        `${label}, 95 % interval`, `${compare.label}, 95 % interval`], rows));
    place.append(element('p', { className: 'muted small' },
      `The difference is ${label} minus ${compare.label}; its interval is by paired bootstrap over `
      + 'videos, p by randomization.'));
  }
  place.append(element('p', {},
    `${compare.changed} of ${summary.videos} videos have another caption`
    + (compare.better + compare.worse
      ? `: ${compare.better} with a higher CIDEr in ${label}, ${compare.worse} with a lower one.` : '.')));
  if (compare.signatures.length) {
    place.append(
      element('p', { className: 'problem' },
        'The signatures differ, so the scores in metrics.json do not compare; those above are '
        + 'computed alike for both runs.'),
      tableOf(['signature', label, compare.label], compare.signatures, false));
  }
  const lists = { gained: `Best changes: CIDEr higher than in ${compare.label}`,
    lost: `Worst changes: CIDEr lower than in ${compare.label}` };
  for (const [name, title] of Object.entries(lists)) {
    const numbers = compare[name].slice(0, FEW);
    if (numbers.length) place.append(element('h3', {}, title), cards(numbers, videos, compare.label));
  }
  const settings = compare.config;
  const note = settings === null ? 'The settings are not compared: a run has no config.json.'
    : settings.length ? '' : 'The settings are the same.';
  place.append(note
    ? element('p', { className: 'muted' }, note)
    : element('details', { open: settings.length <= 12 },
      element('summary', {}, `${settings.length} ${settings.length === 1 ? 'setting differs' : 'settings differ'}`),
      tableOf(['setting', label, compare.label], settings, false)));
}

/** Videos as small cards that link to their pages; ``label`` names the run that is compared. */
function cards(numbers, videos, label) {
  return element('ul', { className: 'cards' }, ...numbers.map(number => {
    const { CIDEr: ciders, certainty, change } = videos.columns;
    const figures = [
      ciders ? `CIDEr ${scoreText(ciders[number])}` : '',
      change && change[number] ? changeText(change[number]) : '',
      certainty[number] === null ? '' : `${percentText(certainty[number])} per word`,
    ].filter(Boolean).join(' · ');
    const other = videos.others?.[number];
    return element('li', {}, element(
      'a', { href: `#video-${number}` },
      stripOf(number, videos),
      element('span', { dir: 'auto' }, captionText(videos.captions[number])),
      other === undefined || other === videos.captions[number]
        ? null : element('span', { className: 'muted small' }, `${label}: `, captionOf(other)),
      element('small', { className: 'muted' }, figures)));
  }));
}

/** The picture strip of a video, at most so high; null if it has none. */
export function stripOf(number, videos, height = 96) {
  if (!videos.strips[number]) return null;
  const [columns, rows] = videos.strips[number];
  const width = Math.round(columns * height / rows);  // so that nothing moves once it is loaded
  return element('img', {
    className: 'pictures', loading: 'lazy', alt: '', width, height,
    src: `pictures/${String(number).padStart(6, '0')}.jpg` });
}

function showWords(summary, search) {
  const place = byId('words');
  const button = (text, count, query) => {
    const made = element('button', { type: 'button', className: 'word' }, inOwnDirection(text),
      element('small', { className: 'muted' }, ` ${count}`));
    made.addEventListener('click', () => search(query));
    return made;
  };
  const { unsaid, unknown } = summary.words;
  const group = (title, hint, buttons) => {
    if (!buttons.length) return;
    place.append(element('details', { open: buttons.length <= 60 },
      element('summary', {}, title), element('p', { className: 'muted small' }, hint),
      element('div', { className: 'words' }, ...buttons)));
  };
  group(`Captions of several videos (${summary.repeated.length})`,
    'With their number of videos; a click shows these.',
    summary.repeated.map(({ caption, videos }) =>
      button(captionText(caption), videos.length, { caption })));
  group(`Words of the references that the model knows and never said (${unsaid.length})`,
    'With the number of videos whose references have them.',
    unsaid.map(([word, count]) => button(word, count, { text: word })));
  group(`Words of the references that are not in its vocabulary (${unknown.length})`,
    'With the number of videos whose references have them.',
    unknown.map(([word, count]) => button(word, count, { text: word })));
  place.hidden = !(summary.repeated.length + unsaid.length + unknown.length);
}
