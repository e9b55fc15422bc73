"""The Markdown of a run's card."""

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
from ml_collections import ConfigDict

from vidcap_jax import config_files
from vidcap_jax.config_diff import ABSENT, as_saved, differences, with_added_keys
from vidcap_jax.counts import counted
from vidcap_jax.data import provenance
from vidcap_jax.errors import UserError
from vidcap_jax.evaluation.intervals import Interval
from vidcap_jax.inference import inputs
from vidcap_jax.progress import duration
from vidcap_jax.studies import markdown, results_table, runs
from vidcap_jax.studies.card_contents import Card, Weakness
from vidcap_jax.studies.drawing import shown
from vidcap_jax.training.ledger import PARTS

_DEFAULTS = 'configs/common.py'
_RETRIEVAL = ('R@1', 'R@5', 'R@10', 'rsum')


def text(card: Card, goodput: Mapping[str, Any]) -> str:
  """The whole page.

  Args:
    card: of ``card_contents.collect``.
    goodput: the run's goodput.json; {} without one.
  """
  restored = card.restored
  title = f'# {markdown.escaped(card.name)}'
  if imported := restored.meta.get('imported'):
    made = f'imported from {imported["project"]}, weights of SHA-256 {imported["sha256"][:16]}'
  else:
    made = f'trained by this project on {markdown.escaped(restored.meta["data"]["name"])}'
  first = f'A captioner of model `{restored.config.model.name}`, {made}.'
  parts = [title, first, *_model(card), *_data(card), *_scores(card)]
  parts += [*_weakness(card.weakness), *_training(card, goodput), *_use(card)]
  return '\n\n'.join(parts) + '\n'


def _model(card: Card) -> list[str]:
  restored = card.restored
  config, meta = restored.config, restored.meta
  parameters = sum(x.size for x in jax.tree.leaves(restored.params))
  decode = {key: config.decode[key] for key in ('method', 'beam', 'length_penalty', 'min_length')}
  installed = [(k, v) for k, v in meta.get('versions', {}).items() if v != 'not installed']
  rows = [
    ('model', config.model.name),
    ('sizes', _settings(config.model)),
    ('parameters', f'{parameters:,}'),
    ('vocabulary', f'{len(restored.vocabulary):,} words, hash {restored.vocabulary.hash}'),
    ('decoding', _listed(decode.items())),
    ('checkpoint', f'{pathlib.PurePath(*restored.path.parts[-3:])}, step {restored.path.name}'),
    ('versions', _listed(installed) or 'not recorded'),
  ]
  return ['## Model', _table(('', ''), rows)]


def _settings(section: ConfigDict) -> str:
  """The numbers and texts of a section, without those that are lists of streams."""
  plain = {k: v for k, v in section.items() if isinstance(v, int | float | str) and k != 'name'}
  return _listed((key, value) for key, value in plain.items() if value != '')


def _listed(items: Iterable[tuple[str, Any]]) -> str:
  return ', '.join(f'{key} {value}' for key, value in items)


def _data(card: Card) -> list[str]:
  meta, manifest = card.restored.meta, card.manifest
  rows = [('name', meta['data']['name']), ('hash', meta['data']['hash'] or 'not recorded')]
  if manifest:
    for name, split in manifest.splits.items():
      counts = counted(split.videos, 'video', ','), counted(split.captions, 'caption', ',')
      rows.append((f'split {name}', ', '.join(counts)))
    files = [pathlib.PurePath(file).name for file in manifest.source.get('annotations', ())]
    rows.append(('captions', f'{", ".join(files)} (form {manifest.source.get("form", "unknown")})'))
  streams = [('stream', 'kind', 'extractor', 'version and weights', 'sampling')]
  streams += [
    (s.name, f'{s.kind} {s.axes}', s.extractor or 'unknown', s.version or 'unknown', _sampled(s))
    for s in card.restored.streams
  ]
  text = 'The features that it reads; a version has the first digits of the hash of the weights:'
  return ['## Data', _table(('', ''), rows), text, _table(streams[0], streams[1:])]


def _sampled(stream: Any) -> str:
  return _listed((stream.sampling or {}).items()) or 'unknown'


def _scores(card: Card) -> list[str]:
  """The scores of every split, each with its interval, and below them what to compare them with."""
  scored = {split: report for split, report in card.reports.items() if report.get('references')}
  if not any('CIDEr' in report for report in scored.values()):
    return ['## Scores', *_retrieval(card)]
  names = results_table.METRICS
  rows = [
    (split, str(report['videos']), *(_score(card, split, name) for name in names))
    for split, report in scored.items()
  ]
  about = 'Per cent, with 95 % intervals over videos.'
  if card.note:
    about = f'Per cent. There are no intervals: {card.note}.'
  table = _table(('split', 'videos', *names.values()), rows, (0,))
  compared = [line for split in scored if (line := _compared(card, split))]
  signatures = [
    f'Signature of the scores on {split}: `{report["signature"]}`'
    for split, report in scored.items()
    if 'signature' in report
  ]
  return ['## Scores', about, table, *signatures, *compared]


def _compared(card: Card, split: str) -> str:
  """CIDEr of captions without a model, and of the run's own with swapped features."""
  report, texts = card.reports[split], []
  if 'constant_CIDEr' in report:
    caption = markdown.escaped(report['constant_caption'])
    texts.append(f'best constant caption {100 * report["constant_CIDEr"]:.1f} (“{caption}”)')
  for name, scores in card.baselines.fixed.get((report['data']['hash'], split), {}).items():
    if (kind := name.partition(':')[0]) != 'constant':  # which the evaluation has, too
      texts.append(f'{results_table.NO_MODEL[kind]} {100 * scores["CIDEr"]:.1f}')
  for (_, _, scored), scores in card.baselines.swapped.items():
    if scored == split:
      texts.append(f'with features swapped between videos {100 * scores["CIDEr"]:.1f}')
  return f'CIDEr on {split}, to compare: {"; ".join(texts)}.' if texts else ''


