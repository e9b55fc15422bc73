r"""How scores fall when the smallest attention weights are dropped (Global2Local, Figure 6).

  vidcap studies mask_ratio --checkpoint=WORKDIR --data=DIR --split=test \
      --attention=temporal_2d,temporal_3d --ratios=0,0.25,0.5,0.75,1 --json=FILE --plot=FILE.png

Works for every model and every attention that it names. At each word the given share of the valid
weights, the smallest ones, is set to 0, and the others are scaled so that the sum stays the same.
Ratio 0 changes nothing; at 1 all weights are 0, so the attended vector is zero. ``A+B`` means both
attentions at once.
"""

import argparse
import contextlib
import dataclasses
import itertools
import json
import logging
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from vidcap_jax import command_arguments, command_errors
from vidcap_jax.checkpoints import restore
from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.counts import counted
from vidcap_jax.data import pipeline
from vidcap_jax.data.key_frames import attach
from vidcap_jax.data.records import SplitSource, VideoSource, open_split
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.decoding.unroll import Captions
from vidcap_jax.distributed import mesh
from vidcap_jax.errors import ConfigError, DataError
from vidcap_jax.evaluation import evaluate, metrics
from vidcap_jax.files import check_output
from vidcap_jax.inference import captioning
from vidcap_jax.models.layers.attention import Edit
from vidcap_jax.program_name import program_name
from vidcap_jax.studies.drawing import check_plot, figure

RATIOS = '0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1'
SHOWN = ('BLEU_4', 'METEOR', 'ROUGE_L', 'CIDEr')


def drop_smallest(weights: jax.Array, mask: jax.Array, ratio: jax.Array) -> jax.Array:
  """Sets the smallest weights to 0 and scales the others to the same sum.

  Args:
    weights: (…, N), 0 where not valid.
    mask: bool (…, N).
    ratio: (), the share of valid weights to drop, rounded down to whole slots; of equal weights
      the first are dropped first.

  Returns:
    (…, N): the weights unchanged where nothing is dropped, zeros where everything is.
  """
  slots = mask.sum(axis=-1, keepdims=True, dtype=jnp.int32)
  # In float32 0.7 * 10 may be less than 7.
  dropped = jnp.floor(ratio.astype(jnp.float32) * slots.astype(jnp.float32) + 1e-3)
  order = jnp.argsort(jnp.where(mask, weights, jnp.inf), axis=-1, stable=True)
  rank = jnp.argsort(order, axis=-1)  # of each slot, from the smallest; slots not valid last
  kept = jnp.where(mask & (rank >= dropped.astype(jnp.int32)), weights, jnp.zeros_like(weights))
  total = kept.sum(axis=-1, keepdims=True)
  scale = weights.sum(axis=-1, keepdims=True) / jnp.where(total > 0, total, jnp.ones_like(total))
  return jnp.where(dropped > 0, kept * scale, weights)


def with_edit(module: nn.Module, edit: Edit) -> nn.Module:
  """The same module with its attention weights passed through ``edit``."""
  return module.clone(config=dataclasses.replace(module.config, edit=edit))


def attention_names(restored: Restored) -> list[str]:
  """Names of all attentions of a model, found by tracing a step."""
  names: set[str] = set()

  def record(name, weights, mask):
    names.add(name)
    return weights

  if hasattr(restored.module.config, 'edit'):
    restore.abstract_params(with_edit(restored.module, record), restored.streams, restored.config)
  return sorted(names)


def make_decoder(restored: Restored) -> Callable[[Any, Mapping, Mapping], Captions]:
  """A jitted function (params, batch, {attention: ratio}) -> Captions.

  Ratios are array arguments, so all curves share one compilation.
  """

  @jax.jit
  def decode(params, batch, ratios):
    def edit(name, weights, mask):
      return drop_smallest(weights, mask, ratios[name]) if name in ratios else weights

    module = with_edit(restored.module, edit)
    return captioning.decoder_fn(
      module,
      restored.streams,
      restored.vocabulary,
      restored.config,
      restored.length,
      restored.mesh,
    )(params, batch)

  return decode


