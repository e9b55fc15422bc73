"""Trains a captioner of ImageCaptioning.pytorch, with its own code, on a data set of this project.

  git clone https://github.com/ruotianluo/ImageCaptioning.pytorch
  python -m benchmarks.peer_training --repository=ImageCaptioning.pytorch --model=updown \\
      --data_dir=data/flickr8k --out=runs/peer_updown [--threads=1] [--steps=20]

Of that project are the model, the loss, the optimiser, beam search, and all options of its
configs/updown/updown.yml or configs/transformer/transformer.yml that are not listed here. Its
tools/train.py is not run: it needs a GPU. Options that differ: sizes, batch and label smoothing are
those of configs/comparisons.py, and epochs are a flag. The Transformer's warm-up is as long in
epochs as with that file on COCO, and reaches the same learning rate: its 20,000 steps are more
than a whole training on a smaller data set.

Each epoch adds a line to OUT/epochs.jsonl: epoch, minutes of training alone (of processor time and
on the clock, without reading data and without validation), captions trained on for each second of
processor time, and the validation scores of beam 5 by our metrics. The command continues a run that
was interrupted; what it ends with is the same. The packages torch, PyYAML, six and yacs are needed.
"""

import argparse
import importlib
import json
import pathlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.peer_data import Batch, Reader, peer_words, training_batches
from vidcap_jax import command_errors, files
from vidcap_jax.data import pipeline
from vidcap_jax.data.records import SplitSource, open_split
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.errors import UserError
from vidcap_jax.evaluation import metrics

CONFIGS = {'updown': 'updown/updown.yml', 'transformer': 'transformer/transformer.yml'}
# The sizes of configs/comparisons.py and configs/transformer_sizes.py under the peer's names.
SIZES: Mapping[str, Mapping[str, int]] = {
  'updown': {'rnn_size': 256, 'input_encoding_size': 256, 'att_hid_size': 256},
  'transformer': {
    'num_layers': 2, 'N_enc': 2, 'N_dec': 2, 'num_att_heads': 4, 'rnn_size': 1024, 'd_ff': 1024,
    'input_encoding_size': 256, 'd_model': 256,
  },
}  # fmt: skip
BATCH_SIZES = {'updown': 32, 'transformer': 16}  # pictures, of configs/comparisons.py
COCO_PICTURES = 113_287  # of the training split for which the peer's configs were written
BEAM = 5
VALIDATION_BATCH = 10  # the peer's beam search keeps all words' probabilities: 20 MB a picture


def warm_up(options: Any, pictures: int, batch_size: int) -> tuple[int, float]:
  """The Transformer's warm-up in steps, and the factor with which it reaches the same rate.

  The learning rate is factor * d_model^-0.5 * min(step^-0.5, step * warm-up^-1.5).

  Args:
    options: the peer's, of its config file.
    pictures: of our training split.
    batch_size: pictures of a step.
  """
  epochs = options.noamopt_warmup * options.batch_size / COCO_PICTURES
  steps = max(1, round(epochs * pictures / batch_size))
  return steps, options.noamopt_factor * (steps / options.noamopt_warmup) ** 0.5


def learning_rate(options: Any, epoch: int) -> float:
  """The learning rate of epoch 0, 1, …, without warm-up."""
  drops = 0
  if 0 <= options.learning_rate_decay_start < epoch:
    drops = (epoch - options.learning_rate_decay_start) // options.learning_rate_decay_every
  return options.learning_rate * options.learning_rate_decay_rate**drops


def sampling_probability(options: Any, epoch: int) -> float:
  """The share of words that scheduled sampling replaces in epoch 0, 1, …"""
  start = options.scheduled_sampling_start
  if not 0 <= start < epoch:
    return 0.0
  rises = (epoch - start) // options.scheduled_sampling_increase_every
  return min(options.scheduled_sampling_increase_prob * rises, options.scheduled_sampling_max_prob)


