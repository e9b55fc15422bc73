"""Video captioning in JAX.

    import vidcap_jax as vc

    captioner = vc.load('runs/mine')
    captioner.caption(['clip.mp4', 'folder/', 'photo.jpg'])

A name is imported when it is first used, so that ``import vidcap_jax`` takes no time and loads
neither JAX nor NumPy. docs/python.md shows each task.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  from vidcap_jax.api.captioner import Captioner, load
  from vidcap_jax.api.data_sets import DataSet, build
  from vidcap_jax.api.scoring import Scores, evaluate, score
  from vidcap_jax.api.training import Run, train
  from vidcap_jax.errors import UserError
  from vidcap_jax.inference.result import Candidate, Result, Results
  from vidcap_jax.models.attention_axes import Attention

__version__ = '0.1.0'

__all__ = [
  'Attention',
  'Candidate',
  'Captioner',
  'DataSet',
  'Result',
  'Results',
  'Run',
  'Scores',
  'UserError',
  'build',
  'evaluate',
  'load',
  'score',
  'train',
]

_MODULES = {
  'Attention': 'vidcap_jax.models.attention_axes',
  'Candidate': 'vidcap_jax.inference.result',
  'Captioner': 'vidcap_jax.api.captioner',
  'DataSet': 'vidcap_jax.api.data_sets',
  'Result': 'vidcap_jax.inference.result',
  'Results': 'vidcap_jax.inference.result',
  'Run': 'vidcap_jax.api.training',
  'Scores': 'vidcap_jax.api.scoring',
  'UserError': 'vidcap_jax.errors',
  'build': 'vidcap_jax.api.data_sets',
  'evaluate': 'vidcap_jax.api.scoring',
  'load': 'vidcap_jax.api.captioner',
  'score': 'vidcap_jax.api.scoring',
  'train': 'vidcap_jax.api.training',
}


if not TYPE_CHECKING:  # else checkers would accept every name

  def __getattr__(name: str) -> Any:
    if name not in _MODULES:
      raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})
