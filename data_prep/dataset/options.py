"""The options of ``data_prep.build``: their defaults, their checks, and their record."""

import dataclasses
import pathlib
import re
from collections.abc import Mapping, Sequence

from data_prep.dataset import writer
from vidcap_jax.data.tokenizers import tokenize
from vidcap_jax.errors import DataError
from vidcap_jax.features.formats import declarations


@dataclasses.dataclass(frozen=True)
class Options(declarations.Declarations):
  """What to build; ``python -m data_prep.build --help`` explains each field.

  Attributes:
    form: ``--format``, a key of ``annotations.FORMATS``.
    tokenizer: '': ptb_like, or by_character for ``--language=zh``.
    max_words: 0: captions are not cut.
    leak_words_of: splits besides train whose words are counted for the vocabulary.
  """

  form: str
  annotations: Sequence[str]
  features: Mapping[str, str]
  out: str
  name: str | None = None
  splits: str | None = None
  split: str | None = None
  id_map: str | None = None
  language: str | None = None
  counts: str = 'fail'
  missing: str = 'fail'
  dtype: str = 'float16'
  vocabulary: str | None = None
  tokenizer: str = ''
  min_count: int = 3
  max_words: int = 20
  leak_words_of: Sequence[str] = ()
  shard_mb: float = 256.0
  overwrite: bool = False

  @property
  def skip_bad(self) -> bool:
    """Whether videos with unusable features are left out; otherwise they are an error."""
    return (self.bad or self.missing) == 'skip'


def resolve(options: Options) -> Options:
  """The options with the default tokenizer of the language filled in, checked.

  Raises:
    DataError: an option is wrong in a way that can be seen without reading a file.
  """
  if not options.tokenizer:
    tokenizer = 'by_character' if options.language == 'zh' else 'ptb_like'
    options = dataclasses.replace(options, tokenizer=tokenizer)
  _check(options)
  return options


def _check(options: Options) -> None:
  if options.missing not in ('fail', 'skip'):
    raise DataError(f'--missing={options.missing}: fail or skip')
  if options.counts not in ('fail', 'warn'):
    raise DataError(f'--counts={options.counts}: fail or warn')
  if options.dtype not in ('float16', 'float32'):
    raise DataError(f'--dtype={options.dtype}: float16 or float32')
  if options.min_count < 1:
    raise DataError(f'--min_count={options.min_count}: must be at least 1')
  if options.max_words < 0:
    raise DataError(f'--max_words={options.max_words}: must be at least 1, or 0 to cut no caption')
  if not options.shard_mb > 0:
    raise DataError(f'--shard_mb={options.shard_mb}: must be above 0')
  if options.splits and options.split:
    raise DataError('--splits and --split exclude each other')
  if not options.features:
    raise DataError('no feature stream; give at least one, as in --features=image=DIR')
  tokenize('', options.tokenizer)  # raises DataError for an unknown tokenizer
  for stream in options.features:
    if not re.fullmatch(r'[A-Za-z][A-Za-z0-9_]*', stream):
      raise DataError(
        f'stream name {stream!r}: use letters, digits and underscores, first a letter'
      )
  declarations.check(options, options.features)


def dataset_name(options: Options) -> str:
  """The name with which the data set's files begin.

  Raises:
    DataError: TFDS does not accept ``--name``.
  """
  name = options.name or writer.dataset_name(pathlib.Path(options.out).resolve().name)
  if not re.fullmatch(r'[a-z][a-z0-9_]*', name):
    raise DataError(f'--name={name}: use small letters, digits and underscores, first a letter')
  return name


def recorded(options: Options) -> dict:
  """The options as the manifest records them: those that are set, without where to write."""
  fields = dataclasses.asdict(options)
  used = {
    k: v for k, v in fields.items() if k not in ('out', 'overwrite') and (v or k == 'max_words')
  }
  return {k: list(v) if isinstance(v, tuple) else v for k, v in used.items()}
