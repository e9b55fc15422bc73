"""From the files of another project to captions: the command, the run, and what reads it."""

import json

import numpy as np
import pytest

import vidcap_jax as vc
from data_prep import import_checkpoint
from tests.vidcap_jax.checkpoints.pytorch import fixtures
from vidcap_jax.checkpoints import checkpoint, restore
from vidcap_jax.checkpoints.pytorch.words import NEVER
from vidcap_jax.data.vocabulary import BOS, PAD
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.errors import DataError


def run(tmp_path, *flags, name='updown', **changes):
  flags = [*fixtures.write(name, tmp_path, **changes), f'--output={tmp_path / "run"}', *flags]
  return import_checkpoint.main(flags)


@pytest.fixture(scope='module')
def imported(tmp_path_factory):
  """A run of UpDown."""
  folder = tmp_path_factory.mktemp('updown')
  assert run(folder, '--model=updown', '--regions=5') == 0
  return folder / 'run'


def videos(name, grid=False):
  """Features of each image, without padding."""
  for fc, att, mask in zip(*fixtures.load(name).inputs.values()):
    valid = att[mask > 0]
    features = {'att': valid[None] if grid else valid}
    yield features if name == 'transformer' else {'fc': fc, **features}


def test_captions_are_those_of_the_original_code(imported):
  results = vc.load(imported, batch_size=6).caption(features=videos('updown'), progress=False)
  assert [result.error for result in results] == [None] * 6
  assert [result.caption for result in results] == fixtures.load('updown').searches['beam']


def test_captions_of_files(imported, tmp_path, capsys):
  """The command that is printed at the end captions folders as the other project stores them."""
  from vidcap_jax.inference import predict

  for i, features in enumerate(videos('updown')):
    for stream, array in features.items():
      (tmp_path / stream).mkdir(exist_ok=True)
      kept = (np.save, '') if stream == 'fc' else (lambda p, x: np.savez(p, feat=x), '.npz')
      kept[0](f'{tmp_path / stream / str(i)}{kept[1]}', array)
  restored = restore.restore(restore.find_checkpoint(str(imported)), make_mesh())
  inputs = ','.join(f'{stream}={tmp_path / stream}' for stream in ('fc', 'att'))
  assert predict.predict(restored, inputs) == 0
  lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  assert [line['caption'] for line in lines] == fixtures.load('updown').searches['beam']


def test_a_transformer_on_cells(tmp_path, capsys):
  """Images with all regions, as a grid of one row; the mean of its cells is not needed."""
  assert run(tmp_path, '--grid=1x5', '--att_stream=cells', name='transformer') == 0
  out = capsys.readouterr().out
  for words in ('transformer', 'cells', 'grid (T, 1, 5, 3)', 'beam 3', '8 tokens'):
    assert words in out
  whole = [0, 5]
  features = [list(videos('transformer', grid=True))[i] for i in whole]
  captioner = vc.load(tmp_path / 'run', batch_size=2)
  results = captioner.caption(features=[{'cells': x['att']} for x in features], progress=False)
  expected = fixtures.load('transformer').searches['beam']
  assert [result.caption for result in results] == [expected[i] for i in whole]


def test_what_the_run_records(imported):
  path = restore.find_checkpoint(str(imported))
  assert (path.parent.name, path.name) == ('imported', '120')
  meta = checkpoint.read_meta(path)
  assert meta['imported']['project'] == 'imagecaptioning'
  assert len(meta['imported']['sha256']) == 64
  config = json.loads((imported / 'config.json').read_text())
  assert config == json.loads(json.dumps(meta['config']))
  assert (config['model']['name'], config['order']) == ('updown', ['imported'])
  assert (config['data']['standardise'], config['data']['max_words']) == (False, 7)
  assert list(restore.finished_stages(restore.epath.Path(imported))) == ['imported']
  bias = checkpoint.read_params_as_saved(path)['output']['bias']
  np.testing.assert_array_equal(np.flatnonzero(bias == NEVER), [PAD, BOS])


