"""The commands of docs/from-pytorch.md on small files in each project's exact schema."""

import pathlib
import re
import shlex
import sys

import numpy as np
import pytest
from absl import flags
from ml_collections import config_flags

from configs import msrvtt1000
from data_prep.build import main
from tests.pytorch_projects import CLIPS, PROJECTS
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import KINDS, Stream, read_manifest
from vidcap_jax.models import build
from vidcap_jax.models.streams import select_streams

PAGE = pathlib.Path(__file__).parents[2] / 'docs' / 'from-pytorch.md'


def sections() -> dict[str, list[list[str]]]:
  """The page's build commands, as words, by section."""
  found: dict[str, list[list[str]]] = {}
  for section in PAGE.read_text().split('\n## ')[1:]:
    code = '\n'.join(re.findall(r'^    (.*)$', section, re.M)).replace('\\\n', ' ')
    commands = [shlex.split(line) for line in code.splitlines() if line.startswith('vidcap build ')]
    if commands:
      found[section.partition('\n')[0]] = commands
  return found


def test_every_command_of_the_page_has_its_files():
  assert sections().keys() == PROJECTS.keys()


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
  """Lays out a project's files and runs the page's commands; captions by split for each."""
  monkeypatch.chdir(tmp_path)

  def commands(project):
    PROJECTS[project]()
    found = []
    for command in sections()[project]:
      out = next(word for word in command if word.startswith('--output=')).partition('=')[2]
      # The files here are a few videos of each data set, hence not of its published size.
      done = main([*command[2:], '--counts=warn', '--min_count=1'])
      assert done == 0, capsys.readouterr().err
      manifest = read_manifest(out)
      found.append(manifest)
      assert set(manifest.splits) == {'train', 'test'} | ({'val'} if out != 'data/1ka' else set())
      for split in manifest.splits:
        videos = list(open_split(out, split))
        assert videos
        assert all(len(v.captions) in (1, 2) for v in videos)
        assert all(np.isfinite(a).all() and len(a) for v in videos for a in v.features.values())
    return found

  return commands


def shapes(manifest) -> dict[str, tuple[str, tuple]]:
  return {s.name: (s.kind, s.shape) for s in manifest.streams}


def test_image_captioning_pytorch(run):
  coco, bottom_up, store, flickr, numbers = run('ImageCaptioning.pytorch')
  assert shapes(coco) == {'fc': ('vector', (8,)), 'att': ('grid', (None, 3, 3, 8))}
  for manifest in (bottom_up, store, flickr):
    assert shapes(manifest) == {'att': ('regions', (None, None, 8))}
    assert manifest.stream('att').longest == 1
  assert bottom_up.stream('att').most_regions == 8
  for manifest in (coco, bottom_up, store, flickr, numbers):
    counts = {name: split.videos for name, split in manifest.splits.items()}
    assert counts == {'train': 2, 'val': 1, 'test': 1}  # restval is trained on
  video = next(iter(open_split('data/coco', 'val')))
  assert (video.video_id, video.captions) == ('391897', ('A Man Rides.', 'The Man.'))
  video = next(iter(open_split('data/coco_numbers', 'val')))
  assert (video.video_id, video.captions) == ('391897', ('a man UNK', 'the man'))
  assert next(iter(open_split('data/f30k', 'val'))).video_id == '2'


def test_video_caption_pytorch(run):
  made, annotated = run('video-caption.pytorch')
  assert shapes(made) == {'image': ('sequence', (None, 8)), 'c3d': ('sequence', (None, 4))}
  assert next(iter(open_split('data/msrvtt', 'val'))).video_id == 'video1'
  assert next(iter(open_split('data/msrvtt', 'val'))).captions == ('a car, is',) * 2
  assert annotated.categories == 10


def test_sa_lstm(run):
  for manifest in run('SA-LSTM'):
    assert shapes(manifest) == {'image': ('sequence', (None, 8))}
  for out in ('data/msvd', 'data/msvd_parts'):
    video = next(iter(open_split(out, 'train')))
    assert (video.video_id, video.captions) == (CLIPS[0], ('A man is "here".',))
  for out in ('data/msrvtt', 'data/msrvtt_parts'):
    assert next(iter(open_split(out, 'test'))).video_id == 'video7010'


def test_rmn(run):
  msrvtt_set, _ = run('RMN')
  assert shapes(msrvtt_set) == {
    'image': ('sequence', (None, 4)),
    'objects': ('regions', (None, None, 4)),
  }
  # vid1201 is row 1200.
  assert next(iter(open_split('data/msvd_rmn', 'val'))).features['image'][0, 0] == 1200


def test_nacf(run):
  run('NACF, CARE, POS-CG')
  assert next(iter(open_split('data/msrvtt_nacf', 'val'))).captions == ('a car is',) * 2
  assert next(iter(open_split('data/msvd_nacf', 'val'))).video_id == 'video1200'


def test_clip4caption(run):
  run('CLIP4Caption, CLIP4Clip, UniVL')
  assert next(iter(open_split('data/msrvtt_clip', 'test'))).video_id == 'video7010'
  video = next(iter(open_split('data/msvd_clip', 'val')))
  assert (video.video_id, video.captions) == (CLIPS[1], ('a man', 'the man'))


def test_s2vt(run):
  run('S2VT')
  assert next(iter(open_split('data/msvd_s2vt', 'test'))).video_id == 'vid1301'


def table() -> list[tuple[str, ...]]:
  """Rows of the page's table of flags: streams, flags, data sets."""
  section = PAGE.read_text().partition('\n## Training on these data sets')[2].partition('\n## ')[0]
  return re.findall(r'^\| (`.*) \| (.*) \| (.*) \|$', section, re.M)[1:]


@pytest.mark.parametrize('row', table())
def test_the_flags_read_the_streams(row, monkeypatch):
  """The models take every stream of the line, of its kind."""
  streams = tuple(
    Stream(name, kind, (*[None if axis in 'TN' else 3 for axis in KINDS[kind][:-1]], 8))
    for name, kind in re.findall(r'(\w+): (\w+)', row[0])
  )
  words = shlex.split(re.match('`(.*?)`|', row[1])[1] or '')
  variants = [word.partition('.py:')[2] for word in words if word.startswith('--config=')]
  config = msrvtt1000.get_config(*variants)
  argv = ['train', *(word for word in words if not word.startswith('--config='))]
  monkeypatch.setattr(sys, 'argv', argv)  # config_flags looks there for the keys
  values = flags.FlagValues()
  config_flags.DEFINE_config_dict('config', config, flag_values=values)
  values(argv)
  read = select_streams(build(config.model, 9, 'float32').config.needs, streams, 'here')
  assert {s.name for s in read} == {s.name for s in streams}
