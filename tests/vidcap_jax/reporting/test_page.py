"""Reports in a browser, opened from the disk."""

import json
import re
import shutil

import numpy as np
import pytest

from tests import tiny, video_files
from tests.browser import open_browser
from tests.vidcap_jax.reporting import region_run, results
from vidcap_jax.reporting import evaluations, folder, report
from vidcap_jax.reporting.settings import Options

pytestmark = pytest.mark.slow

PHONE, DESKTOP = 360, 1280  # pixels


@pytest.fixture(scope='module', params=['chromium', 'firefox'])
def browser(request):
  with open_browser(request.param) as opened:
    yield opened


@pytest.fixture(scope='module')
def run_report(evaluated_run, tmp_path_factory):
  """A report of a tiny run with pictures, beside another run."""
  place = tmp_path_factory.mktemp('report')
  (place / 'clips').mkdir()
  own = evaluations.find(str(evaluated_run), 'val')
  for video_id in list(own.hypotheses)[:2]:
    video_files.write_video(place / 'clips' / f'{video_id}.mp4', video_files.ramp(20))
  other = place / HOSTILE_NAME
  shutil.copytree(evaluated_run, other, ignore=shutil.ignore_patterns('checkpoints'))
  captions = json.loads((other / 'eval' / 'val' / 'captions.json').read_text())
  captions[0]['caption'] = results.HOSTILE
  (other / 'eval' / 'val' / 'captions.json').write_text(json.dumps(captions))
  config = json.loads((other / 'config.json').read_text())
  config['seed'] += 1
  (other / 'config.json').write_text(json.dumps(config))
  options = Options(
    videos=str(place / 'clips'), compare=str(other), output=str(place / 'a "report" <b>#1')
  )
  with tiny.unscored_by_java():
    return report.write(own, options, lambda line: None)


HOSTILE_NAME = '<img src=x onerror="hacked = 1">'


@pytest.fixture(scope='module')
def hostile_report(tmp_path_factory):
  """A report of videos whose ids, captions and settings are hostile, without data set and run."""
  source = results.write(
    tmp_path_factory.mktemp('hostile') / 'results', caption=lambda i: f'{results.HOSTILE} {i % 3}'
  )
  return report.write(evaluations.read(source), Options(), lambda line: None)


@pytest.fixture(scope='module')
def region_report(tmp_path_factory):
  """A report of a model that picks frames and attends to their regions, with boxes."""
  place = tmp_path_factory.mktemp('regions')
  own = evaluations.find(str(region_run.make(place)), 'val')
  with tiny.unscored_by_java():
    options = Options(videos=str(place / 'clips'), boxes='where')
    return report.write(own, options, lambda line: None)


def scheme_options(browser, scheme: str) -> dict[str, str]:
  """Of a context. Playwright sets no color scheme in Firefox, which is light by itself."""
  if browser.browser_type.name == 'firefox':
    if scheme == 'dark':
      pytest.skip('Playwright sets no color scheme in Firefox')
    return {}
  return {'color_scheme': scheme}


@pytest.fixture
def open_page(browser):
  """Opens a page; afterwards nothing may have failed, and no text have been run."""
  contexts, pages, wrong = [], [], []

  def open_at(path, width: int = DESKTOP, scheme: str = 'light'):
    size = {'width': width, 'height': 800}
    contexts.append(browser.new_context(viewport=size, **scheme_options(browser, scheme)))
    page = contexts[-1].new_page()
    pages.append(page)
    page.set_default_timeout(60_000)  # a busy machine
    page.on('pageerror', lambda error: wrong.append(str(error)))
    page.on('console', lambda message: wrong.append(message.text))
    page.on('requestfailed', lambda request: wrong.append(request.url))
    page.goto(path.as_uri())
    page.locator('#overview').wait_for()
    return page

  yield open_at
  for page in pages:
    assert page.evaluate('window.hacked') is None
  for context in contexts:
    context.close()
  assert wrong == []


