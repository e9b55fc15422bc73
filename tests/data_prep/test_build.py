"""The command that builds a data set: its flags and its output."""

import pickle
import re

import numpy as np
import pytest

from data_prep.build import main
from data_prep.dataset import writer
from data_prep.dataset.builder import build
from data_prep.inspect import main as inspect
from tests.building import arguments, options, values
from vidcap_jax.data.batch import subsample
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import read_manifest


def test_without_a_training_split(source, capsys):
  manifest, report = build(options(source, split='test'))
  assert list(manifest.splits) == ['test']
  assert manifest.vocabulary is None
  assert manifest.stream('image').mean == manifest.stream('image').std == ()
  assert report.coverage == {}
  assert main([*arguments(source), '--split=test']) == 0
  printed = capsys.readouterr().out
  assert 'vocabulary    none' in printed
  assert 'no split val' not in printed


def test_without_a_validation_split(source, capsys):
  assert main([*arguments(source), '--split=train']) == 0
  assert '--config.data.val_split=NAME' in capsys.readouterr().out


def test_summary_notes_unknown_words(source, capsys):
  assert main([*arguments(source), '--min_count=2']) == 0
  printed = capsys.readouterr().out
  assert 'of the words of train are unknown' in printed
  assert '--min_count' in printed
  assert main([*arguments(source), '--min_count=1', '--overwrite']) == 0
  assert 'are unknown' not in capsys.readouterr().out


def test_a_leaking_vocabulary_is_reported(source, capsys):
  page = source / 'page.html'
  borrowed = [a for a in arguments(source) if not a.startswith(('--min_count', '--output'))]
  for command, flags in (
    (main, [*arguments(source), '--leak_words_of=validation,test']),
    (inspect, [str(source / 'out'), f'--html={page}']),
    (main, [*borrowed, f'--vocabulary={source / "out"}', f'--output={source / "again"}']),
  ):
    assert command(flags) == 0
    assert re.search('leaks.*val and test', capsys.readouterr().out), flags
  assert re.search(
    'Odd.*leaks.*val and test.*Splits.*counted in.*val, test', page.read_text(), re.S
  )
  assert main([*arguments(source), '--overwrite']) == 0
  assert 'leaks' not in capsys.readouterr().out
  with pytest.raises(SystemExit):
    main(['--help'])
  explained = capsys.readouterr().out.rpartition('--leak_words_of SPLIT')[2]
  assert 'leak' in explained.partition('--tokenizer')[0]


def test_features_may_be_given_in_several_flags(source, capsys):
  again = f'--features=image={source / "image"}'
  assert main([*arguments(source), again]) == 1
  assert "--features: 'image' is given twice" in capsys.readouterr().err
  assert main([*arguments(source), again.replace('image=', 'other=', 1)]) == 0
  assert [s.name for s in read_manifest(source / 'out').streams] == ['image', 'other']


def test_errors_are_one_line(source, capsys):
  (source / 'image' / 'v3.npy').unlink()
  assert main(arguments(source)) == 1
  printed = capsys.readouterr()
  assert printed.out == ''
  assert printed.err.startswith('error: 1 of 5 videos have no features')
  assert printed.err.count('\n') == 1
  for option, text in (
    ('--features=image', "--features: 'image' is not of the form NAME=VALUE"),
    ('--kinds=image=grid,image=vector', "--kinds: 'image' is given twice"),
    ('--vocabulary=words.json', '--vocabulary brings its own min_count'),
    ('--leak_words_of=val,tests', "'tests' must be a split"),
  ):
    assert main([*arguments(source), option]) == 1
    assert text in capsys.readouterr().err
  (source / 'file').write_text('')
  assert main([*arguments(source), '--missing=skip', f'--output={source}/file/x']) == 1
  assert f'--output={source}/file/x' in capsys.readouterr().err
  with pytest.raises(SystemExit) as caught:
    main(['--format=coco'])
  assert caught.value.code == 2


def test_interrupt_exits_with_130(source, capsys, monkeypatch):
  def stop(*args):
    raise KeyboardInterrupt

  monkeypatch.setattr(writer, 'write_tfds_metadata', stop)
  assert main(arguments(source)) == 130
  assert 'resume' in capsys.readouterr().err


def test_files_with_commas(source):
  (source / 'clips.csv').rename(source / 'a,b.csv')
  (source / 'more.csv').write_text('id,caption,split\nv3,again,train\n')
  args = [a for a in arguments(source) if 'annotations' not in a]
  assert main([*args, f'--annotations={source}/a,b.csv']) == 0
  (source / 'others.csv').write_text('id,caption,split\nv3,other,train\n')
  assert main([*args, f'--annotations={source}/more.csv,{source}/others.csv', '--overwrite']) == 0
  assert open_split(source / 'out', 'train')[0].captions == ('again', 'other')


def records(source, split='train'):
  return {v.video_id: v.features for v in open_split(source / 'out', split)}


def test_options_of_the_command(source, capsys):
  arrays = {
    f'train/CLIP_V{n}.mp4': {'feat': values(f'v{n}', (4, n + 4)), 'fps': 25} for n in range(1, 6)
  }
  (source / 'all.pkl').write_bytes(pickle.dumps(arrays))
  given = [
    *(one for one in arguments(source) if not one.startswith('--features')),
    *(f'--features=image={source}/all.pkl', '--keys=image=feat'),
    *('--layout=image=CT', '--match=path,extension,case,prefix:CLIP_', '--max_frames=image=5'),
  ]
  assert main(given) == 0, capsys.readouterr().err
  found = records(source)['v3']['image']
  np.testing.assert_array_equal(found, values('v3', (4, 7)).T[subsample(7, 5)].astype(np.float16))
  for option, text in (
    ('--max_frames=image=many', '--max_frames: image=many: not a whole number'),
    ('--max_regions=3', "'3' is not of the form NAME=VALUE"),
    ('--match=none', 'no features in'),
  ):
    assert main([*given, option]) == 1
    assert text in capsys.readouterr().err


def test_summary_of_captions(source, capsys):
  clips = source / 'clips.csv'
  clips.write_text(
    'video_id,caption,split,source\nv1,a dog,train,s\nv1,a dog,train,s\nv2,,train,\nv2,a,train,\n'
    'v3,a cat,val,s\n'
  )
  assert main(arguments(source)) == 0
  printed = capsys.readouterr().out
  for expected in (
    'train            2 videos, 3 captions (1 repeated)',
    'dropped          1 caption: empty (first: of v2)',
    'note       1 sources have clips in several splits (first: s, in train and val)',
  ):
    assert expected in printed
