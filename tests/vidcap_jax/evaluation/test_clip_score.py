"""CLIPScore and RefCLIPScore."""

import json
import sys

import numpy as np
import pytest

from tests import clip_folder, tiny
from vidcap_jax.errors import ConfigError, DataError, UserError
from vidcap_jax.evaluation import clip_score, metrics_command, scoring
from vidcap_jax.features.backbones import transformers_clip

Image = pytest.importorskip('PIL.Image', reason='the extra "video" is not installed')
pytest.importorskip('av', reason='the extra "video" is not installed')

CAPTIONS = {'v1': 'a dog', 'v2': 'two cats'}
REFERENCES = {'v1': ['a dog', 'big dogs'], 'v2': ['a cat']}
BOTH = ('CLIPScore', 'RefCLIPScore')


class MeanColour:
  """Embeds a picture by its mean colour, and a text by how often it has a, d and t."""

  size = scale = 8
  digest = '01234567'

  def __init__(self):
    self.pictures, self.texts = [], []

  def embed_pictures(self, pictures):
    self.pictures.append(len(pictures))
    return transformers_clip.unit(pictures.reshape(len(pictures), -1, 3).mean(1))

  def embed_texts(self, texts):
    self.texts += texts
    words = [text.removeprefix(clip_score.PREFIX) for text in texts]
    counts = np.array([[word.count(c) for c in 'adt'] for word in words], np.float32)
    return transformers_clip.unit(counts)


@pytest.fixture
def model(monkeypatch):
  model = MeanColour()
  monkeypatch.setattr(clip_score, 'load_model', lambda folder: model)
  return model


@pytest.fixture
def videos(tmp_path):
  """A folder with a video of three frames, red, red and green, and a blue picture."""
  folder = tmp_path / 'videos'
  (folder / 'v1').mkdir(parents=True)
  for i, colour in enumerate([(200, 0, 0), (200, 0, 0), (0, 200, 0)]):
    Image.new('RGB', (8, 8), colour).save(folder / 'v1' / f'{i}.png')
  Image.new('RGB', (8, 8), (0, 0, 200)).save(folder / 'v2.png')
  return folder


def options(tmp_path, folder, **changes):
  given = {'metrics': BOTH, 'clip_model': str(tmp_path), 'videos': str(folder), **changes}
  return scoring.Options(**given)


def test_the_published_formula():
  rng = np.random.default_rng(0)
  draw = lambda *shape: transformers_clip.unit(rng.normal(size=shape))  # noqa: E731
  videos, captions, references = draw(50, 4), draw(50, 4), [draw(n % 3 + 1, 4) for n in range(50)]
  scores = clip_score.clip_scores(videos, captions)
  with_references = clip_score.ref_clip_scores(scores, captions, references)
  for n in range(50):
    expected = 2.5 * max(float(np.dot(videos[n], captions[n])), 0)
    nearest = max(0, *(float(np.dot(captions[n], reference)) for reference in references[n]))
    both = expected > 0 and nearest > 0
    assert scores[n] == pytest.approx(expected)
    assert with_references[n] == pytest.approx(2 / (1 / expected + 1 / nearest) if both else 0)
  assert 0 < np.count_nonzero(with_references) < np.count_nonzero(scores) < 50


def test_a_video_is_the_mean_of_its_frames(model, videos, tmp_path):
  found = scoring.score_captions(CAPTIONS, REFERENCES, options(tmp_path, videos), print)
  assert model.pictures == [3, 1]  # no frame counts twice, and a picture is one frame
  video = np.array([2, 1, 0]) / 5**0.5  # the mean of two red frames and a green one, of length 1
  caption = np.array([1, 1, 0]) / 2**0.5  # 'a dog'
  assert found.per_video['v1']['CLIPScore'] == pytest.approx(2.5 * video @ caption)
  assert found.per_video['v2']['CLIPScore'] == pytest.approx(2.5 * 2 / 5**0.5)  # a, t, t: (1, 0, 2)
  assert found.per_video['v1']['RefCLIPScore'] == pytest.approx(
    2 / (1 / (2.5 * video @ caption) + 1)
  )
  assert set(model.texts) == {
    f'A photo depicts {text}' for text in ('a dog', 'big dogs', 'two cats', 'a cat')
  }
  assert len(model.texts) == 4  # each is embedded once
  for name in BOTH:
    scores = [scores[name] for scores in found.per_video.values()]
    assert found.corpus[name] == pytest.approx(np.mean(scores))
    assert found.intervals[name][0] <= found.corpus[name] <= found.intervals[name][1]


def test_the_model_and_frames_are_in_the_signature(model, videos, tmp_path):
  some = options(tmp_path, videos, metrics=('CIDEr', 'CLIPScore'), clip_frames=2)
  found = scoring.score_captions(CAPTIONS, REFERENCES, some, lambda _: None)
  assert found.signature.clip == '01234567,frames=2'
  assert list(found.corpus) == ['CIDEr', 'CLIPScore']
  assert model.pictures == [2, 1]
  assert 'A photo depicts big dogs' not in model.texts  # references are for RefCLIPScore
  plain = scoring.Options(metrics=('CIDEr',))
  assert scoring.score_captions(CAPTIONS, REFERENCES, plain, lambda _: None).signature.clip == ''


def test_a_caption_without_a_word_scores_0(model, videos, tmp_path):
  captions = {**CAPTIONS, 'v2': '...'}
  found = scoring.score_captions(captions, REFERENCES, options(tmp_path, videos), print)
  assert found.per_video['v2'] == {'CLIPScore': 0, 'RefCLIPScore': 0}
  assert found.per_video['v1']['CLIPScore'] > 0