def test_words_light_up_frames_by_keyboard(open_page, run_report):
  page = open_page(run_report)
  videos = results.read_data(run_report.parent, 'videos')
  summary = results.read_data(run_report.parent, 'summary')
  place = next(i for i, n in enumerate(summary['attention']['videos']) if n < 2)
  number = summary['attention']['videos'][place]
  entry = results.read_data(run_report.parent, 'attention-000')[place]
  page.locator(f'#table a[href="#video-{number}"]').click()
  page.locator('#video .caption').wait_for()
  assert page.locator('#video .caption').inner_text() == videos['captions'][number]
  words = page.get_by_role('radio')
  assert words.all_inner_texts() == entry['words']
  weights = np.array(entry['maps'][0]['weights']) / entry['maps'][0]['levels']
  words.first.focus()
  for row in weights:
    shown = page.locator('#video .strip .figures span:last-child').all_inner_texts()
    assert [float(text.removesuffix('%')) for text in shown] == pytest.approx(100 * row, abs=0.6)
    page.keyboard.press('ArrowRight')
  widths = page.locator('#video img').evaluate_all('all => all.map(image => image.naturalWidth)')
  assert len(widths) == weights.shape[1]
  assert min(widths) > 0
  page.keyboard.press('n')
  page.locator('#video a[rel=prev]').wait_for()
  page.keyboard.press('Escape')
  page.locator('#overview').wait_for()
  assert page.locator('#video').is_hidden()


def test_boxes_of_regions_and_picked_frames(open_page, region_report):
  page = open_page(region_report)
  summary = results.read_data(region_report.parent, 'summary')
  number = summary['attention']['videos'][0]
  entry = results.read_data(region_report.parent, 'attention-000')[0]
  page.locator(f'#table a[href="#video-{number}"]').click()
  page.locator('#video .caption').wait_for()
  names = page.locator('#video .attention select option').all_inner_texts()
  assert names == [each['name'] for each in entry['maps']]
  spatial = next(each for each in entry['maps'] if each['name'] == 'spatial')
  frames = page.locator('#video .strip li')
  assert frames.count() == len(spatial['frames']) == region_run.T // region_run.EVERY
  video_id = results.read_data(region_report.parent, 'videos')['ids'][number]
  present = [region for region in range(region_run.N) if region != region_run.ABSENT]
  expected = region_run.boxes_of(int(video_id[1:]))[:, present, :4]
  words = page.get_by_role('radio')
  for word, chosen in enumerate(spatial['chosen']):
    words.nth(word).focus()
    shares = np.array(spatial['weights'][word])[:, present] / np.max(spatial['weights'][word])
    for frame in range(len(expected)):
      drawn = (
        frames.nth(frame)
        .locator('rect')
        .evaluate_all(
          """all => all.map(box => [...['x', 'y', 'width', 'height'].map(
             name => Number(box.getAttribute(name))), Number(box.style.opacity)])"""
        )
      )
      left, top, wide, high, opacity = np.array(drawn).T
      corners = np.stack([left, top, left + wide, top + high], axis=1) / 1000
      np.testing.assert_allclose(corners, expected[frame], atol=2e-3)
      np.testing.assert_allclose(opacity, 0.15 + 0.85 * shares[frame], atol=2e-3)
      is_marked = 'marked' in (frames.nth(frame).get_attribute('class') or '')
      assert is_marked == (frame in chosen)
      alt = frames.nth(frame).locator('img').get_attribute('alt')
      assert ('chosen' in alt) == is_marked
  spoken = page.get_by_role('status').first.text_content()
  assert 'region' in spoken
  assert 'chosen' in spoken
  hint = page.locator('#video .attention p').inner_text()
  assert 'Boxes' in hint
  assert 'chose' in hint


