"""Schedules of the peer's configs, and a run that is interrupted; without the peer itself."""

import json
import types

import pytest

from benchmarks import peer_training
from configs import flickr8k
from tests import tiny

UPDOWN = types.SimpleNamespace(  # of configs/updown/updown.yml and the defaults of its parser
  learning_rate=5e-4,
  learning_rate_decay_start=0,
  learning_rate_decay_every=3,
  learning_rate_decay_rate=0.8,
  scheduled_sampling_start=0,
  scheduled_sampling_increase_every=5,
  scheduled_sampling_increase_prob=0.05,
  scheduled_sampling_max_prob=0.25,
)
TRANSFORMER = types.SimpleNamespace(noamopt_warmup=20_000, noamopt_factor=1, batch_size=10)


def test_the_learning_rate_falls_every_third_epoch():
  rates = [peer_training.learning_rate(UPDOWN, epoch) for epoch in range(7)]
  assert rates == pytest.approx([5e-4] * 3 + [4e-4] * 3 + [3.2e-4])


def test_scheduled_sampling_rises_every_fifth_epoch():
  shares = [peer_training.sampling_probability(UPDOWN, epoch) for epoch in (0, 4, 5, 10, 99)]
  assert shares == pytest.approx([0, 0, 0.05, 0.1, 0.25])
  never = types.SimpleNamespace(scheduled_sampling_start=-1)
  assert peer_training.sampling_probability(never, 9) == 0


def test_the_warm_up_is_as_long_in_epochs_and_reaches_the_same_rate():
  steps, factor = peer_training.warm_up(TRANSFORMER, 6000, 16)
  epochs = 20_000 * 10 / 113_287
  assert steps == pytest.approx(epochs * 6000 / 16, abs=1)
  assert factor * steps**-0.5 == pytest.approx(20_000**-0.5)


class CountingTrainer:
  """Learns as many words as it has seen batches."""

  def __init__(self, repository, flags, reader, pictures):
    self.steps = 0

  def start_epoch(self, epoch, seed):
    self.seed = seed

  def step(self, batch):
    self.steps += 1
    return 1 / self.steps + self.seed + float(batch.means[0, 0])

  def caption(self, batch):
    return ['a red ball rises'[: 4 * self.steps]] * len(batch.means)

  def save(self, path, progress):
    path.write_text(json.dumps([self.steps, dict(progress)]))

  def load(self, path):
    self.steps, progress = json.loads(path.read_text())
    return progress


@pytest.fixture
def train(tmp_path, monkeypatch):
  """Runs the command for some epochs; returns the lines of its table without times."""
  data = tiny.build(tmp_path / 'tiny')
  (tmp_path / 'peer' / 'captioning').mkdir(parents=True)
  monkeypatch.setattr(peer_training, 'PeerTrainer', CountingTrainer)

  def run(name, epochs, **flags):
    chosen = {'repository': tmp_path / 'peer', 'data_dir': data, 'out': tmp_path / name}
    chosen |= {
      'model': 'updown',
      'epochs': epochs,
      'entry_stream': 'image',
      'batch_size': 4,
    } | flags
    with tiny.without_java():
      peer_training.main([f'--{key}={value}' for key, value in chosen.items()])
    lines = (tmp_path / name / 'epochs.jsonl').read_text().splitlines()
    timing = ('cpu_minutes', 'minutes', 'captions_per_s')
    return [{k: v for k, v in json.loads(line).items() if k not in timing} for line in lines]

  return run


def test_a_continued_run_equals_an_uninterrupted_one(train, tmp_path, monkeypatch):
  whole = train('whole', 3)
  assert [line['epoch'] for line in whole] == [1, 2, 3]
  assert whole[0]['CIDEr'] != whole[1]['CIDEr']
  assert whole[0]['loss'] != whole[1]['loss']
  assert len(json.loads((tmp_path / 'whole' / 'captions_3.json').read_text())) == 3
  train('parts', 1)
  with monkeypatch.context() as patch:  # the second epoch is trained and not validated
    patch.setattr(CountingTrainer, 'caption', lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
      train('parts', 3)
  assert train('parts', 3) == whole


def test_other_settings_are_refused(train):
  train('run', 1)
  with pytest.raises(SystemExit, match='label_smoothing'):
    train('run', 2, label_smoothing=0)


def test_a_folder_without_the_peer_is_refused(train, tmp_path):
  with pytest.raises(SystemExit, match='captioning'):
    train('run', 1, repository=tmp_path)


@pytest.mark.parametrize('model', sorted(peer_training.CONFIGS))
def test_batches_are_those_of_our_config(model):
  assert peer_training.BATCH_SIZES[model] == flickr8k.get_config(f'model={model}').train.batch_size
