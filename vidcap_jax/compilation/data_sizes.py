"""What the shapes of a run's arrays depend on: of a data set, or assumed where there is none."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from etils import epath
from ml_collections import ConfigDict

from vidcap_jax import config_files, models
from vidcap_jax.data.schema import Stream
from vidcap_jax.data.vocabulary import SPECIAL, Vocabulary
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.objectives import make_objective
from vidcap_jax.objectives.objective import Objective
from vidcap_jax.rewards.ngrams import ORDERS, Frequencies
from vidcap_jax.rewards.references import References, as_rows
from vidcap_jax.training.programs import SplitSizes
from vidcap_jax.training.stage import set_up
from vidcap_jax.training.train_data import read_train_data
from vidcap_jax.training.trainer import split_sizes

# A training split as large as VATEX's, the largest of the configs' data sets. Only the reference
# tables of rewards and the state of the objective ``refocus`` depend on these numbers.
ASSUMED_SPLIT = SplitSizes(25_991, 10, steps_per_epoch=1000, total_steps=10_000)
_ASSUMED_TOKENS, _ASSUMED_NGRAMS, _ASSUMED_CHILDREN = 40, 4_000_000, 10_000
_MADE_UP_VIDEOS = 8


@dataclasses.dataclass(frozen=True)
class DataSizes:
  """What a stage's programs depend on besides its config.

  Attributes:
    where: the config file or data set, for messages.
    streams: of the data.
    vocabulary: its words; made-up ones where only their number is known.
    split: of the training split.
    tables: of the stage's objective, abstract.
    assumed: whether ``split`` and the tables of rewards are assumed.
  """

  where: str
  streams: Sequence[Stream]
  vocabulary: Vocabulary
  split: SplitSizes
  tables: Any
  assumed: bool


def from_config_file(source: str, config: ConfigDict) -> DataSizes:
  """Sizes from STREAMS and VOCABULARY of a config file.

  Args:
    source: FILE or FILE:VARIANT.
    config: of a stage.

  Raises:
    ConfigError: the file lacks one of them, or an unknown variant.
  """
  path, _, variant = config_files.current_source(source).partition(':')
  module = config_files.load(path)
  streams = config_files.for_variant(module, 'STREAMS', variant)
  words = config_files.for_variant(module, 'VOCABULARY', variant)
  vocabulary = made_up_vocabulary(words, config.decode.force)
  split = ASSUMED_SPLIT
  if config.data.length_buckets:
    tokens = config.train.batch_size * config.data.captions_per_video * 10.0
    split = dataclasses.replace(split, tokens_per_step=tokens)
  tables = _assumed_tables(objective_of(config, vocabulary), vocabulary)
  return DataSizes(source, streams, vocabulary, split, tables, assumed=True)


def from_data_set(config: ConfigDict) -> DataSizes:
  """Sizes of the training split of ``data.dir``, whose captions are read.

  Raises:
    ConfigError, DataError: the data set does not fit the config.
  """
  config = config.copy_and_resolve_references()
  with config.unlocked():
    config.data.key_frames = ''  # of a stage that has not run; they change no size
  stage = set_up(config, make_mesh(devices=jax.devices('cpu')[:1]))
  data = read_train_data(config, stage, epath.Path('.'))
  objective = objective_of(config, stage.vocabulary)
  tables = jax.eval_shape(lambda: objective.tables(data.captions, stage.vocabulary))
  streams, where = stage.manifest.streams, f'the data set {config.data.dir}'
  return DataSizes(where, streams, stage.vocabulary, split_sizes(data), tables, assumed=False)


def objective_of(config: ConfigDict, vocabulary: Vocabulary) -> Objective:
  """The objective of a stage, of which only tables and names are used."""
  module = models.build(config.model, len(vocabulary), config.train.dtype)
  return make_objective(config, module, None)


def made_up_vocabulary(words: int, known: Sequence[str] = ()) -> Vocabulary:
  """A vocabulary of a given number of words.

  Args:
    words: V, the special ones included.
    known: words that it holds, such as those of ``decode.force``.
  """
  more = (f'w{i}' for i in itertools.count())
  found = dict.fromkeys((*SPECIAL, *known))
  return Vocabulary((*found, *itertools.islice(more, max(0, words - len(found)))), 'whitespace')


def _assumed_tables(objective: Objective, vocabulary: Vocabulary) -> Any:
  """The abstract tables of an objective for the assumed split."""
  caption = ' '.join([vocabulary.words[-1]] * vocabulary.max_words)
  captions = [[caption] * ASSUMED_SPLIT.most_captions] * _MADE_UP_VIDEOS
  tables = jax.eval_shape(lambda: objective.tables(captions, vocabulary))
  return _assumed_references() if isinstance(tables, References) else tables


def _assumed_references() -> References:
  videos, R = ASSUMED_SPLIT.videos, ASSUMED_SPLIT.most_captions
  array: Any = jax.ShapeDtypeStruct
  nodes = _ASSUMED_NGRAMS
  frequencies = Frequencies(
    array((nodes + 1,), jnp.int32),
    array((nodes,), jnp.int32),
    array((nodes,), jnp.float32),
    _ASSUMED_CHILDREN.bit_length(),
  )
  sentences = jax.eval_shape(as_rows, array((videos, R, _ASSUMED_TOKENS), jnp.int32))
  norms = jax.eval_shape(as_rows, array((videos, R, ORDERS), jnp.float32))
  return References(sentences, norms, frequencies, R, _ASSUMED_TOKENS)