class PeerTrainer:
  """The peer's model, loss and optimiser.

  Args:
    repository: folder of ImageCaptioning.pytorch.
    flags: of this command.
    reader: whose streams and words the model gets.
    pictures: number of pictures of the training split.
  """

  def __init__(self, repository: pathlib.Path, flags: Any, reader: Reader, pictures: int):
    self.torch = importlib.import_module('torch')
    self.torch.set_num_threads(flags.threads)
    self.torch.manual_seed(flags.seed)
    sys.path.insert(0, str(repository))
    import_peer = lambda name: importlib.import_module(f'captioning.{name}')  # noqa: E731
    self._utils = import_peer('utils.misc')
    self.options = options = _read_options(
      import_peer('utils.opts'), repository / 'configs' / CONFIGS[flags.model]
    )
    words = peer_words(reader.vocabulary)
    vars(options).update(
      SIZES[flags.model], label_smoothing=flags.label_smoothing, beam_size=BEAM, vocab=words,
      vocab_size=len(words), seq_length=reader.most_words,
      fc_feat_size=reader.means.channels, att_feat_size=reader.entries.channels,
    )  # fmt: skip
    self.model = import_peer('models').setup(options)
    self._loss = import_peer('modules.loss_wrapper').LossWrapper(self.model, options)
    if options.noamopt:
      steps, factor = warm_up(options, pictures, flags.batch_size)
      self.optimizer = self._utils.get_std_opt(self.model, options.optim, factor, steps)
    else:
      self.optimizer = self._utils.build_optimizer(self.model.parameters(), options)

  def start_epoch(self, epoch: int, seed: int) -> None:
    """Sets the learning rate and scheduled sampling of epoch 0, 1, … and seeds dropout."""
    self.torch.manual_seed(seed)
    if not self.options.noamopt:
      self._utils.set_lr(self.optimizer, learning_rate(self.options, epoch))
    self.model.ss_prob = sampling_probability(self.options, epoch)
    self.model.train()

  def step(self, batch: Batch) -> float:
    """One update; returns the loss."""
    means, entries, labels, label_masks, masks = self._tensors(batch)
    self.optimizer.zero_grad()
    pictures = self.torch.arange(len(means))
    outputs = self._loss(
      means, entries, labels, label_masks, masks, None, pictures, False, False, False
    )
    outputs['loss'].backward()
    if self.options.grad_clip_value:
      clip = getattr(self.torch.nn.utils, f'clip_grad_{self.options.grad_clip_mode}_')
      clip(self.model.parameters(), self.options.grad_clip_value)
    self.optimizer.step()
    return outputs['loss'].item()

  def caption(self, batch: Batch) -> list[str]:
    """The captions that the peer's beam search makes of pictures."""
    means, entries, _, _, masks = self._tensors(batch)
    self.model.eval()
    with self.torch.no_grad():
      tokens, _ = self.model(means, entries, masks, opt=vars(self.options), mode='sample')
    return self._utils.decode_sequence(self.model.vocab, tokens)

  def _tensors(self, batch: Batch) -> list[Any]:
    arrays = (batch.means, batch.entries, batch.labels, batch.label_masks, batch.entry_masks)
    return [None if array is None else self.torch.from_numpy(array) for array in arrays]

  def save(self, path: pathlib.Path, progress: Mapping[str, float]) -> None:
    """Replaces a checkpoint of parameters, optimiser and progress."""
    partial = path.with_suffix('.partial')
    states = {'model': self.model.state_dict(), 'optimizer': self.optimizer.state_dict()}
    self.torch.save({**states, 'progress': dict(progress)}, partial)
    partial.replace(path)

  def load(self, path: pathlib.Path) -> dict[str, float]:
    """Reads what ``save`` wrote; returns the progress."""
    saved = self.torch.load(path, weights_only=True)
    self.model.load_state_dict(saved['model'])
    self.optimizer.load_state_dict(saved['optimizer'])
    return saved['progress']


