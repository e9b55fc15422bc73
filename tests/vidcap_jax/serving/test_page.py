"""The demo page in a browser, with a server that captions by a tiny checkpoint."""

import json
import math
import pathlib
import re

import numpy as np
import pytest

from tests.browser import find_chromium, open_browser

# Most of the time is that of the compiler, before the server is ready.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PHONE, DESKTOP = 360, 1280  # pixels
CAPTIONS = re.compile('/v1/captions$')

# Keeps the text fields of each request in ``sent``.
KEEP_FIELDS = """() => {
  const send = XMLHttpRequest.prototype.send;
  window.sent = [];
  XMLHttpRequest.prototype.send = function (form) {
    const texts = [...form].filter(([, value]) => typeof value === 'string');
    window.sent.push(Object.fromEntries(texts));
    send.call(this, form);
  };
}"""


@pytest.fixture(scope='module')
def browser():
  with open_browser() as opened:
    yield opened


@pytest.fixture(scope='module')
def clip(clips) -> pathlib.Path:
  return min(clips.glob('*.mp4'))


@pytest.fixture
def open_page(browser, server):
  """Opens the page; afterwards no script may have failed or been refused by the page's policy."""
  contexts, wrong = [], []

  def open_at(width: int = DESKTOP, scheme: str = 'light'):
    size = {'width': width, 'height': 800}
    contexts.append(browser.new_context(viewport=size, color_scheme=scheme))
    page = contexts[-1].new_page()
    page.set_default_timeout(60_000)  # a busy machine
    page.on('pageerror', lambda error: wrong.append(str(error)))
    policy = lambda message: 'Content Security Policy' in message.text  # noqa: E731
    page.on('console', lambda message: wrong.append(message.text) if policy(message) else None)
    page.goto(server.url)
    page.locator('#settings-box').wait_for()
    return page

  yield open_at
  for context in contexts:
    context.close()
  assert not wrong


@pytest.fixture
def page(open_page):
  return open_page()


def upload(page, *files):
  """Chooses files, waits until no card is at work, and returns the newest card."""
  page.locator('#files').set_input_files(list(files))
  page.locator('.card').first.wait_for()
  return finished(page)


def finished(page):
  page.locator('.work').first.wait_for(state='detached')
  return page.locator('.card').first


def shown_percents(card) -> list[str]:
  return card.locator('.strip .figures span:last-child').all_inner_texts()


def percent(text: str) -> float:
  return float(text.removeprefix('<').removesuffix('%'))


def test_the_caption_of_a_clip_and_its_attention_by_keyboard(page, clip):
  page.locator('#settings-box summary').click()
  page.get_by_label('Method').select_option('beam')
  with page.expect_response(CAPTIONS) as answered:
    card = upload(page, clip)
  result = answered.value.json()['results'][0]
  assert result['caption']
  assert card.locator('.caption').inner_text() == result['caption']
  assert len(result['captions']) == 2
  texts = card.locator('tbody td:first-child').all_inner_texts()
  assert texts == [each['caption'] for each in result['captions']]
  for column, per_word in ((2, False), (3, True)):
    cells = card.locator(f'tbody td:nth-child({column})').all_inner_texts()
    for text, each in zip(cells, result['captions'], strict=True):
      tokens = len(each['caption'].split(' ')) + 1 if per_word else 1
      share = 100 * math.exp(each['log_prob'] / tokens)
      assert percent(text) == pytest.approx(share, rel=0.06, abs=0.001)

  words = card.get_by_role('radio')
  assert words.all_inner_texts() == result['caption'].split(' ')
  weights = result['attention']['maps'][0]['over_frames']
  words.first.focus()
  for row in weights:
    assert [percent(text) for text in shown_percents(card)] == pytest.approx(
      [100 * weight for weight in row], abs=0.6
    )
    page.keyboard.press('ArrowRight')
  assert card.get_by_role('radio', checked=True).inner_text() == result['caption'].split(' ')[-1]
  page.keyboard.press('Home')
  assert words.first.get_attribute('aria-checked') == 'true'
  assert result['caption'].split(' ')[0] in page.get_by_role('status').inner_text()
  widths = card.locator('.strip img').evaluate_all('all => all.map(image => image.naturalWidth)')
  assert len(widths) == len(weights[0])
  assert min(widths) > 0


def test_pictures_and_several_files(page, clip, workspace):
  upload(page, clip, workspace / 'photo.png')
  assert page.locator('.card').count() == page.locator('.caption').count() == 2
  names = page.locator('.card .name').all_inner_texts()
  assert names == ['photo.png', clip.name]
  page.locator('.card').first.get_by_role('button', name='Remove').click()
  assert page.locator('.card .name').all_inner_texts() == [clip.name]


def test_a_file_that_is_dropped(page, clip):
  transfer = page.evaluate_handle(
    """bytes => {
      const transfer = new DataTransfer();
      const file = new File([new Uint8Array(bytes)], 'dropped.mp4', { type: 'video/mp4' });
      transfer.items.add(file);
      return transfer;
    }""",
    list(clip.read_bytes()),
  )
  page.locator('main').dispatch_event('drop', {'dataTransfer': transfer})
  page.locator('.card').first.wait_for()
  card = finished(page)
  assert card.locator('.name').inner_text() == 'dropped.mp4'
  assert card.locator('.caption').inner_text()


