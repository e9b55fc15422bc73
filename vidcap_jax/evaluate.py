"""Decoding a split and scoring it: one code for validation, test and a checkpoint alone."""

import importlib.metadata
import json
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
from flax import linen as nn
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax import distributed
from vidcap_jax.data import pipeline
from vidcap_jax.data.records import VideoSource, open_split
from vidcap_jax.data.schema import DataError, Manifest, Stream, read_manifest
from vidcap_jax.data.vocabulary import Vocabulary
from vidcap_jax.decoding.beam import beam_search
from vidcap_jax.decoding.constraints import Constraints
from vidcap_jax.decoding.settings import check_decode
from vidcap_jax.decoding.unroll import Captions, Sampling, greedy, sample, uniform_draws
from vidcap_jax.features import select_streams, stream_sizes, to_inputs
from vidcap_jax.models.captioner import Needs, bind
from vidcap_jax.restore import Restored


def make_decoder(
  module: nn.Module,
  streams: Sequence[Stream],
  config: ConfigDict,
  length: int,
) -> Callable[[Any, Mapping], Captions]:
  """A jitted function (params, batch) -> Captions with one caption a video, as ``decode`` says."""
  check_decode(config.decode)
  d = config.decode
  constraints = Constraints(min_length=d.min_length, no_repeat_ngram=d.no_repeat_ngram)
  key = jax.random.key(config.seed)

  @jax.jit
  def decode(params, batch):
    captioner = bind(module, params)
    memory = captioner.encode(to_inputs(batch, streams, config.data.standardise), None, train=False)
    if d.method == 'beam':
      return beam_search(
        captioner, memory, length, d.beam, length_penalty=d.length_penalty, constraints=constraints
      )
    if d.method == 'greedy':
      return greedy(captioner, memory, length, constraints=constraints)
    draws = uniform_draws(key, batch['video_index'], 1, length)
    sampling = Sampling(d.temperature, d.top_k, d.top_p)
    return sample(captioner, memory, draws, sampling=sampling, constraints=constraints)

  return decode


def caption_videos(
  decode: Callable[[Any, Mapping], Captions],
  params: Any,
  batches: Iterable[tuple[int, Mapping]],
  ids: Sequence[str],
  vocabulary: Vocabulary,
  mesh: Mesh,
) -> list[dict]:
  """One {video_id, caption, log_prob} for each video of the batches, in their order."""
  captions = []
  for _, batch in batches:
    batch = distributed.to_devices(batch, mesh)
    made = decode(params, batch)
    index, tokens, log_prob = distributed.to_host(
      (batch['video_index'], made.tokens, made.log_prob)
    )
    captions += [
      {'video_id': ids[i], 'caption': vocabulary.decode(t[0]), 'log_prob': float(p[0])}
      for i, t, p in zip(index, tokens, log_prob)
      if i >= 0
    ]
  return captions


def eval_batches(
  source: VideoSource,
  vocabulary: Vocabulary,
  streams: Sequence[Stream],
  needs: Needs,
  config: ConfigDict,
  mesh: Mesh,
  batch_size: int | None = None,
) -> Iterator[tuple[int, dict]]:
  """Batches over every video of a source, this process's rows of each."""
  size = batch_size or config.eval.batch_size
  size += -size % mesh.shape['data']  # rows of the last batch are padded anyway
  return pipeline.eval_batches(
    source,
    vocabulary,
    streams,
    sizes=stream_sizes(streams, config, needs),
    blocks=needs.blocks,
    length=max(2, config.data.max_words + 1),
    batch_size=size,
    host=jax.process_index(),
    hosts=jax.process_count(),
    threads=config.data.threads,
  )


def captioner_of(
  restored: Restored, batch_size: int | None = None
) -> Callable[[VideoSource, Sequence[str]], list[dict]]:
  """A function (videos, their ids) -> one {video_id, caption, log_prob} each, compiled once."""
  config, mesh, vocabulary = restored.config, restored.mesh, restored.vocabulary
  decode = make_decoder(restored.module, restored.streams, config, restored.length)

  def caption(source, ids):
    needs = restored.module.config.needs
    batches = eval_batches(source, vocabulary, restored.streams, needs, config, mesh, batch_size)
    return caption_videos(decode, restored.params, batches, ids, vocabulary, mesh)

  return caption


def check_streams(restored: Restored, manifest: Manifest, directory: str) -> None:
  """Whether a data set's streams are those that the checkpoint's model was trained on.

  Raises:
    DataError: one is missing, or differs in kind, width, extractor, version or sampling.
  """
  found = select_streams(
    restored.module.config.needs, manifest.streams, f'the data set {directory}'
  )
  for ours, theirs in zip(restored.streams, found):
    for field in ('kind', 'channels', 'extractor', 'version', 'sampling'):
      trained, given = getattr(ours, field), getattr(theirs, field)
      if trained != given and None not in (trained, given):
        raise DataError(
          f'stream {ours.name!r}: the checkpoint was trained on {field} {trained!r}, '
          f'the data set {directory} has {given!r}; build the data set with the same features'
        )