def _read_options(options_module: Any, config: pathlib.Path) -> Any:
  """The options that the peer's own parser makes of a config file."""
  arguments = sys.argv
  sys.argv = [arguments[0], '--cfg', str(config)]
  try:
    return options_module.parse_opt()
  finally:
    sys.argv = arguments


def try_speed(trainer: PeerTrainer, batches: Iterator[Batch], steps: int) -> None:
  """Prints the captions trained on for each second of processor time, after a first step."""
  trainer.start_epoch(0, 0)
  trainer.step(next(batches))
  seconds, captions = 0.0, 0
  for _ in range(steps):
    batch = next(batches)
    start = time.process_time()
    loss = trainer.step(batch)
    seconds += time.process_time() - start
    captions += batch.labels[..., 0].size
  print(json.dumps({'steps': steps, 'loss': loss, 'captions_per_s': captions / seconds}))


class Run:
  """The training run in a folder: its checkpoint, its table, and the captions of each epoch.

  Args:
    folder: OUT.
    trainer: the peer's model.
    reader: of batches.
    validation: the split whose captions are scored.
  """

  def __init__(
    self,
    folder: pathlib.Path,
    trainer: PeerTrainer,
    reader: Reader,
    validation: SplitSource,
    batch_size: int,
  ):
    self.folder, self.trainer, self.reader, self.validation = folder, trainer, reader, validation
    self.batch_size = batch_size
    texts = pipeline.read_texts(validation)
    self._references = metrics.prepare_references(
      {video.video_id: list(video.captions) for video in texts},
      by_character=reader.vocabulary.by_character,
    )
    self._table = folder / 'epochs.jsonl'
    lines = self._table.read_text().splitlines() if self._table.exists() else []
    self.records = [json.loads(line) for line in lines]

  def train(self, source: SplitSource, epochs: int, seed: int) -> None:
    """Trains up to ``epochs``, and validates and saves after each of them."""
    checkpoint = self.folder / 'checkpoint.pt'
    progress = {'epoch': 0, 'cpu_minutes': 0.0, 'minutes': 0.0, 'captions': 0}
    if checkpoint.exists():
      progress = self.trainer.load(checkpoint)
    if progress['epoch'] > len(self.records):  # interrupted in the validation
      self._validate(progress)
    for epoch in range(progress['epoch'], epochs):
      self._train_epoch(source, epoch, (seed << 16) + epoch, progress)
      self.trainer.save(checkpoint, progress)
      self._validate(progress)

  def _train_epoch(self, source: SplitSource, epoch: int, seed: int, progress: dict) -> None:
    self.trainer.start_epoch(epoch, seed)
    losses = []
    for batch in training_batches(self.reader, source, self.batch_size, seed):
      start, start_cpu = time.perf_counter(), time.process_time()
      losses.append(self.trainer.step(batch))
      progress['minutes'] += (time.perf_counter() - start) / 60
      progress['cpu_minutes'] += (time.process_time() - start_cpu) / 60
      progress['captions'] += batch.labels[..., 0].size
      if len(losses) % 20 == 0:
        print(f'epoch {epoch + 1}, step {len(losses)}: loss {losses[-1]:.3f}', file=sys.stderr)
    progress |= {'epoch': epoch + 1, 'loss': sum(losses) / len(losses)}

  def _validate(self, progress: Mapping[str, float]) -> None:
    captions = {}
    for start in range(0, len(self.validation), VALIDATION_BATCH):
      stop = min(start + VALIDATION_BATCH, len(self.validation))
      videos = [self.validation[i] for i in range(start, stop)]
      texts = self.trainer.caption(self.reader.batch(videos))
      captions |= {video.video_id: text for video, text in zip(videos, texts, strict=True)}
    rows = [{'video_id': video_id, 'caption': text} for video_id, text in captions.items()]
    files.write_json(self.folder / f'captions_{progress["epoch"]}.json', rows, ensure_ascii=False)
    scores, _ = metrics.score(captions, self._references, ('BLEU', 'CIDEr'))
    per_second = progress['captions'] / (60 * progress['cpu_minutes'])
    record = {k: progress[k] for k in ('epoch', 'cpu_minutes', 'minutes', 'loss')}
    record |= {'captions_per_s': per_second, 'CIDEr': scores['CIDEr'], 'BLEU_4': scores['BLEU_4']}
    self.records.append(record)
    files.write_text(self._table, ''.join(json.dumps(each) + '\n' for each in self.records))
    print(json.dumps(record), flush=True)