def test_a_hostile_file_name_is_shown_as_text(page, clip):
  name = '<img src=x onerror="document.title=1">\'"&amp;.mp4'
  title = page.title()
  for contents in (clip.read_bytes(), b'no video'):
    card = upload(page, {'name': name, 'mimeType': 'video/mp4', 'buffer': contents})
    assert card.locator('.name').inner_text() == name
    assert page.locator('img[src=x]').count() == 0
  assert '<img' in card.locator('.problem').inner_text()
  assert page.title() == title


def test_an_error_is_shown_and_the_next_file_is_captioned(page, clip):
  card = upload(page, {'name': 'damaged.mp4', 'mimeType': 'video/mp4', 'buffer': b'no video'})
  assert 'damaged' in card.locator('.problem').inner_text()
  assert upload(page, clip).locator('.caption').inner_text()


def refuse(page, times: int, status: int, code: str) -> list[str]:
  """Answers the first requests with an error that names a time; returns their methods."""
  attempts: list[str] = []

  def answer(route):
    attempts.append(route.request.method)
    if len(attempts) > times:
      route.continue_()
      return
    body = json.dumps({'error': {'code': code, 'message': f'{code}: send it again later'}})
    headers = {'Retry-After': '1', 'Content-Type': 'application/json'}
    route.fulfill(status=status, headers=headers, body=body)

  page.route(CAPTIONS, answer)
  return attempts


@pytest.mark.parametrize(('times', 'status', 'code'), [(1, 429, 'busy'), (3, 503, 'starting')])
def test_a_server_that_is_busy_or_starting_is_asked_again(page, clip, times, status, code):
  attempts = refuse(page, times, status, code)
  page.locator('#files').set_input_files(clip)
  page.get_by_text(f'The server is {code}. Trying again in 1 s').wait_for()
  assert finished(page).locator('.caption').inner_text()
  assert len(attempts) == times + 1


def test_a_server_that_stays_busy_is_asked_twice(page, clip):
  attempts = refuse(page, 10, 429, 'busy')
  card = upload(page, clip)
  assert 'busy: send it again later' in card.locator('.problem').inner_text()
  assert len(attempts) == 2


def test_a_lost_connection_is_reported_and_tried_again_by_button(page, clip):
  page.route(CAPTIONS, lambda route: route.abort())
  card = upload(page, clip)
  assert 'server does not answer' in card.locator('.problem').inner_text()
  page.unroute(CAPTIONS)
  card.get_by_role('button', name='Caption again').click()
  assert finished(page).locator('.caption').inner_text()


def test_cancelling_a_request(page, clip):
  held = []
  page.route(CAPTIONS, lambda route: held.append(route))
  page.locator('#files').set_input_files(clip)
  page.get_by_role('button', name=f'Cancel {clip.name}').click()
  assert finished(page).get_by_text('Cancelled.').is_visible()
  assert len(held) == 1


def test_settings_are_sent_and_limited(page, clip):
  page.locator('#settings-box summary').click()
  page.get_by_label('Method').select_option('sample')
  page.get_by_label('Temperature').fill('0.5')
  page.get_by_role('spinbutton', name='Captions').fill('2')
  page.evaluate(KEEP_FIELDS)
  card = upload(page, clip)
  [sent] = page.evaluate('sent')
  assert {'method': 'sample', 'temperature': '0.5', 'captions': '2'}.items() <= sent.items()
  assert not {'beam', 'length_penalty'} & {*sent}
  assert card.locator('tbody tr').count() == 2
  page.get_by_role('spinbutton', name='Captions').fill('1000000')
  page.locator('#files').set_input_files(clip)
  assert page.locator('.card').count() == 1
  page.get_by_role('button', name='Defaults').click()
  upload(page, clip)
  assert page.locator('.card').count() == 2


def test_the_camera(page):
  page.get_by_role('button', name='Use the camera').click()
  page.locator('#camera-seconds').select_option('3')
  page.get_by_role('button', name='Record').click()
  page.locator('.card').first.wait_for()
  card = finished(page)
  assert card.locator('.name').inner_text() == 'camera.webm'
  assert card.locator('.caption').inner_text()
  page.get_by_role('button', name='Use the camera').click()
  page.get_by_role('button', name='Take a picture').click()
  page.locator('.card').nth(1).wait_for()
  assert finished(page).locator('.caption').inner_text()


def test_features(page, tmp_path):
  np.save(tmp_path / 'video.npy', np.ones((4, 128), np.float32))
  page.locator('#features-box summary').click()
  page.locator('#streams input').set_input_files(tmp_path / 'video.npy')
  page.get_by_role('button', name='Caption the features').click()
  page.locator('.card').first.wait_for()
  assert finished(page).locator('.caption').inner_text()


@pytest.mark.parametrize('scheme', ['light', 'dark'])
def test_a_phone_shows_the_page_without_scrolling_sideways(open_page, clip, scheme):
  page = open_page(PHONE, scheme)
  for name in ('settings-box', 'features-box'):
    page.locator(f'#{name} summary').click()
  upload(page, clip)
  upload(page, {'name': 'x' * 200 + '.mp4', 'mimeType': 'video/mp4', 'buffer': b''})
  assert page.evaluate('document.documentElement.scrollWidth') <= PHONE
  colours = page.evaluate(
    '[getComputedStyle(document.body)].map(s => [s.color, s.backgroundColor])'
  )
  text, background = (sum(map(int, re.findall(r'\d+', each)[:3])) for each in colours[0])
  assert (text < background) == (scheme == 'light')


def test_a_machine_without_a_browser_fails_and_names_the_package(monkeypatch):
  monkeypatch.setattr('shutil.which', lambda name: None)
  with pytest.raises(pytest.fail.Exception, match='apt-get install chromium'):
    find_chromium()
