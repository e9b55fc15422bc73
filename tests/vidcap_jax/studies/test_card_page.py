"""The Markdown of a card."""

import dataclasses

from tests.vidcap_jax.studies import finished
from vidcap_jax.data.records import Video
from vidcap_jax.studies import card_page, results_rows
from vidcap_jax.studies.card_contents import Card, Weakness
from vidcap_jax.studies.results_baselines import Baselines

REPORT = {
  'references': True,
  'videos': 3,
  'data': {'hash': 'h'},
  'CIDEr': 0.5,
  'constant_CIDEr': 0.1,
  'constant_caption': 'a | b',
}
GOODPUT = {'seconds': dict.fromkeys(card_page.PARTS, 0.0) | {'stepping': 90.0}, 'hardware': 'Chip'}


def card_of(restored, **fields):
  reports = {'val': REPORT}
  card = Card(restored, None, reports, {}, None, None, Baselines({}, {}), '')
  return dataclasses.replace(card, **fields)


def test_scores_with_intervals_and_what_to_compare_them_with(restored):
  nearest = {('h', 'val'): {'nearest: image': {'CIDEr': 0.3}}}
  baselines = Baselines(nearest, {('', 'xe', 'val'): {'CIDEr': 0.2}})
  intervals = {'val': {'CIDEr': (0.4, 0.6)}}
  text = card_page.text(card_of(restored, intervals=intervals, baselines=baselines), GOODPUT)
  assert '50.0 (40.0 to 60.0)' in text
  (compared,) = [line for line in text.splitlines() if line.startswith('CIDEr on val')]
  assert all(part in compared for part in ('10.0', r'a \| b', '30.0', '20.0'))
  assert 'Chip' in text
  assert 'stepping 1m30s' in text


def test_scores_have_the_signature_of_their_evaluation(restored):
  signed = {**REPORT, 'signature': 'nrefs:5|videos:3'}
  text = card_page.text(card_of(restored, reports={'val': REPORT, 'test': signed}), {})
  assert 'test: `nrefs:5|videos:3`' in text
  assert text.count('nrefs') == 1


def test_a_run_without_scores_has_the_command_that_makes_them(restored):
  text = card_page.text(card_of(restored, reports={}), {})
  assert 'vidcap evaluate --checkpoint=runs/' in text
  assert 'not recorded' in text


def test_without_evaluation_the_best_validation_is_shown(restored, tmp_path):
  workdir = finished.write(tmp_path / 'run')
  (trained,) = results_rows.read_stages(workdir)
  text = card_page.text(card_of(restored, reports={}, trained=trained), {})
  assert 'CIDEr 40.0' in text
  assert 'the best after 2.0' in text


def test_an_imported_checkpoint_names_its_project(restored):
  origin = {'project': 'imagecaptioning', 'sha256': 64 * 'a'}
  imported = dataclasses.replace(restored, meta={**restored.meta, 'imported': origin})
  assert 'imported from imagecaptioning' in card_page.text(card_of(imported), {})
  assert 'imported' not in card_page.text(card_of(restored), {})


def test_the_example_gives_features_to_a_model_whose_extractors_are_unknown(restored):
  text = card_page.text(
    card_of(dataclasses.replace(restored, meta={**restored.meta, 'making': {}})), {}
  )
  (stream, *_) = restored.streams
  assert f'--inputs={stream.name}=DIR' in text
  assert f"features={{'{stream.name}': 'DIR'" in text
  assert 'clip.mp4' not in text


def test_retrieval_is_shown_of_a_model_that_makes_no_captions(restored):
  report = {'R@1': 0.125, 'R@5': 0.25, 'R@10': 0.5, 'rsum': 3.0}
  text = card_page.text(card_of(restored, reports={'val': report}), {})
  assert '0.125' in text
  assert 'vidcap evaluate' not in text


def test_weaknesses_are_shown_escaped(restored):
  video = Video('v<1>', ('one | two',), {})
  weakness = Weakness('val', [(video, '', 0.01)], [(3, 7, 0.2)], [('dog', 4)], [('x*', 2)], 0.25)
  text = card_page.text(card_of(restored, weakness=weakness), {})
  (row,) = [line for line in text.splitlines() if line.startswith(r'| v\<1\> ')]
  assert ' '.join(row.split()) == r'| v\<1\> | 1 | (empty) | one \| two |'
  assert '25 % of the videos' in text
  assert '3 (20.0, 7 videos)' in text
  assert 'dog (4)' in text
  assert r'x\* (2)' in text


def test_settings_that_differ_from_the_defaults_are_listed(restored):
  rows = dict(card_page._settings_rows(restored.config.to_dict()))
  assert rows['optimizer.learning_rate'] == '0.02'
  assert not any(key.startswith(('model.', 'data.dir', 'log.')) for key in rows)