def test_regions_without_boxes_are_bars_in_their_order(open_page, region_report, tmp_path):
  copied = tmp_path / 'copied'
  shutil.copytree(region_report.parent, copied)
  entries = results.read_data(copied, 'attention-000')
  for entry in entries:
    entry['frames'] = [{**frame, 'boxes': None} for frame in entry['frames']]
  folder.write_data(copied, 'attention-000', entries)
  page = open_page(copied / folder.INDEX)
  number = results.read_data(copied, 'summary')['attention']['videos'][0]
  page.goto(f'{(copied / folder.INDEX).as_uri()}#video-{number}')
  page.locator('#video .caption').wait_for()
  page.get_by_role('radio').first.focus()
  spatial = next(each for each in entries[0]['maps'] if each['name'] == 'spatial')
  weights = np.array(spatial['weights'][0])
  heights = page.locator('#video .strip .regions').evaluate_all(
    'all => all.map(bars => [...bars.children].map(bar => parseFloat(bar.style.height)))'
  )
  np.testing.assert_allclose(heights, 100 * weights / weights.max(), atol=0.1)
  assert 'Bars' in page.locator('#video .attention p').inner_text()


def test_the_key_frame_is_marked_and_named(open_page, run_report, tmp_path):
  copied = tmp_path / 'copied'
  shutil.copytree(run_report.parent, copied)
  entries = results.read_data(copied, 'attention-000')
  for entry in entries:
    entry['key_frame'] = 1
  folder.write_data(copied, 'attention-000', entries)
  page = open_page(copied / folder.INDEX)
  number = results.read_data(copied, 'summary')['attention']['videos'][0]
  page.goto(f'{(copied / folder.INDEX).as_uri()}#video-{number}')
  page.locator('#video .caption').wait_for()
  page.get_by_role('radio').first.focus()
  frames = page.locator('#video .strip li')
  marked = [i for i in range(frames.count()) if 'key frame' in frames.nth(i).inner_text()]
  assert marked == [1]
  assert 'marked' in frames.nth(1).get_attribute('class')
  assert 'key frame' in page.get_by_role('status').first.text_content()
  assert 'key frame' in page.locator('#video .attention p').inner_text()


def test_the_comparison(open_page, run_report):
  page = open_page(run_report)
  section = page.locator('#comparison')
  assert HOSTILE_NAME in section.inner_text()
  assert '1 of 3 videos have another caption' in section.inner_text()
  settings = section.locator('details')
  assert settings.locator('summary').inner_text() == '1 setting differs'
  names = settings.locator('th')
  assert names.all_inner_texts()[::2] == ['setting', HOSTILE_NAME]
  wrap = 'element => getComputedStyle(element).overflowWrap'
  assert {names.nth(i).evaluate(wrap) for i in range(3)} == {'normal'}
  heads = section.locator('.scores th').all_inner_texts()
  summary = results.read_data(run_report.parent, 'summary')
  first, second = summary['label'], summary['compare']['label']
  assert f'{first} minus {second}' in section.inner_text()
  name, value, *_ = summary['scores'][-1]
  cells = section.locator('.scores tbody tr').last.locator('td').all_inner_texts()
  row = dict(zip(heads, cells, strict=True))
  assert row[summary['label']] == f'{value:.3f}'
  assert row['difference'] == '0.000' or float(row['difference'].replace('\u2212', '-')) == (
    pytest.approx(value - summary['compare']['scores'][name][0], abs=6e-4)
  )
  assert page.locator('#curves svg').count() >= 2
  assert page.locator('#curves .line-1').count() >= 2
  page.locator('#sort').select_option('change lowest')
  first = page.locator('#table tbody tr').first.inner_text()
  assert results.HOSTILE in first or '0.000' in first


