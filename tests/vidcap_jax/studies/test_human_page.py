"""Pages for raters: texts stay texts, nothing is loaded, and the questions are the sheet's."""

import json

from tests.html_pages import Page
from tests.vidcap_jax.studies.test_human_sheets import CAPTIONS, RUNS, drawn
from vidcap_jax.studies import human_page, human_sheets
from vidcap_jax.studies.human_page import Media

NASTY = '</blockquote><script>alert("1")</script> & \'quoted\''


def rendered(task='compare', captions=CAPTIONS, media=()):
  key = drawn(task)
  rows = human_sheets.as_rows('rater_02', key, captions)
  page = human_page.render('rater_02', rows, key.questions, dict(media), 'study')
  return key, page, Page(page)


def test_the_page_asks_what_the_sheet_asks():
  for task in human_sheets.TASKS:
    key, _, page = rendered(task)
    (body,) = page.all('body')
    assert json.loads(body['data-header']) == human_sheets.header(key.questions)
    sections = page.all('section')
    assert [section['data-video'] for section in sections] == [
      item.video_id for item in key.items['rater_02']
    ]
    first = key.items['rater_02'][0]
    assert json.loads(sections[0]['data-captions']) == [
      CAPTIONS[run][first.video_id] for run in first.runs
    ]
    buttons = [(i['data-column'], i['value']) for i in page.all('input') if i['id'][:2] == '1-']
    assert buttons == [
      (column, answer) for column, answers in key.questions.columns().items() for answer in answers
    ]


def test_the_page_does_not_name_the_runs():
  captions = {run.label: dict.fromkeys(run.captions, 'x') for run in RUNS}
  _, page, _ = rendered(captions=captions)
  assert not any(label in page for label in captions)


def test_captions_stay_text_and_nothing_is_loaded():
  captions = {run.label: dict.fromkeys(run.captions, NASTY) for run in RUNS}
  _, page, reader = rendered(captions=captions)
  assert len(reader.all('script')) == 1
  assert sum(NASTY in text for text in reader.texts) == 20
  assert 'http://' not in page
  assert 'https://' not in page
  (policy,) = [m['content'] for m in reader.all('meta') if 'content' in m and 'src' in m['content']]
  assert "default-src 'none'" in policy
  assert 'file:' not in policy


def test_videos_and_pictures_are_shown():
  media = {f'v{i}': Media(file=f'media/v {i}"#.mp4') for i in range(0, 40, 2)}
  media |= {f'v{i}': Media(pictures=['data:image/jpeg;base64,AA']) for i in range(1, 40, 2)}
  key, page, reader = rendered(media=media)
  even = [int(item.video_id[1:]) % 2 == 0 for item in key.items['rater_02']]
  assert len(reader.all('video')) == sum(even) > 0
  assert len(reader.all('img')) == 10 - sum(even) > 0
  assert all('%22%23.mp4' in video['src'] for video in reader.all('video'))
  assert "media-src 'self' file:" in page