def captioner_of(restored: Restored, source: VideoSource, ids: Sequence[str]):
  """A function {attention: ratio} -> {video id: caption}; each call needs the same names."""
  decode = make_decoder(restored)
  source = attach(source, restored.key_frames)

  def caption(ratios: Mapping[str, float]) -> dict[str, str]:
    arrays = {name: jnp.float32(ratio) for name, ratio in ratios.items()}
    captions = captioning.caption_videos(
      lambda params, batch: decode(params, batch, arrays),
      restored.params,
      captioning.batches_of(restored, source),
      ids,
      restored.vocabulary,
      restored.mesh,
    )
    return {caption['video_id']: caption['caption'] for caption in captions}

  return caption


def measure(
  restored: Restored,
  directory: str,
  split: str,
  attentions: Sequence[str],
  ratios: Sequence[float],
  metric_names: Sequence[str] = metrics.METRICS,
  log: Callable[[str], None] = lambda line: None,
) -> dict:
  """Scores of a split by attention and ratio.

  Args:
    restored: the checkpoint.
    directory, split: of the data set; its videos need references.
    attentions: names, or names joined by '+'.
    ratios: from 0 to 1.
    metric_names: any of ``metrics.METRICS``.
    log: called with a line for each result.

  Returns:
    ``original`` scores, and ``curves``: a list of {attention, ratio, scores, relative}, the last
    as fractions of the original scores (None where those are 0).

  Raises:
    ConfigError: an attention that the model lacks (lists those it has), a ratio out of range, an
      unknown metric.
    DataError, MetricError: data that doesn't fit the checkpoint or can't be scored.
  """
  parts = {attention: attention.split('+') for attention in attentions}
  all_parts = sorted({part for names in parts.values() for part in names})
  _check_arguments(restored, all_parts, ratios, metric_names)
  source, references = _split_references(restored, directory, split)
  caption = captioner_of(restored, source, list(references.captions))
  unchanged = dict.fromkeys(all_parts, 0.0)

  with contextlib.ExitStack() as stack:
    process = None
    if 'METEOR' in metric_names:
      process = metrics.start_meteor()
      stack.enter_context(process)

    def scores_at(ratios: Mapping[str, float]) -> dict[str, float]:
      return metrics.score(caption(ratios), references, metric_names, meteor_process=process)[0]

    original = scores_at(unchanged)
    log(f'unchanged: {_line(original)}')
    curves = []
    for attention, names in parts.items():
      for ratio in ratios:
        scores = scores_at({**unchanged, **dict.fromkeys(names, ratio)}) if ratio else original
        relative = {k: v / original[k] if original[k] else None for k, v in scores.items()}
        curves.append(
          {'attention': attention, 'ratio': ratio, 'scores': scores, 'relative': relative}
        )
        log(f'{attention} without the smallest {ratio:g}: {_line(scores)}')
  return {
    'checkpoint': str(restored.path),
    'data': directory,
    'split': split,
    'videos': len(references.captions),
    'original': original,
    'curves': curves,
  }


def _check_arguments(
  restored: Restored,
  attentions: Sequence[str],
  ratios: Sequence[float],
  metric_names: Sequence[str],
) -> None:
  known = attention_names(restored)
  if unknown := [name for name in attentions if name not in known]:
    raise ConfigError(
      f'--attention: the model {restored.config.model.name!r} has no attention '
      f'{", ".join(map(repr, unknown))}; it has: {", ".join(known) or "none"}'
    )
  if not ratios or any(not 0 <= ratio <= 1 for ratio in ratios):
    raise ConfigError(f'--ratios: numbers from 0 to 1 expected, got {list(ratios)}')
  unknown = [name for name in metric_names if name not in metrics.METRICS]
  if unknown or not metric_names:
    raise ConfigError(f'--metrics: unknown {unknown}; known: {", ".join(metrics.METRICS)}')


def _split_references(
  restored: Restored, directory: str, split: str
) -> tuple[SplitSource, metrics.References]:
  """A split of a data set that fits the checkpoint, and its tokenised references."""
  manifest = read_manifest(directory)
  if split not in manifest.splits:
    raise DataError(f'{directory} has no split {split!r}; it has: {", ".join(manifest.splits)}')
  evaluate.check_streams(restored, manifest, directory)
  source = open_split(directory, split)
  videos = list(pipeline.read_texts(source, restored.config.data.threads))
  if not any(video.captions for video in videos):
    raise DataError(f'split {split!r} of {directory} has no references to score captions with')
  references = metrics.prepare_references(
    {video.video_id: list(video.captions) for video in videos},
    by_character=restored.vocabulary.by_character,
  )
  return source, references


