"""A rater's sheet as an HTML page that works without a network and writes the same CSV file."""

import dataclasses
import json
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from vidcap_jax import html_page
from vidcap_jax.counts import counted
from vidcap_jax.html_page import text
from vidcap_jax.studies.human_sheets import NEITHER, Questions, header

_STYLE = """
section { border: 1px solid #d0d7de; border-radius: 6px; padding: .6em 1.2em 1em; margin: 1.2em 0; }
section.done { border-color: #2e7d32; } section h2 { border: 0; margin: .3em 0; }
section h2 small { color: #656d76; font-weight: normal; }
video { min-width: 320px; max-width: 480px; max-height: 320px; display: block; margin: .5em 0; }
section img { width: 128px; margin: 0 3px 3px 0; border-radius: 3px; }
blockquote { margin: .4em 0; padding: .3em .8em; background: #f6f8fa; overflow-wrap: anywhere; }
fieldset { border: 0; padding: .2em 0; margin: 0; } legend { float: left; min-width: 12em; }
label { margin-right: 1.2em; white-space: nowrap; }
footer { position: sticky; bottom: 0; background: #fff; border-top: 1px solid #d0d7de;
  padding: .6em 0; }
button { font: inherit; padding: .3em 1.2em; }
"""
# Reads all texts from the page, so that none of them is ever part of the program.
_SCRIPT = """
'use strict';
const sections = [...document.querySelectorAll('section')];
const place = document.body.dataset.study + ' ' + document.body.dataset.rater;
const columns = JSON.parse(document.body.dataset.columns);
const header = JSON.parse(document.body.dataset.header);
const answer = (section, column) => {
  const chosen = section.querySelector(`input[data-column="${column}"]:checked`);
  return chosen ? chosen.value : '';
};
const quote = value => '"' + value.replaceAll('"', '""') + '"';
const asText = value => /^[=+@-]/.test(value) ? "'" + value : value;  // no formula
function csv() {
  const rows = sections.map(section => [
    document.body.dataset.rater, section.dataset.item, asText(section.dataset.video),
    ...JSON.parse(section.dataset.captions).map(asText),
    ...columns.map(column => answer(section, column))]);
  return [header, ...rows].map(row => row.map(quote).join(',') + '\\r\\n').join('');
}
function update() {
  let done = 0;
  for (const section of sections) {
    const whole = columns.every(column => answer(section, column));
    section.className = whole ? 'done' : '';
    done += whole;
  }
  document.getElementById('count').textContent = `${done} of ${sections.length} videos done`;
  return done;
}
function keep() {
  const chosen = [...document.querySelectorAll('input:checked')].map(input => input.id);
  try { localStorage.setItem(place, JSON.stringify(chosen)); } catch (error) { /* not allowed */ }
  update();
}
function restore() {
  let chosen = [];
  try { chosen = JSON.parse(localStorage.getItem(place)) || []; } catch (error) { /* none */ }
  for (const id of chosen) {
    const input = document.getElementById(id);
    if (input) input.checked = true;
  }
  update();
}
function save() {
  const left = sections.length - update();
  if (left && !confirm(`${left} videos are not done yet. Save anyway?`)) return;
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([csv()], {type: 'text/csv'}));
  link.download = document.body.dataset.rater + '.csv';
  link.click();
}
document.addEventListener('change', keep);
document.getElementById('save').addEventListener('click', save);
restore();
"""


@dataclasses.dataclass(frozen=True)
class Media:
  """What a page shows of a video: the file, relative to the page, or pictures as data URIs."""

  file: str = ''
  pictures: Sequence[str] = ()


def render(
  rater: str,
  rows: Sequence[Mapping[str, Any]],
  questions: Questions,
  media: Mapping[str, Media],
  study: str,
) -> str:
  """A rater's page.

  Args:
    rater: as in the key.
    rows: of ``human_sheets.as_rows``.
    questions: to answer for each.
    media: of each video; those without are shown as text only.
    study: names the drawing, so that the browser keeps the answers of two apart.
  """
  if questions.task == 'compare':
    task = (
      f'Each video has {questions.captions} captions. For each question choose the better one, or '
      f'"{NEITHER}" if you cannot tell them apart.'
    )
  else:
    task = (
      f'Each video has {questions.captions} captions. Give each of them 1 (worst) to '
      f'{questions.points} (best) points for each question.'
    )
  task += ' Then save the file and send it back. Your answers are kept in this browser until then.'
  body = [
    f'<h1>Captions <small>{text(rater)}, {counted(len(rows), "video")}</small></h1>'
    f'<p>{text(task)}</p>',
    *(_section(row, questions, media.get(row['video_id'], Media())) for row in rows),
    '<footer><button id="save">Save the answers</button> <span id="count"></span></footer>',
  ]
  attributes = {
    'study': study,
    'rater': rater,
    'columns': json.dumps([*questions.columns()]),
    'header': json.dumps(header(questions)),
  }
  files = any(video.file for video in media.values())
  page = html_page.document(f'Captions, {rater}', body, _STYLE, _SCRIPT, files=files)
  return page.replace('<body>', f'<body {_data(attributes)}>', 1)


def _data(attributes: Mapping[str, str]) -> str:
  return ' '.join(f'data-{name}="{text(value)}"' for name, value in attributes.items())


def _section(row: Mapping[str, Any], questions: Questions, media: Media) -> str:
  """A video with its captions and questions."""
  number = str(row['item'])
  attributes = _data(
    {'item': number, 'video': row['video_id'], 'captions': json.dumps(row['captions'])}
  )
  captions = ''.join(
    f'<blockquote><b>{letter}</b>&ensp;{text(caption)}</blockquote>'
    for letter, caption in zip(questions.letters, row['captions'], strict=True)
  )
  fields = ''.join(
    _field(number, column, answers) for column, answers in questions.columns().items()
  )
  title = f'<h2>{text(number)} <small>{text(row["video_id"])}</small></h2>'
  return f'<section {attributes}>{title}{_media_html(media)}{captions}{fields}</section>'


def _field(number: str, column: str, answers: Sequence[str]) -> str:
  """Radio buttons for a column of the sheet."""
  buttons = ''.join(
    f'<label><input type="radio" id="{number}-{column}-{answer}" name="{number}-{column}" '
    f'data-column="{text(column)}" value="{text(answer)}"> {text(answer)}</label>'
    for answer in answers
  )
  name = column.replace('_', ' ')
  return f'<fieldset><legend>{text(name)}</legend>{buttons}</fieldset>'


def _media_html(media: Media) -> str:
  if media.file:
    source = text(urllib.parse.quote(media.file))
    return f'<video src="{source}" controls preload="metadata"></video>'
  return ''.join(f'<img src="{text(uri)}" alt="">' for uri in media.pictures)