def _check_settings(folder: pathlib.Path, settings: Mapping[str, Any]) -> None:
  """Saves the settings of a run, or refuses to continue it with other ones."""
  path = folder / 'settings.json'
  if not path.exists():
    files.write_json(path, settings)
    return
  saved = files.read_json(path)
  if changed := [key for key in settings if settings[key] != saved.get(key)]:
    key = changed[0]
    raise UserError(
      f'--out={folder}: the run has {key} {saved.get(key)}, not {settings[key]}; use another folder'
    )


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.peer_training',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  add('--repository', required=True, metavar='DIR', help='ImageCaptioning.pytorch')
  add('--data_dir', required=True, metavar='DIR', help='written by data_prep.build')
  add('--model', required=True, choices=CONFIGS)
  add('--out', required=True, metavar='DIR', help='folder of the run')
  add('--epochs', type=int, default=10, help='default: %(default)s')
  add('--batch_size', type=int, help='pictures of a step (default: as in configs/comparisons.py)')
  add('--threads', type=int, default=1, help="PyTorch's (default: %(default)s)")
  add('--seed', type=int, default=0, help='default: %(default)s')
  add('--mean_stream', default='image', help='its mean is read (default: %(default)s)')
  add('--entry_stream', default='cells', help='attended to (default: %(default)s)')
  add(
    '--max_words', type=int, default=16,
    help="longer captions are cut for training (default: %(default)s, as in the peer's scripts)",
  )  # fmt: skip
  add(
    '--label_smoothing', type=float, default=0.1,
    help="default: %(default)s, as in configs/comparisons.py; 0: as in the peer's configs",
  )  # fmt: skip
  add('--standardise', action='store_true', help='standardise features as for our models')
  add('--steps', type=int, default=0, help='only measure the speed of so many steps')
  return parser


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  flags = _parser().parse_args(arguments)
  flags.batch_size = flags.batch_size or BATCH_SIZES[flags.model]
  files.check_input('--repository', flags.repository, 'a clone', 'folder')
  files.check_output('--out', flags.out, folder=True)
  repository, folder = pathlib.Path(flags.repository).absolute(), pathlib.Path(flags.out)
  files.check_input('--repository', repository / 'captioning', 'ImageCaptioning.pytorch', 'folder')
  manifest = read_manifest(flags.data_dir)
  streams = (flags.mean_stream, flags.entry_stream)
  reader = Reader(manifest, *streams, flags.max_words, flags.standardise)
  source = open_split(flags.data_dir, 'train')
  if flags.steps:
    trainer = PeerTrainer(repository, flags, reader, len(source))
    try_speed(trainer, training_batches(reader, source, flags.batch_size, flags.seed), flags.steps)
    return
  validation = open_split(flags.data_dir, 'val')
  folder.mkdir(parents=True, exist_ok=True)
  free = ('repository', 'data_dir', 'out', 'epochs', 'steps')  # a run may continue with others
  settings = {key: value for key, value in vars(flags).items() if key not in free}
  _check_settings(folder, settings | {'data': manifest.hash})
  trainer = PeerTrainer(repository, flags, reader, len(source))
  run = Run(folder, trainer, reader, validation, flags.batch_size)
  run.train(source, flags.epochs, flags.seed)


if __name__ == '__main__':
  main()
