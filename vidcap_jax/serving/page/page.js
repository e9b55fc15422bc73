// The demo page: reads the model, takes files, features and the camera, and captions them in turn.

import { fetchModel } from './api.js';
import { cameraProblem, setUpCamera } from './camera.js';
import { addCard } from './card.js';
import { byId, bytesText, durationText, element, labelled, showProblem } from './dom.js';
import { makeSettings } from './settings.js';

const AT_ONCE = 2;  // requests of this page; the server batches those of everybody

const queue = [];
let running = 0;
let model = null;
let readSettings = null;

/** Puts a job on the page and captions it when its turn comes. */
function submit(job) {
  byId('results-title').hidden = false;
  for (const card of document.querySelectorAll('.card[open]')) {
    if (!card.querySelector('.work')) card.open = false;  // a finished one becomes a line
  }
  queue.push(addCard(byId('results'), job, submitAgain));
  runNext();
}

async function runNext() {
  if (running >= AT_ONCE || !queue.length) return;
  running++;
  await queue.shift()();
  running--;
  runNext();
}

function submitAgain(job) {
  const settings = readSettings();
  if (settings) submit({ ...job, makeForm: () => withSettings(job.parts, settings) });
}

/** A request of parts (name, file) with settings. */
function withSettings(parts, settings) {
  const form = new FormData();
  for (const [name, value] of Object.entries(settings)) form.append(name, value);
  if (model.attention) form.append('attention', 'true');
  for (const [name, file] of parts) form.append(name, file, file.name);
  return form;
}

function captionParts(name, file, parts) {
  const settings = readSettings();
  if (settings) submit({ name, file, parts, makeForm: () => withSettings(parts, settings) });
}

function captionFiles(files) {
  const most = model.limits.upload_bytes;
  const tooLarge = files.filter(file => file.size > most);
  showProblem(byId('page-problem'), tooLarge.map(file =>
    `${file.name}: ${bytesText(file.size)}, and this server takes ${bytesText(most)} at most. `
    + 'Choose a shorter or smaller one.').join('\n'));
  for (const file of files.filter(file => !tooLarge.includes(file))) {
    captionParts(file.name, file, [['file', file]]);
  }
}

function setUpFiles() {
  byId('drop').hidden = false;
  byId('choose').addEventListener('click', () => byId('files').click());
  byId('files').addEventListener('change', event => {
    captionFiles([...event.target.files]);
    event.target.value = '';  // so that the same file can be chosen again
  });
  const carriesFiles = event => event.dataTransfer?.types.includes('Files');
  document.addEventListener('dragover', event => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    document.body.classList.add('dragging');
  });
  document.addEventListener('dragleave', event => {
    if (!event.relatedTarget) document.body.classList.remove('dragging');
  });
  document.addEventListener('drop', event => {
    document.body.classList.remove('dragging');
    if (!carriesFiles(event)) return;
    event.preventDefault();
    captionFiles([...event.dataTransfer.files]);
  });
  const problem = cameraProblem();
  byId('camera').hidden = Boolean(problem);
  showProblem(byId('no-camera'), problem);
  if (!problem) setUpCamera(model.limits.clip_seconds, file => captionFiles([file]));
  const { upload_bytes: bytes, clip_seconds: seconds } = model.limits;
  byId('limits').textContent = `Up to ${bytesText(bytes)} and ${durationText(seconds)} a file`;
  byId('files').accept = ['video/*', 'image/*', ...model.file_types].join(',');
}

const shapeText = shape => `(${shape.map(size => size ?? 'any').join(', ')})`;

function setUpFeatures() {
  const box = byId('features-box');
  box.hidden = false;
  box.open = !model.reads_files;
  if (!model.reads_files) box.querySelector('summary').textContent = 'Features of a video';
  const inputs = model.streams.map(stream => element(
    'input',
    { type: 'file', accept: '.npy', required: !stream.optional, name: `features.${stream.name}` }));
  byId('streams').append(...model.streams.map((stream, i) => labelled(
    stream.name, inputs[i], `${stream.kind} ${shapeText(stream.shape)}`)));
  byId('features').addEventListener('submit', event => {
    event.preventDefault();
    const parts = inputs.filter(input => input.files.length).map(input => [input.name, input.files[0]]);
    captionParts(parts.map(([, file]) => file.name).join(', '), null, parts);
  });
}

async function main() {
  try {
    model = await fetchModel();
  } catch (error) {
    byId('model').hidden = true;
    showProblem(byId('page-problem'), error.message);
    const retry = element('button', { type: 'button' }, 'Try again');
    retry.addEventListener('click', () => location.reload());
    byId('page-problem').append(' ', retry);
    return;
  }
  byId('model').textContent = [
    model.name + (model.variant ? ` (${model.variant})` : ''),
    model.data_set && `trained on ${model.data_set}`, `${model.vocabulary_size} words`,
  ].filter(Boolean).join(', ');
  byId('settings-box').hidden = false;
  readSettings = makeSettings(byId('settings'), byId('setting-fields'), model);
  if (model.reads_files) setUpFiles();
  setUpFeatures();
}

main();
