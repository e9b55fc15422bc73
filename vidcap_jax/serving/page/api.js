// The server's HTTP API: the model, and captions with progress, cancelling and one retry.

export class ServerError extends Error {
  constructor(message, code = '', retryAfter = null) {
    super(message);
    this.code = code;
    this.retryAfter = retryAfter;  // seconds, of an answer with status 429 or 503
  }
}

export class Cancelled extends Error {}

const NO_ANSWER = 'The server does not answer. Check that it is running and that you are connected.';

export async function fetchModel() {
  let response;
  try {
    response = await fetch('v1/model', { headers: { Accept: 'application/json' } });
  } catch {
    throw new ServerError(NO_ANSWER, 'network');
  }
  const text = await response.text();
  return contents(response.status, text, response.headers.get('Retry-After'));
}

/** The parsed answer; a ServerError if it is none or reports an error. */
function contents(status, text, retryAfter) {
  let answer = null;
  try {
    answer = JSON.parse(text);
  } catch { /* a proxy's page, or an answer that was cut off */ }
  if (status >= 200 && status < 300 && answer !== null) return answer;
  const error = answer?.error ?? {};
  throw new ServerError(
    String(error.message || `The server answered with status ${status}.`),
    String(error.code || status),
    status === 429 || status === 503 ? Math.min(60, Math.max(1, Number(retryAfter) || 5)) : null);
}

/**
 * Sends a form once.
 * @param {FormData} form
 * @param {AbortSignal} signal cancels it, during the upload or later
 * @param {(share: number) => void} onUpload how much of it is sent, from 0 to 1
 */
function send(form, signal, onUpload) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const abort = () => request.abort();
    signal.addEventListener('abort', abort, { once: true });
    request.upload.onprogress = event => {
      if (event.lengthComputable && event.total) onUpload(event.loaded / event.total);
    };
    request.upload.onload = () => onUpload(1);
    request.onload = () => {
      try {
        resolve(contents(
          request.status, request.responseText, request.getResponseHeader('Retry-After')));
      } catch (error) {
        reject(error);
      }
    };
    request.onerror = () => reject(new ServerError(NO_ANSWER, 'network'));
    request.onabort = () => reject(new Cancelled());
    request.onloadend = () => signal.removeEventListener('abort', abort);
    request.open('POST', 'v1/captions');
    request.setRequestHeader('Accept', 'application/json');
    request.send(form);
  });
}

function sleep(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(new Cancelled());
    }, { once: true });
  });
}

/** How often a request is sent again: a busy server once, one that starts until it is ready. */
const RETRIES = { busy: 1, starting: 100 };

/**
 * Captions what a form holds, after the time that a busy server names if it does.
 * @param {() => FormData} makeForm
 * @param {AbortSignal} signal cancels it
 * @param {{onUpload: (share: number) => void, onWait: (code: string, seconds: number) => void}}
 *   report
 */
export async function requestCaptions(makeForm, signal, { onUpload, onWait }) {
  for (let attempt = 0; ; attempt++) {
    if (signal.aborted) throw new Cancelled();
    try {
      return await send(makeForm(), signal, onUpload);
    } catch (error) {
      if (error.retryAfter == null || attempt >= (RETRIES[error.code] ?? 0)) throw error;
      for (let left = Math.ceil(error.retryAfter); left > 0; left--) {
        onWait(error.code, left);
        await sleep(1, signal);
      }
    }
  }
}