def _retrieval(card: Card) -> list[str]:
  """The recalls of a model that makes no captions; or the best validation, without evaluation."""
  rows = [
    (split, *(f'{report[name]:.3f}' for name in _RETRIEVAL))
    for split, report in card.reports.items()
    if 'rsum' in report
  ]
  if rows:
    return [_table(('split', *_RETRIEVAL), rows, (0,))]
  best = {}
  for scores in card.trained.best.values() if card.trained else ():
    best = {name: scores[name] for name in results_table.METRICS if name in scores}
  validated = ', '.join(f'{name} {100 * value:.1f}' for name, value in best.items())
  return [
    *([f'Of the best validation, in per cent: {validated}.'] if validated else []),
    'There is no evaluation yet. This makes one, and then the card can be written again:',
    f'    vidcap evaluate --checkpoint={_run(card)} --split=SPLIT',
  ]


def _score(card: Card, split: str, name: str) -> str:
  value = card.reports[split].get(name)
  if value is None:
    return ''
  interval: Interval | None = card.intervals.get(split, {}).get(name)
  ends = f' ({100 * interval[0]:.1f} to {100 * interval[1]:.1f})' if interval else ''
  return f'{100 * value:.1f}{ends}'


def _weakness(weakness: Weakness | None) -> list[str]:
  if weakness is None:
    return []
  parts = [
    '## What it is not good at',
    f'On {weakness.split}: {100 * weakness.repeated:.0f} % of the videos have a caption that '
    'another video has, too. The lowest CIDEr:',
  ]
  rows = [
    (video.video_id, f'{100 * cider:.0f}', shown(caption), video.captions[0])
    for video, caption, cider in weakness.lowest
  ]
  parts.append(_table(('video', 'CIDEr', 'caption', 'a reference'), rows, (0, 2, 3)))
  if weakness.categories:
    categories = [
      f'{name} ({100 * mean:.1f}, {counted(n, "video")})' for name, n, mean in weakness.categories
    ]
    parts.append(
      f'Categories with the lowest mean CIDEr, by their number: {", ".join(categories)}.'
    )
  for text, words in (
    ('Words of references that it knows but never says', weakness.unsaid),
    ('Words of references that its vocabulary lacks', weakness.unknown),
  ):
    if words:
      listed = ', '.join(f'{markdown.escaped(word)} ({count})' for word, count in words)
      parts.append(f'{text}, with the number of videos: {listed}.')
  return parts


def _training(card: Card, goodput: Mapping[str, Any]) -> list[str]:
  rows = [('hardware', goodput.get('hardware') or 'not recorded')]
  timing = card.trained.timing if card.trained else None
  if timing and timing.epochs is not None and timing.best_epoch is not None:
    rows.append(('epochs', f'{timing.epochs:.1f}, the best after {timing.best_epoch:.1f}'))
  if timing and timing.captions_per_second:
    rows.append(('captions a second', f'{timing.captions_per_second:.0f}'))
  if seconds := goodput.get('seconds'):
    parts = [
      f'{part.replace("_", " ")} {duration(seconds[part])}' for part in PARTS if seconds[part]
    ]
    rows.append(('time of the run', ', '.join(parts)))
  saved = card.restored.config.to_dict()
  rows.append(('config', saved.get('source') or 'not recorded'))
  settings = _settings_rows(saved)
  parts = ['## Training', _table(('', ''), rows)]
  if settings:
    text = (
      f'Settings of the stage that differ from the defaults (`{_DEFAULTS}`), without the model:'
    )
    parts += [text, _table(('setting', 'value'), settings)]
  return parts


def _settings_rows(saved: Mapping[str, Any]) -> list[tuple[str, str]]:
  """The settings of a config that differ from the defaults; none if these can't be loaded."""
  try:
    base = as_saved(config_files.load(_DEFAULTS, ()).base())
  except UserError:
    return []
  changes = differences(base, with_added_keys(as_saved(ConfigDict(saved))))
  left_out = ('model.', 'stages.', 'order', 'runtime.compilation_cache')
  return [
    (key, _value(now))
    for key, (_, now) in changes.items()
    if not runs.is_run_setting(key) and not key.startswith(left_out) and now != ABSENT
  ]


def _value(value: Any) -> str:
  """A value of a setting; a path without its folders, which are of the machine it was on."""
  if isinstance(value, str) and pathlib.PurePath(value).is_absolute():
    return pathlib.PurePath(value).name
  return str(value)


def _use(card: Card) -> list[str]:
  restored = card.restored
  made = provenance.from_dict(restored.meta.get('making', {}), restored.streams)
  run = _run(card)
  example = inputs.example_of(made)
  folders = dict.fromkeys((stream.name for stream in restored.streams), 'DIR')
  argument = "['clip.mp4']" if example == 'FILES' else f'features={folders}'
  return [
    '## How to use it',
    f'    vidcap predict --checkpoint={run} --inputs={example}',
    'or from Python:',
    '\n'.join(
      (
        '    import vidcap_jax as vc',
        '',
        f"    captioner = vc.load('{run}')",
        f'    for result in captioner.caption({argument}):',
        '      print(result.video_id, result.caption)',
      )
    ),
  ]


def _run(card: Card) -> str:
  """The run as commands name it, without folders of this machine."""
  return f'runs/{card.name}'


def _table(
  head: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] | None = None
) -> str:
  """A table of texts from data."""
  columns = range(len(head)) if left is None else left
  return markdown.table([head, *([markdown.escaped(c) for c in row] for row in rows)], columns)
