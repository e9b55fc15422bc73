// The table of videos: sorted, searched, and shown a page at a time.

import { loadAll } from './data.js';
import { byId, element, percentText } from './dom.js';
import { stripOf } from './overview.js';
import { captionOf, captionText, changeText, inOwnDirection, nameText, scoreText } from './texts.js';

const ROWS = 25;
const TITLES = { certainty: 'Probability per word', change: 'CIDEr difference', number: 'Order of the split' };

const columnTitle = name => TITLES[name] ?? nameText(name);

export function columnText(name, value) {
  if (value === null || value === undefined) return '';
  if (name === 'certainty') return percentText(value);
  return name === 'change' ? changeText(value) : scoreText(value);
}

/**
 * Makes the table.
 * @returns {{order: () => number[], search: (query: object) => void}} the numbers of the videos that
 *   it shows in their order, and what searches for {text} or for one {caption}
 */
export function makeTable(summary, videos) {
  const names = Object.keys(videos.columns);
  const withAttention = new Set(summary.attention.videos);
  const state = { sort: 'number', highest: false, page: 0, caption: null };
  let shown = videos.ids.map((_, number) => number);
  let texts = null;  // of each video, in lower case, with references once they are loaded

  const sort = byId('sort');
  sort.append(element('option', { value: 'number' }, columnTitle('number')), ...names.flatMap(name => [
    element('option', { value: `${name} lowest` }, `${columnTitle(name)}, lowest first`),
    element('option', { value: `${name} highest` }, `${columnTitle(name)}, highest first`)]));
  byId('only-attention-label').hidden = !withAttention.size;

  const textOf = number => [videos.ids[number], videos.captions[number], videos.others?.[number] ?? ''];
  const readTexts = async () => {
    if (texts) return;
    const rows = await loadAll('texts', summary.texts);
    texts = videos.ids.map((_, number) =>
      [...textOf(number), ...rows[number][0]].join('\n').toLowerCase());
  };

  const update = async () => {
    if (byId('search').value.trim()) await readTexts();
    // Read now: it may have changed while the texts were loaded.
    const words = byId('search').value.toLowerCase().split(/\s+/).filter(Boolean);
    const only = byId('only-attention').checked;
    shown = videos.ids.map((_, number) => number).filter(number =>
      (!only || withAttention.has(number))
      && (state.caption === null || videos.captions[number] === state.caption)
      && words.every(word => texts[number].includes(word)));
    const column = videos.columns[state.sort];
    if (column) {
      const sign = state.highest ? -1 : 1;
      shown.sort((a, b) => {
        if (column[a] === null || column[b] === null) return (column[a] === null) - (column[b] === null);
        return sign * (column[a] - column[b]) || a - b;
      });
    }
    draw();
  };

  const setSort = (name, highest) => {
    Object.assign(state, { sort: name, highest, page: 0 });
    sort.value = name === 'number' ? name : `${name} ${highest ? 'highest' : 'lowest'}`;
    update();
  };

  const draw = () => {
    const pages = Math.max(1, Math.ceil(shown.length / ROWS));
    state.page = Math.min(state.page, pages - 1);
    const rows = shown.slice(state.page * ROWS, (state.page + 1) * ROWS);
    byId('table').replaceChildren(tableRows(rows));
    const which = state.caption === null ? '' : ` with the caption \u201c\u2068${captionText(state.caption)}\u2069\u201d`;
    byId('found').textContent = shown.length === videos.ids.length
      ? `${shown.length} videos` : `${shown.length} of ${videos.ids.length} videos${which}`;
    const go = (text, page) => {
      const made = element('button', { type: 'button', disabled: page < 0 || page >= pages }, text);
      made.addEventListener('click', () => {
        state.page = page;
        draw();
        byId('videos').scrollIntoView();
      });
      return made;
    };
    byId('pages').replaceChildren(
      go('Previous', state.page - 1), element('span', {}, `page ${state.page + 1} of ${pages}`),
      go('Next', state.page + 1));
    byId('pages').hidden = pages === 1;
  };

  const heading = name => {
    const isSorted = state.sort === name;
    const button = element('button', { type: 'button' }, columnTitle(name),
      isSorted ? (state.highest ? ' \u25be' : ' \u25b4') : '');
    button.addEventListener('click', () => {
      setSort(name, isSorted ? !state.highest : false);
      byId('table').querySelector('th[aria-sort] button')?.focus();
    });
    const attributes = isSorted ? { 'aria-sort': state.highest ? 'descending' : 'ascending' } : {};
    return element('th', { className: 'number', role: 'columnheader', ...attributes }, button);
  };

  const tableRows = numbers => element(
    'table', { className: 'videos', role: 'table' },
    element('thead', { role: 'rowgroup' }, element(
      'tr', { role: 'row' }, element('th', { role: 'columnheader' }, 'Video'),
      element('th', { role: 'columnheader' }, 'Caption'), ...names.map(heading))),
    element('tbody', { role: 'rowgroup' }, ...numbers.map(row)));

  const row = number => element(
    'tr', { role: 'row' },
    element('td', { role: 'cell', className: 'id' }, stripOf(number, videos, 64),
      element('small', { className: 'muted' }, inOwnDirection(videos.ids[number]))),
    element('td', { role: 'cell', className: 'text' },
      element('a', { href: `#video-${number}` }, captionOf(videos.captions[number])),
      videos.others && videos.others[number] !== videos.captions[number] ? element(
        'div', { className: 'muted small' }, `${summary.compare.label}: `,
        captionOf(videos.others[number]))
        : null),
    ...names.map(name => element(
      'td', { role: 'cell', className: 'number', 'data-name': columnTitle(name) },
      columnText(name, videos.columns[name][number]))));

  let waiting = 0;
  byId('search').addEventListener('input', () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      Object.assign(state, { page: 0, caption: null });
      update();
    }, 120);
  });
  byId('controls').addEventListener('submit', event => event.preventDefault());
  byId('only-attention').addEventListener('change', update);
  sort.addEventListener('change', () => {
    const [name, direction] = sort.value.split(' ');
    setSort(name, direction === 'highest');
  });
  // Arrow keys move between the links of the rows.
  byId('table').addEventListener('keydown', event => {
    const links = [...byId('table').querySelectorAll('a')];
    const to = links.indexOf(event.target) + { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!links[to]) return;
    event.preventDefault();
    links[to].focus();
  });
  draw();
  return {
    order: () => shown,
    search({ text = '', caption = null }) {
      clearTimeout(waiting);
      byId('search').value = text;
      Object.assign(state, { page: 0, caption });
      update();
      byId('videos').scrollIntoView();
    },
  };
}
