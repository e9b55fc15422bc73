// One video or picture on the page: its upload, its caption or error, and its attention.

import { Cancelled, requestCaptions } from './api.js';
import { attentionSection } from './attention.js';
import { announce, element, percentText } from './dom.js';

/**
 * A video, picture or set of features that is captioned.
 * @typedef {{name: string, file: ?File, makeForm: () => FormData}} Job  makeForm is called for each
 *   attempt and again when the settings have changed
 */

/**
 * Puts a card on top of the results.
 * @param {HTMLElement} place of all cards
 * @param {Job} job
 * @param {(job: Job) => void} again captions the same once more, on a new card
 * @returns {() => Promise<void>} captions it; the promise never fails
 */
export function addCard(place, job, again) {
  const short = element('span', { className: 'short' });
  const body = element('div');
  const remove = element('button', { type: 'button' }, 'Remove');
  const repeat = element('button', { type: 'button' }, 'Caption again');
  const actions = element('div', { className: 'buttons', hidden: true }, repeat, remove);
  const preview = makePreview(job.file);
  const card = element(
    'details', { className: 'card', open: true },
    element('summary', {}, element('span', { className: 'name' }, job.name), short),
    preview?.box ?? null, body, actions);
  repeat.title = 'With the settings as they are now';
  place.prepend(card);
  const stop = new AbortController();
  remove.addEventListener('click', () => {
    preview?.release();
    const next = card.nextElementSibling ?? card.previousElementSibling;
    card.remove();
    (next?.querySelector('summary') ?? document.getElementById('choose')).focus();
    announce(`${job.name} removed`);
  });
  repeat.addEventListener('click', () => again(job));
  const work = makeWork(job.name, () => stop.abort());
  body.append(work.box);
  work.wait();

  const end = (text, ...parts) => {
    work.end();
    short.textContent = text;
    body.replaceChildren(...parts);
    actions.hidden = false;
    announce(`${job.name}: ${text}`);
  };
  return async () => {
    try {
      const answer = await requestCaptions(job.makeForm, stop.signal, work);
      const results = answer.results;
      const first = results[0];
      const parts = results.flatMap(result => resultParts(result, results.length > 1));
      end(first.error ? first.error.message : first.caption, ...parts,
        element('p', { className: 'muted small' }, `${answer.seconds.toFixed(2)} s on the server`));
    } catch (error) {
      if (error instanceof Cancelled) {
        end('cancelled', element('p', { className: 'muted' }, 'Cancelled.'));
      } else {
        end(error.message, element('p', { className: 'problem' }, error.message));
      }
    }
  };
}

/** The file as the browser shows it; a video that it can't play has none. */
function makePreview(file) {
  if (!file || !/^(video|image)\//.test(file.type)) return null;
  const source = URL.createObjectURL(file);
  const box = file.type.startsWith('video/')
    ? element('video', { src: source, controls: true, muted: true, playsInline: true, preload: 'metadata' })
    : element('img', { src: source, className: 'preview', alt: `The picture ${file.name}` });
  const release = () => {
    URL.revokeObjectURL(source);
    box.remove();
  };
  box.addEventListener('error', release);
  return { box, release };
}

/** The line that shows what is done now: waiting, upload, captioning. */
function makeWork(name, onCancel) {
  const state = element('p', { className: 'state' });
  const bar = element('progress', { max: 1, value: 0, 'aria-label': `Upload of ${name}`, hidden: true });
  const spinner = element('span', { className: 'spinner', 'aria-hidden': 'true' });
  const cancel = element('button', { type: 'button', 'aria-label': `Cancel ${name}` }, 'Cancel');
  cancel.addEventListener('click', onCancel);
  const box = element('div', {}, element('div', { className: 'work' }, spinner, state, cancel), bar);
  let timer = null;
  const show = text => { state.textContent = text; };
  const end = () => clearInterval(timer);
  return {
    box, end,
    wait: () => show('Waiting for the files before it…'),
    onUpload: share => {
      end();
      bar.hidden = share >= 1;
      bar.value = share;
      show(`Uploading: ${percentText(share)}`);
      if (share < 1) return;
      const start = performance.now();
      const tick = () => {
        const seconds = Math.floor((performance.now() - start) / 1000);
        show(seconds ? `Captioning… ${seconds} s` : 'Captioning…');
      };
      timer = setInterval(tick, 1000);
      tick();
    },
    onWait: (code, seconds) => {
      end();
      bar.hidden = true;
      show(`The server is ${code}. Trying again in ${seconds} s.`);
    },
  };
}

/** What is shown of one result of an answer. */
function resultParts(result, several) {
  const title = several ? [element('h3', {}, result.video_id)] : [];
  if (result.error) return [...title, element('p', { className: 'problem' }, result.error.message)];
  const parts = [...title, element(
    'p', { className: 'caption', dir: 'auto' }, result.caption || '(an empty caption)')];
  const captions = result.captions ?? [];
  if (captions.length > 1) parts.push(captionTable(captions));
  else if (Number.isFinite(result.log_prob)) {
    const [whole, word] = probabilities(result).map(percentText);
    parts.push(element('p', { className: 'muted small' }, `probability ${whole}, per word ${word}`));
  }
  for (const note of result.notes ?? []) parts.push(element('p', { className: 'muted small' }, note));
  if (result.attention) parts.push(attentionSection(result.attention));
  return parts.filter(Boolean);
}

/** The probability of a caption, and the geometric mean over its words and its end. */
function probabilities({ caption, log_prob: logProb }) {
  const words = caption ? caption.split(' ').length : 0;
  return [Math.exp(logProb), Math.exp(logProb / (words + 1))];
}

function captionTable(captions) {
  const heads = ['Caption', 'Probability', 'Per word'].map((text, i) => element(
    'th', { scope: 'col', className: i ? 'number' : '' }, text));
  const rows = captions.map(each => element(
    'tr', {},
    element('td', {}, each.caption || '(an empty caption)'),
    ...probabilities(each).map(
      share => element('td', { className: 'number' }, percentText(share)))));
  return element(
    'div', { className: 'scroll' },
    element(
      'table', {}, element('thead', {}, element('tr', {}, ...heads)), element('tbody', {}, ...rows)));
}