def _line(scores: Mapping[str, float]) -> str:
  return '  '.join(f'{name} {scores[name]:.4f}' for name in SHOWN if name in scores)


def table(result: Mapping) -> str:
  """The scores, a block of lines for each attention."""
  names = [name for name in SHOWN if name in result['original']]
  header = '  ratio' + ''.join(f'{name:>10}' for name in names)
  lines = []
  for attention, rows in itertools.groupby(result['curves'], lambda row: row['attention']):
    lines += [attention, header]
    for row in rows:
      lines.append(f'  {row["ratio"]:5.2f}' + ''.join(f'{row["scores"][n]:10.4f}' for n in names))
  return '\n'.join(lines)


def plot(result: Mapping, path: str | pathlib.Path) -> None:
  """Draws the scores as fractions of the original ones, a panel for each attention.

  Raises:
    ModuleNotFoundError: matplotlib is not installed; says how to install it.
  """
  attentions = list(dict.fromkeys(row['attention'] for row in result['curves']))
  picture = figure(figsize=(4 * len(attentions), 3.2))
  panels = picture.subplots(1, len(attentions), sharey=True, squeeze=False)[0]
  for panel, attention in zip(panels, attentions):
    rows = [row for row in result['curves'] if row['attention'] == attention]
    for name in (name for name in SHOWN if result['original'].get(name)):
      panel.plot(
        [row['ratio'] for row in rows],
        [row['relative'][name] for row in rows],
        marker='o',
        markersize=3,
        label=name,
      )
    panel.set(title=attention, xlabel='share of smallest weights dropped')
    panel.grid(alpha=0.3)
  panels[0].set_ylabel('score / original score')
  if panels[0].lines:
    panels[0].legend()
  picture.savefig(path, dpi=150)


def make_parser() -> argparse.ArgumentParser:
  """The command's flags."""
  parser = argparse.ArgumentParser(
    prog=program_name('vidcap_jax.studies.mask_ratio'),
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  add('--checkpoint', required=True, metavar='DIR', help='a workdir or step folder')
  add('--data', metavar='DIR', help='data set folder (default: the one trained on)')
  add('--split', default='val', help='of the data set (default: %(default)s)')
  add('--attention', required=True, metavar='NAME,…', help='attentions, one curve each')
  add('--ratios', default=RATIOS, metavar='R,…', help='shares to drop (default: %(default)s)')
  add('--metrics', default=','.join(metrics.METRICS), help='of: %(default)s')
  add('--decode', action='append', default=[], metavar='KEY=VALUE', help='a decoding setting')
  add('--json', metavar='FILE', help='write all scores there')
  add('--plot', metavar='FILE', help='draw the curves there (.png, .pdf, .svg)')
  return parser


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  parser = make_parser()
  options = command_arguments.parse(parser, arguments)
  logging.basicConfig(format='%(message)s')
  logging.getLogger('absl').setLevel(logging.WARNING)  # Orbax logs each file it touches
  try:
    ratios = [float(ratio) for ratio in options.ratios.split(',')]
  except ValueError:
    parser.error(f'--ratios={options.ratios}: comma-separated numbers expected')
  # Before the work: can the results be drawn and written?
  if options.json:
    check_output('--json', options.json)
  if options.plot:
    check_plot('--plot', options.plot)
  checkpoint = restore.find_checkpoint(options.checkpoint)
  restored = restore.restore(checkpoint, mesh.make_mesh(), options.decode)
  result = measure(
    restored,
    restored.data_folder(options.data),
    options.split,
    options.attention.split(','),
    ratios,
    options.metrics.split(','),
    log=lambda line: print(line, file=sys.stderr, flush=True),
  )
  print(f'{result["checkpoint"]}, {options.split}, {counted(result["videos"], "video")}')
  print(table(result))
  if options.json:
    text = json.dumps(result, indent=1) + '\n'
    pathlib.Path(options.json).write_text(text, encoding='utf-8')
  if options.plot:
    plot(result, options.plot)


if __name__ == '__main__':
  main()