def test_evaluation_needs_a_data_set(imported):
  restored = restore.restore(restore.find_checkpoint(str(imported)), make_mesh())
  with pytest.raises(DataError, match='imported.*--data'):
    restored.data_folder()
  assert restored.data_folder('somewhere') == 'somewhere'


# ------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(
  ('flags', 'words'),
  [
    (['--model=transformer'], ("'updown'", '--model=transformer')),
    (['--fc_stream=a-b'], ('--fc_stream=a-b',)),
    (['--att_stream='], ('--att_stream=',)),
    (['--regions=0'], ('--regions=0',)),
    (['--grid=14'], ('--grid=14', 'x')),
    (['--fc_stream=att'], ('fc_feat_size=4', 'att_feat_size=3')),
    (['--weights=gone.pth'], ('--weights=gone.pth', 'model.pth')),
    (['--weights=~/gone.pth'], ('--weights=~/gone.pth', '$HOME')),
    (['--weights=.'], ('--weights=.', 'folder', 'model.pth')),
    (['--weights='], ('--weights=',)),
    (['--infos=gone.pkl'], ('--infos=gone.pkl', 'infos_ID.pkl')),
    (['--output='], ('--output=',)),
  ],
)
def test_wrong_flags(flags, words, tmp_path, capsys):
  assert run(tmp_path, *flags) == 1
  out, err = capsys.readouterr()
  assert (out, err.count('\n')) == ('', 1)
  for word in words:
    assert word in err
  assert not (tmp_path / 'run').exists()


@pytest.mark.parametrize(
  ('changes', 'words'),
  [
    ({'core.extra.weight': np.zeros(3)}, ('core.extra.weight',)),
    ({'logit.bias': None}, ('missing', 'logit.bias')),
    ({'logit.bias': np.zeros(4)}, ('logit.bias (4,)',)),
    ({'embed.0.weight': np.zeros((5, 6))}, ('embed.0.weight (5, 6)',)),
  ],
)
def test_other_weights(changes, words, tmp_path, capsys):
  assert run(tmp_path, **changes) == 1
  err = capsys.readouterr().err
  assert 'model.pth' in err
  for word in words:
    assert word in err
  assert not (tmp_path / 'run').exists()


def test_weights_and_infos_that_are_swapped(tmp_path, capsys):
  _, weights, infos = fixtures.write('updown', tmp_path)
  weights, infos = (flag.partition('=')[2] for flag in (weights, infos))
  assert run(tmp_path, f'--infos={weights}') == 1
  err = capsys.readouterr().err
  assert f'--infos={weights}' in err
  assert 'weights' in err
  assert 'infos_ID.pkl' in err
  assert run(tmp_path, f'--weights={infos}') == 1
  err = capsys.readouterr().err
  assert f'--weights={infos}' in err
  assert 'model.pth' in err


def test_a_folder_with_other_files_is_refused(tmp_path, capsys):
  (tmp_path / 'run').mkdir()
  (tmp_path / 'run' / '.hidden').touch()
  (tmp_path / 'run' / 'notes.txt').touch()
  assert run(tmp_path) == 1
  err = capsys.readouterr().err
  assert f'--output={tmp_path / "run"}' in err
  assert 'notes.txt' in err
  assert 'hidden' not in err
  assert len(list((tmp_path / 'run').iterdir())) == 2
  (tmp_path / 'run' / 'notes.txt').unlink()
  assert run(tmp_path, '--regions=5') == 0


def test_a_run_is_not_overwritten(imported, capsys):
  flags = fixtures.write('updown', imported.parent)
  assert import_checkpoint.main([*flags, f'--output={imported}']) == 1
  assert str(imported) in capsys.readouterr().err


@pytest.mark.parametrize('flags', [[], ['--from=other', '--weights=a', '--infos=b', '--out=c']])
def test_usage(flags):
  with pytest.raises(SystemExit) as caught:
    import_checkpoint.main(flags)
  assert caught.value.code == 2
