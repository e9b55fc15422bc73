"""Rewards of captions, by name: ``config.objective.rewards``, name -> weight.

Captions and references are token ids on the device; one caption is scored at a time, and ``score``
maps over the rest.
"""

import math
from collections.abc import Callable, Mapping

import jax

from vidcap_jax.errors import ConfigError
from vidcap_jax.rewards import bleu, cider, ngrams, rouge
from vidcap_jax.rewards.meteor import make_meteor
from vidcap_jax.rewards.references import References, VideoReferences

Array = jax.Array

# (sentence (L,), its video's row of References) -> ().
REWARDS: Mapping[str, Callable[[Array, VideoReferences], Array]] = {
  'cider': lambda s, r: cider.cider_d(s, r.sentences, r.norms, r.frequencies),
  'bleu4': lambda s, r: bleu.bleu4(s, r.sentences),
  'rouge_l': lambda s, r: rouge.rouge_l(s, r.sentences),
}
# Computed on the host, outside the compiled step: (captions of each training video, vocabulary, the
# program of ``eval.meteor``) -> a function (tokens (B, S, L), rows (B,)) -> (B, S).
HOST_REWARDS: Mapping[str, Callable[..., Callable]] = {'meteor': make_meteor}


def check_rewards(weights: Mapping[str, float]) -> None:
  """ConfigError for an unknown reward, an unusable weight, or no reward with a weight."""
  known = (*REWARDS, *HOST_REWARDS)
  if unknown := [name for name in weights if name not in known]:
    raise ConfigError(f'unknown objective.rewards {", ".join(unknown)}; known: {", ".join(known)}')
  if wrong := [name for name, weight in weights.items() if not 0 <= weight < math.inf]:
    raise ConfigError(
      f'objective.rewards.{wrong[0]}={weights[wrong[0]]}: weights are 0 or more, and finite'
    )
  if not any(weights.values()):
    raise ConfigError(
      'objective.rewards is empty or all zero; give one a weight, e.g. '
      '--config.objective.rewards.cider=1.0'
    )


def score(
  names: tuple[str, ...], tokens: Array, references: References, rows: Array, *, count_eos: bool
) -> dict[str, Array]:
  """Rewards of captions against the references of their videos.

  Args:
    names: of ``REWARDS``.
    tokens: (B, S, L) captions.
    references: of all training videos.
    rows: (B,) which of those; -1 for padding, whose rewards are undefined.
    count_eos: whether EOS is a word, as it is for ``references``.

  Returns:
    name -> (B, S).
  """
  sentences = ngrams.sentence_of(tokens, count_eos=count_eos)

  def of_caption(sentence, video_references):
    return {name: REWARDS[name](sentence, video_references) for name in names}

  def of_video(sentences, row):  # (S, L), ()
    return jax.vmap(of_caption, (0, None))(sentences, references.of_video(row))

  return jax.vmap(of_video)(sentences, rows)