def evaluate(restored: Restored, directory: str, split: str, output: pathlib.Path) -> dict:
  """Captions a split, scores it if it has references, and writes what was found.

  Args:
    restored: the checkpoint, with any changes to ``config.decode`` already made.
    directory: the data set; it may have been built later than the checkpoint.
    split: of the data set.
    output: folder for captions.json, metrics.json and, without references, submission files.

  Returns:
    The contents of metrics.json.

  Raises:
    DataError: the split or a stream is missing.
    MetricError: some videos of the split have references and others none.
  """
  from vidcap_jax.evaluation import metrics, submission
  from vidcap_jax.evaluation.java import require_java

  manifest = read_manifest(directory)
  if split not in manifest.splits:
    raise DataError(f'{directory} has no split {split!r}; it has: {", ".join(manifest.splits)}')
  check_streams(restored, manifest, directory)
  source = open_split(directory, split)
  texts = list(pipeline.read_texts(source, restored.config.data.threads))
  ids = [video.video_id for video in texts]
  scored = any(video.captions for video in texts)
  references = None
  if scored:
    require_java()
    references = metrics.prepare_references({v.video_id: list(v.captions) for v in texts})

  captions = captioner_of(restored)(source, ids)
  hypotheses = {c['video_id']: c['caption'] for c in captions}
  report: dict[str, Any] = {}
  if references is not None and distributed.is_main():
    scores, _ = metrics.score(hypotheses, references)
    best, value = metrics.constant_baseline(references, restored.meta['top_captions'])
    report |= {**scores, 'constant_CIDEr': value, 'constant_caption': best}
  report |= {
    'distinct_captions': len(set(hypotheses.values())),
    'split': split,
    'videos': len(captions),
    'references': scored,
    'checkpoint': str(restored.path),
    'checkpoint_step': int(restored.path.name),
    'stage': restored.meta['stage'],
    'decode': restored.config.decode.to_dict(),
    'data': {'dir': directory, 'hash': manifest.hash, 'name': manifest.name},
    'vocabulary_hash': restored.vocabulary.hash,
    'versions': versions(),
  }
  if distributed.is_main():
    output.mkdir(parents=True, exist_ok=True)
    _write_json(output / 'captions.json', captions)
    _write_json(output / 'metrics.json', report)
    if not scored:
      submission.write_vatex(output / 'submission_vatex.json', hypotheses)
      # Challenges ask that networks trained on other data be declared.
      networks = sorted({s.extractor for s in restored.streams if s.extractor})
      submission.write_msrvtt(
        output / 'submission_msrvtt.json', hypotheses, ', '.join(networks) or None
      )
  return report


def evaluate_command(
  restored: Restored, directory: str | None, split: str, output: str | None
) -> None:
  """``--mode=evaluate``: where the data and results are by default, and what is printed."""
  directory = directory or restored.config.data.dir
  # WORKDIR/checkpoints/STAGE/STEP
  folder = pathlib.Path(output) if output else restored.path.absolute().parents[2] / 'eval' / split
  report = evaluate(restored, directory, split, folder)
  if distributed.is_main():
    print(f'{split}, {restored.path}: {summary(report)}\nwritten to {folder}', flush=True)


def versions() -> dict[str, str]:
  """Of the packages that results depend on."""
  names = ('vidcap_jax', 'jax', 'flax', 'optax', 'orbax-checkpoint', 'grain', 'pycocoevalcap')
  found = {}
  for name in names:
    try:
      found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:  # run from a checkout, not installed
      found[name] = 'not installed'
  return found


def _write_json(path: pathlib.Path, data: Any) -> None:
  partial = path.with_suffix('.partial')
  partial.write_text(json.dumps(data, indent=1, ensure_ascii=False) + '\n', encoding='utf-8')
  partial.replace(path)


def summary(report: Mapping) -> str:
  """A report's scores in a line or two."""
  if not report['references']:
    return f'{report["videos"]} captions, no references to score them with'
  names = ('BLEU_1', 'BLEU_2', 'BLEU_3', 'BLEU_4', 'METEOR', 'ROUGE_L', 'CIDEr', 'constant_CIDEr')
  scores = '  '.join(f'{name} {report[name]:.4f}' for name in names)
  return f'{scores}\n{report["videos"]} videos, {report["distinct_captions"]} distinct captions'
