// A few seconds of the camera, or a picture of it, as a file.

import { byId, element, showProblem } from './dom.js';

const LENGTHS = [3, 5, 10];  // seconds
const FORMS = ['video/webm;codecs=vp9', 'video/webm;codecs=vp8', 'video/webm', 'video/mp4'];
const PROBLEMS = {
  NotAllowedError: 'This page may not use the camera. Allow it in the browser\'s settings of this page.',
  NotFoundError: 'There is no camera.',
  NotReadableError: 'The camera is in use by another program.',
};

/** Why this browser can't record here; '' if it can. */
export function cameraProblem() {
  if (!window.isSecureContext) {
    return 'Browsers give a page the camera only over https or on this machine (localhost).';
  }
  if (!navigator.mediaDevices?.getUserMedia || !window.MediaRecorder) {
    return 'This browser can\'t record the camera.';
  }
  return '';
}

/**
 * Sets up the dialog.
 * @param {number} longest seconds of a video that the server reads
 * @param {(file: File) => void} onFile called with what was recorded
 */
export function setUpCamera(longest, onFile) {
  const dialog = byId('camera-dialog');
  const live = byId('live');
  const record = byId('record');
  const seconds = byId('camera-seconds');
  const lengths = LENGTHS.filter(length => length <= longest);
  for (const length of lengths.length ? lengths : [Math.max(1, Math.floor(longest))]) {
    seconds.append(element('option', { value: length }, `${length} s`));
  }
  let stream = null;
  let recorder = null;
  const enable = on => [record, byId('snapshot')].forEach(button => { button.disabled = !on; });
  const finish = (file) => {
    dialog.close();
    onFile(file);
  };

  byId('camera').addEventListener('click', async () => {
    showProblem(byId('camera-problem'), '');
    enable(false);
    dialog.showModal();
    try {
      const opened = await navigator.mediaDevices.getUserMedia({
        video: { width: { ideal: 640 }, height: { ideal: 480 } },
      });
      if (!dialog.open) {  // closed while the browser asked
        opened.getTracks().forEach(track => track.stop());
        return;
      }
      stream = opened;
      live.srcObject = stream;
    } catch (error) {
      showProblem(
        byId('camera-problem'), PROBLEMS[error.name] ?? `The camera can't be used: ${error.message}`);
    }
  });
  live.addEventListener('loadeddata', () => enable(true));  // the first picture is there
  dialog.addEventListener('close', () => {
    if (recorder?.state === 'recording') recorder.stop();
    recorder = null;
    stream?.getTracks().forEach(track => track.stop());
    stream = live.srcObject = null;
    byId('recorded').hidden = true;
    record.textContent = 'Record';
  });
  byId('camera-close').addEventListener('click', () => dialog.close());
  byId('snapshot').addEventListener('click', () => {
    const canvas = element('canvas', { width: live.videoWidth, height: live.videoHeight });
    canvas.getContext('2d').drawImage(live, 0, 0);
    canvas.toBlob(blob => finish(new File([blob], 'camera.jpg', { type: blob.type })), 'image/jpeg', 0.92);
  });
  record.addEventListener('click', () => {
    if (recorder?.state === 'recording') {
      recorder.stop();
      return;
    }
    recorder = recordStream(stream, 1000 * Number(seconds.value), byId('recorded'), dialog, finish);
    record.textContent = 'Stop';
    byId('snapshot').disabled = true;
  });
}

/** Starts to record; ``finish`` gets the file unless the dialog was closed before its end. */
function recordStream(stream, milliseconds, progress, dialog, finish) {
  const mimeType = FORMS.find(form => MediaRecorder.isTypeSupported(form));
  const recorder = new MediaRecorder(stream, { mimeType, videoBitsPerSecond: 2_500_000 });
  const parts = [];
  const start = performance.now();
  progress.hidden = false;
  const timer = setInterval(() => {
    progress.value = (performance.now() - start) / milliseconds;
    if (performance.now() - start >= milliseconds && recorder.state === 'recording') recorder.stop();
  }, 50);
  recorder.addEventListener('dataavailable', event => parts.push(event.data));
  recorder.addEventListener('stop', () => {
    clearInterval(timer);
    progress.value = 0;
    if (!dialog.open) return;
    const type = recorder.mimeType.split(';')[0];
    const name = `camera.${type.endsWith('mp4') ? 'mp4' : 'webm'}`;
    finish(new File(parts, name, { type }));
  });
  recorder.start();
  return recorder;
}
