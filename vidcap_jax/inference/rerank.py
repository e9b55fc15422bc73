"""Late fusion: of what several checkpoints say of a video, an embedding chooses the nearest.

Candidates are each run's captions (``decode.n_best`` of them); the video-semantic embedding ranks
them by their cosine with the video, and of equally near ones the first wins.
"""

import functools
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax.checkpoints import init_from, restore
from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.data.records import VideoSource
from vidcap_jax.data.vocabulary import PAD
from vidcap_jax.distributed.mesh import to_devices, to_host
from vidcap_jax.errors import ConfigError
from vidcap_jax.inference.captioning import Together, batches_of, captioner_of
from vidcap_jax.models.captioner import is_captioner
from vidcap_jax.models.embedding import own_similarity
from vidcap_jax.models.streams import to_inputs


def fuse(embedding: Restored, runs: Sequence[Restored]) -> Together:
  """Captions of which each also has ``captions``, all of its candidates, run after run, the chosen
  one's place among them, ``chosen``, and its ``run``.

  Raises:
    ConfigError: the embedding makes captions, or a run makes none.
  """
  if is_captioner(embedding.module):
    raise ConfigError(
      f'{embedding.path} is of model {embedding.config.model.name!r}, which ranks no captions; '
      "fusion chooses by a checkpoint of model 'embedding'"
    )
  captioners = [
    captioner_of(run, label=f'captioning, run {i} of {len(runs)}') for i, run in enumerate(runs, 1)
  ]

  def caption(source, ids):
    made = [by_run(source, ids) for by_run in captioners]
    candidates, of_run = [], []
    for said in zip(*made, strict=True):  # of one video, run after run
      several = [one.get('captions') or [_alone(one)] for one in said]
      candidates.append([c for captions in several for c in captions])
      of_run.append([i for i, captions in enumerate(several) for _ in captions])
    chosen = choose(embedding, source, [[c['caption'] for c in each] for each in candidates])
    return [
      {'video_id': video_id, **each[k], 'captions': each, 'chosen': k, 'run': runs_of[k]}
      for video_id, each, runs_of, k in zip(ids, candidates, of_run, chosen)
    ]

  paths = {'embedding': str(embedding.path), 'runs': [str(run.path) for run in runs]}
  return Together((*runs, embedding), caption, {'fusion': paths})


def _alone(made: Mapping) -> dict:
  return {key: made[key] for key in ('caption', 'log_prob')}


def choose(
  embedding: Restored, source: VideoSource, candidates: Sequence[Sequence[str]]
) -> list[int]:
  """Which of its captions is nearest to each video of a source, the first of equally near ones."""
  config, module, streams = embedding.config, embedding.module, embedding.streams

  @jax.jit
  def nearest(params, batch):
    call = functools.partial(module.apply, {'params': params})
    inputs = to_inputs(batch, streams, config.data.standardise)
    videos = jnp.asarray(call(inputs, method='embed_videos'))  # (B, H)
    tokens = batch['tokens']  # (B, S, L)
    texts = jnp.asarray(call(tokens, tokens != PAD, method='embed_captions'))  # (B, S, H)
    return jnp.where(batch['there'], own_similarity(videos, texts), -jnp.inf).argmax(axis=-1)

  most, found = max(map(len, candidates)), [0] * len(candidates)
  for _, rows in batches_of(embedding, source, label='choosing captions'):
    shape = (len(rows['video_index']), most)
    tokens = np.full((*shape, embedding.length), PAD, np.int32)
    there = np.zeros(shape, bool)
    for row, index in enumerate(rows['video_index']):
      for slot, caption in enumerate(candidates[index] if index >= 0 else ()):
        tokens[row, slot] = embedding.vocabulary.encode(caption, embedding.length)
        there[row, slot] = True
    batch = to_devices({**rows, 'tokens': tokens, 'there': there}, embedding.mesh)
    best = nearest(embedding.params, batch)
    for index, k in zip(*to_host((batch['video_index'], best))):
      if index >= 0:
        found[index] = int(k)
  return found


# ------------------------------------------------------------------------------ as a stage


def prepare(config: ConfigDict, stage: str, workdir: epath.Path, mesh: Mesh) -> dict:
  """The stage's task: finds its checkpoints; its evaluation does the rest.

  Raises:
    ConfigError: no runs or no embedding are named.
    DataError: no checkpoint there.
  """
  return sources(config, workdir)


def sources(config: ConfigDict, workdir: epath.Path) -> dict:
  """The checkpoints that ``config.fuse`` names: the embedding's, and the runs'."""
  if not (config.fuse.embedding and config.fuse.runs):
    raise ConfigError(
      "a stage with task 'fuse' needs fuse.embedding and fuse.runs, each 'stage:NAME' or a "
      'checkpoint'
    )
  find = lambda name, key: str(  # noqa: E731
    restore.find_checkpoint(init_from.source_of(name, workdir), f'config.fuse.{key}')
  )
  runs = [find(name, 'runs') for name in config.fuse.runs]
  return {'embedding': find(config.fuse.embedding, 'embedding'), 'runs': runs}


def restored_from(paths: Mapping, candidates: int, mesh: Mesh) -> Together:
  """What ``sources`` found, ready to caption; of each run the best ``candidates`` of its beam.

  Raises:
    ConfigError: a checkpoint is of another kind, or its beam is too small.
  """
  decode = [f'n_best={candidates}']
  runs = [restore.restore(epath.Path(path), mesh, decode) for path in paths['runs']]
  return fuse(restore.restore(epath.Path(paths['embedding']), mesh), runs)
