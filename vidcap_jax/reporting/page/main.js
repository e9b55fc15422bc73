// The report: the overview, and the page of the video that the address names.

import { load } from './data.js';
import { announce, byId, showProblem } from './dom.js';
import { showOverview } from './overview.js';
import { makeTable } from './table.js';
import { showVideo } from './video.js';

let summary = null;
let videos = null;
let table = null;
let left = null;  // where the overview was scrolled to, and its focused element

async function showPlace() {
  const number = Number(/^#video-(\d+)$/.exec(location.hash)?.[1] ?? NaN);
  const isVideo = number < videos.ids.length;
  if (isVideo) {
    if (!byId('overview').hidden) left = { y: scrollY, focused: document.activeElement };
    const heading = await showVideo(number, summary, videos, table.order());
    byId('overview').hidden = true;
    byId('video').hidden = false;
    scrollTo(0, 0);
    heading.focus({ preventScroll: true });
    return;
  }
  byId('video').hidden = true;
  byId('overview').hidden = false;
  if (left) {
    scrollTo(0, left.y);
    left.focused?.focus({ preventScroll: true });
    left = null;
  } else if (location.hash.length > 1) {
    byId(location.hash.slice(1))?.scrollIntoView();
  }
}

function moveWithKeysOfPage(event) {
  if (byId('video').hidden || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.target.matches('input, select')) return;
  const link = { n: 'a[rel=next]', p: 'a[rel=prev]', Escape: 'a[href="#videos"]' }[event.key];
  if (link) byId('video').querySelector(link)?.click();
}

async function start() {
  try {
    [summary, videos] = await Promise.all([load('summary'), load('videos')]);
    table = makeTable(summary, videos);
    showOverview(summary, videos, query => table.search(query));
    await showPlace();
    addEventListener('hashchange', () => showPlace().catch(report));
    addEventListener('keydown', moveWithKeysOfPage);
  } catch (error) {
    report(error);
  }
}

function report(error) {
  showProblem(byId('problem'), error.message);
  announce(error.message);
}

start();