def test_hostile_texts_are_shown_as_they_are(open_page, hostile_report):
  page = open_page(hostile_report)
  assert page.locator('img[src=x]').count() == 0
  shown = page.locator('#table td.id small').all_text_contents()
  assert shown == list(results.IDS[:25])
  page.locator('#table a').first.click()
  page.locator('#video .caption').wait_for()
  assert page.locator('#video .caption').text_content() == f'{results.HOSTILE} 0'
  assert results.HOSTILE in page.locator('#video ul').last.text_content()
  assert page.locator('img[src=x]').count() == 0


def test_text_that_runs_from_right_to_left(open_page, tmp_path):
  arabic = '\u0643\u0644\u0628 \u064a\u0631\u0643\u0636'
  source = results.write(tmp_path / 'results', ('v0', 'v1'), caption=lambda i: (arabic, 'a dog')[i])
  path = report.write(evaluations.read(source), Options(), lambda line: None)
  page = open_page(path)
  direction = 'element => getComputedStyle(element).direction'
  links = page.locator('#table a bdi')
  assert links.all_text_contents() == [arabic, 'a dog']
  assert [links.nth(i).evaluate(direction) for i in (0, 1)] == ['rtl', 'ltr']
  page.locator('#table a').first.click()
  page.locator('#video .caption').wait_for()
  assert page.locator('#video .caption').evaluate(direction) == 'rtl'
  assert page.locator('#video .muted').first.evaluate(direction) == 'ltr'  # the id


def test_the_table_is_sorted_searched_and_paged(open_page, hostile_report):
  page = open_page(hostile_report)
  rows = page.locator('#table tbody tr')
  page.get_by_role('button', name='Next').click()
  assert rows.count() == len(results.IDS) - 25
  page.get_by_role('button', name='Probability per word').click()
  assert page.locator('th[aria-sort=ascending]').count() == 1
  assert rows.last.locator('td.id small').text_content() == results.IDS[25 - 6]
  page.locator('#search').fill('V39 <IMG')
  page.get_by_text('1 of 44 videos').wait_for()
  assert rows.first.locator('td.id small').text_content() == 'v39'
  page.locator('#search').fill('')
  page.locator('#words button').first.click()
  page.get_by_text(re.compile('15 of 44 videos with the caption')).wait_for()


def test_arrow_keys_move_between_rows(open_page, hostile_report):
  page = open_page(hostile_report)
  page.locator('#table a').first.focus()
  page.keyboard.press('ArrowDown')
  assert page.evaluate('document.activeElement.hash') == '#video-1'
  page.keyboard.press('Enter')
  page.locator('#video .caption').wait_for()
  page.evaluate('history.back()')  # go_back waits for a load, which Firefox does not report here
  page.locator('#overview').wait_for()
  assert page.evaluate('document.activeElement.hash') == '#video-1'


@pytest.mark.parametrize('scheme', ['light', 'dark'])
def test_a_phone_shows_it_without_scrolling_sideways(open_page, run_report, hostile_report, scheme):
  for path in (run_report, hostile_report):
    page = open_page(path, PHONE, scheme)
    for summary in page.locator('details:not([open]) > summary').all():
      summary.click()
    assert page.evaluate('document.documentElement.scrollWidth') <= PHONE
    page.locator('#table a').first.click()
    page.locator('#video .caption').wait_for()
    assert page.evaluate('document.documentElement.scrollWidth') <= PHONE
  colours = page.evaluate(
    '[getComputedStyle(document.body)].map(s => [s.color, s.backgroundColor])'
  )
  text, background = (sum(map(int, re.findall(r'\d+', each)[:3])) for each in colours[0])
  assert (text < background) == (scheme == 'light')


def test_a_folder_that_is_not_whole_names_the_missing_file(browser, hostile_report, tmp_path):
  copied = tmp_path / 'copied'
  shutil.copytree(hostile_report.parent, copied)
  (copied / 'data' / 'texts-000.js').unlink()
  page = browser.new_context().new_page()
  page.goto((copied / folder.INDEX).as_uri())
  page.locator('#table a').first.click()
  page.get_by_text('data/texts-000.js').first.wait_for()