def test_the_command_scores_and_compares(model, videos, tmp_path, capsys):
  for name, captions in {'a': CAPTIONS, 'b': {**CAPTIONS, 'v1': 'a a a'}}.items():
    (tmp_path / f'{name}.json').write_text(json.dumps(captions))
  (tmp_path / 'r.json').write_text(json.dumps(REFERENCES))
  flags = [f'--references={tmp_path}/r.json', '--metrics=CLIPScore,RefCLIPScore']
  flags += [f'--clip_model={tmp_path}', f'--videos={videos}']
  metrics_command.main([*flags, f'--hypotheses={tmp_path}/a.json', '--clip_frames=1'])
  out = capsys.readouterr().out
  assert 'RefCLIPScore' in out
  assert 'clip:01234567,frames=1' in out
  model.pictures.clear()
  metrics_command.main([*flags, f'--compare={tmp_path}/a.json,{tmp_path}/b.json'])
  assert 'RefCLIPScore' in capsys.readouterr().out
  assert model.pictures == [3, 1]  # videos are embedded once for both systems


@pytest.mark.parametrize(
  ('changes', 'error', 'words'),
  [
    ({'clip_model': ''}, ConfigError, '--clip_model'),
    ({'clip_model': '/nowhere'}, UserError, '--clip_model=/nowhere'),
    ({'videos': ''}, ConfigError, '--videos'),
    ({'videos': '/nowhere'}, UserError, '--videos=/nowhere'),
    ({'clip_frames': 0}, ConfigError, '--clip_frames=0'),
    ({'metrics': ('CIDEr',), 'clip_model': ''}, UserError, '--videos=.*read for CLIPScore'),
    (
      {'metrics': ('CIDEr',), 'clip_model': '', 'videos': '', 'clip_frames': 0},
      UserError,
      '--clip_frames=0: read for CLIPScore',
    ),
    ({'metrics': ('CLIPscore',)}, ConfigError, 'CLIPscore.*RefCLIPScore'),
  ],
)
def test_wrong_options_are_refused_before_files_are_read(
  changes, error, words, model, videos, tmp_path
):
  (tmp_path / 'h.json').write_text('not read')
  (tmp_path / 'r.json').write_text('not read')
  wrong = options(tmp_path, videos, **changes)
  with pytest.raises(error, match=words):
    scoring.score_captions(tmp_path / 'h.json', tmp_path / 'r.json', wrong, print)


def test_a_missing_package_or_model_is_refused_first(videos, tmp_path, monkeypatch):
  monkeypatch.setitem(sys.modules, 'transformers', None)
  with pytest.raises(ModuleNotFoundError, match=r'vidcap_jax\[torch\]'):
    scoring.score_captions(CAPTIONS, REFERENCES, options(tmp_path, videos), print)


def test_videos_that_are_missing_or_damaged_are_counted_and_named(
  model, videos, tmp_path, monkeypatch
):
  monkeypatch.setattr(scoring, 'score_details', None)  # nothing is scored
  some = options(tmp_path, videos)
  (videos / 'v2.png').write_bytes(b'no picture')
  with pytest.raises(DataError, match=r'1 of 2 videos.*\(v2\).*v2\.png') as caught:
    scoring.score_captions(CAPTIONS, REFERENCES, some, print)
  assert caught.value.items == ('v2',)
  (videos / 'v2.png').unlink()
  model.pictures.clear()
  monkeypatch.setattr(scoring, 'prepare_references', None)  # nothing is tokenised
  with pytest.raises(DataError, match=r'--videos=.* 1 of 2 videos.*\(v2\)'):
    scoring.score_captions(CAPTIONS, REFERENCES, some, print)
  assert model.pictures == []


def test_damaged_frames_are_logged(model, videos, tmp_path):
  (videos / 'v1' / '1.png').write_bytes(b'no picture')
  notes = []
  scoring.score_captions(CAPTIONS, REFERENCES, options(tmp_path, videos), notes.append)
  assert any('1.png' in note for note in notes)


def test_scores_by_a_model_of_transformers(tmp_path):
  """The whole way, against the published formula with the outputs of CLIPModel."""
  for package in ('torch', 'transformers'):
    pytest.importorskip(package, reason='the extra "torch" is not installed')
  model, folder = clip_folder.write(tmp_path / 'model'), tmp_path / 'videos'
  pictures = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
  (folder / 'v1').mkdir(parents=True)
  for i, picture in enumerate(pictures[:4]):
    Image.fromarray(picture).save(folder / 'v1' / f'{i}.png')
  Image.fromarray(pictures[4]).save(folder / 'v2.png')
  found = scoring.score_captions(
    CAPTIONS, REFERENCES, options(tmp_path / 'model', folder), lambda _: None
  )
  text = lambda caption: clip_folder.embeddings(model, pictures, 'A photo depicts ' + caption)[1]  # noqa: E731
  for video_id, frames in {'v1': pictures[:4], 'v2': pictures[4:]}.items():
    caption = text(CAPTIONS[video_id])
    mean = clip_folder.embeddings(model, frames, 'a')[0].mean(0)
    score = 2.5 * max(mean @ caption / np.linalg.norm(mean), 0)
    nearest = max(0, *(text(reference) @ caption for reference in REFERENCES[video_id]))
    expected = 2 * score * nearest / (score + nearest) if score * nearest else 0
    scores = found.per_video[video_id]
    assert scores == pytest.approx({'CLIPScore': score, 'RefCLIPScore': expected}, abs=1e-5)
    assert min(scores.values()) > 0.1


@pytest.fixture(autouse=True)
def no_java():
  with tiny.without_java():
    yield
