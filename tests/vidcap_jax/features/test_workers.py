"""Worker processes: results, jobs whose process dies, and shutdown."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from tests import video_files
from tests.vidcap_jax.features import jobs
from vidcap_jax.features import workers


def test_only_the_job_of_a_dead_process_fails():
  begun = [(name, (number,)) for number, name in enumerate('abcdef')]
  results = dict(workers.run(jobs.work, begun, 2, jobs.prepare_nothing))
  assert sorted(results) == list('abcdef')
  assert isinstance(results['c'], workers.Died)
  assert 'SIGKILL; perhaps for lack of memory' in results['c']
  done = {name: result for name, result in results.items() if name != 'c'}
  assert {name: square for name, (square, _, _) in done.items()} == {
    'a': 0,
    'b': 1,
    'd': 9,
    'e': 16,
    'f': 25,
  }
  assert os.getpid() not in {process for _, process, _ in done.values()}
  mine = workers.cores()
  for _, _, cores in done.values():
    assert len(cores) == max(1, len(mine) // 2) or len(mine) % 2
    assert set(cores) <= set(mine)


@pytest.mark.parametrize(('given', 'expected'), [(None, '1'), ('3', '3')])
def test_products_of_a_process_take_one_thread(given, expected, monkeypatch):
  monkeypatch.delenv('OPENBLAS_NUM_THREADS', raising=False)
  if given:
    monkeypatch.setenv('OPENBLAS_NUM_THREADS', given)
  results = dict(workers.run(jobs.blas_threads, [('a', (0,))], 1, jobs.prepare_nothing))
  assert results == {'a': expected}
  assert os.environ.get('OPENBLAS_NUM_THREADS') == given


def test_closing_stops_all_processes():
  running = workers.run(jobs.work, [(n, (1,)) for n in range(5)], 1, jobs.prepare_nothing)
  _, (_, process, _) = next(running)
  os.kill(process, 0)  # it is there
  running.close()
  with pytest.raises(ProcessLookupError):
    os.kill(process, 0)


def test_errors_of_a_job_are_raised():
  with pytest.raises(ValueError, match='-1: negative'):
    list(workers.run(jobs.work, [('a', (-1,)), ('b', (1,))], 1, jobs.prepare_nothing))


def test_errors_while_preparing_are_raised():
  with pytest.raises(OSError, match='no weights'):
    list(workers.run(jobs.work, [('a', (1,))], 1, jobs.fail_to_prepare))
  with pytest.raises(workers.StartError, match='SIGKILL.*fewer --workers'):
    list(workers.run(jobs.work, [('a', (1,))], 1, jobs.die))


SCRIPT = """
  import os
  import signal
  import sys

  import numpy as np

  from data_prep import extract
  from vidcap_jax.features import extractors, networks


  def load():
    def forward(frames, wanted):
      if frames[0].mean() > 150:
        os.kill(os.getpid(), signal.SIGKILL)
      return {'colour': frames.mean((1, 2)).astype(np.float32)}

    return forward


  networks.NETWORKS['colour'] = networks.Network(32, load)
  extractors.REGISTRY['mean_colour'] = extractors.Extractor(
    'sequence', (None, 3), '1', 'colour', ('colour',), lambda colour: colour
  )
  if __name__ == '__main__':
    sys.exit(extract.main())
"""


def test_extraction_continues_after_a_process_died(tmp_path):
  """Also: an extractor of a script's own is there in its processes."""
  (tmp_path / 'mine.py').write_text(textwrap.dedent(SCRIPT))
  folder = tmp_path / 'videos'
  folder.mkdir()
  for name, level in (('a', 20), ('deadly', 200), ('z', 60)):
    video_files.write_video(folder / f'{name}.mp4', [video_files.gray(level)] * 3)
  flags = [f'--videos={folder}', f'--output={tmp_path / "out"}', '--streams=image:mean_colour']
  command = [sys.executable, str(tmp_path / 'mine.py'), *flags]
  environment = {**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, sys.path))}
  done = subprocess.run(
    [*command, '--pool=processes', '--workers=1', '--uniform=2'],
    capture_output=True,
    text=True,
    env=environment,
    check=False,
  )
  assert done.returncode == 1, done.stderr
  assert 'deadly: FAILED: ' in done.stdout
  assert 'deadly.mp4: a worker process was ended by SIGKILL' in done.stdout
  assert '2 videos extracted, 0 damaged in part, 1 failed' in done.stdout
  for name, level in (('a', 20), ('z', 60)):
    array = np.load(tmp_path / 'out' / 'image' / f'{name}.npy')
    assert array.shape == (2, 3)
    np.testing.assert_allclose(array, level, atol=4)
