"""Attention weights at the words of captions, of one checkpoint or of an ensemble's members."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.data.records import Video
from vidcap_jax.data.vocabulary import EOS, Vocabulary
from vidcap_jax.models.attention_axes import Attention
from vidcap_jax.studies import weights

# (videos, the caption of each) -> name -> weights at the caption's words, for each video.
Explainer = Callable[[Sequence[Video], Sequence[str]], list[dict[str, Attention]]]


def make_explainer(members: Sequence[Restored], batch_size: int) -> Explainer:
  """The function that gives the weights, compiled at its first call.

  Of an ensemble, each member's weights at the words of the common caption are named
  'NAME of MEMBER', members counted from 0; members without attention have none.

  Raises:
    ConfigError: no member has attention.
  """
  attending = [i for i, member in enumerate(members) if weights.axes_of(member)]
  if not attending:
    weights.declared_axes(members[0])  # raises
  explainers = {i: weights.make_explainer(members[i], batch_size) for i in attending}
  vocabulary = members[0].vocabulary

  def explain(videos: Sequence[Video], captions: Sequence[str]) -> list[dict[str, Attention]]:
    found: list[dict[str, Attention]] = [{} for _ in videos]
    if not videos:
      return found
    tokens = [_tokens(vocabulary, caption) for caption in captions]
    for i, explain_videos in explainers.items():
      suffix = f' of {i}' if len(members) > 1 else ''
      for by_name, explained in zip(found, explain_videos(videos, tokens), strict=True):
        by_name.update(_renamed(explained.attentions, suffix))
    return found

  return explain


def _renamed(attentions: Mapping[str, Attention], suffix: str) -> dict[str, Attention]:
  return {f'{name}{suffix}': attention for name, attention in attentions.items()}


def _tokens(vocabulary: Vocabulary, caption: str) -> np.ndarray:
  """The token ids that ``vocabulary.decode`` made a caption of, EOS included."""
  words = caption.split(' ') if caption else []
  return np.array([*(vocabulary.index[word] for word in words), EOS], np.int32)
