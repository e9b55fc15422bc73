"""The fixtures of ``make_imagecaptioning.py``, and the files that they stand for."""

import functools
import json
import pathlib
from typing import NamedTuple

import numpy as np

from tests.feature_files import torch_zip

FOLDER = pathlib.Path(__file__).parent
NAMES = ('updown', 'updown_bn', 'transformer')


class Fixture(NamedTuple):
  """What the other project's code computed of random weights.

  Attributes:
    weights: the state dict.
    infos: the bytes of infos.pkl.
    inputs: fc_feats (B, 4), att_feats (B, 5, 3), att_masks (B, 5).
    captions: (B, L) rows of words, each 0 first.
    log_probs: (B, L, rows) of the words after each of ``captions``.
    searches: name -> the captions (B,) of a search.
  """

  weights: dict
  infos: bytes
  inputs: dict
  captions: np.ndarray
  log_probs: np.ndarray
  searches: dict


@functools.cache
def load(name: str) -> Fixture:
  with np.load(FOLDER / f'{name}.npz') as file:
    arrays = dict(file)
  part = lambda prefix: {  # noqa: E731
    key.partition('/')[2]: x for key, x in arrays.items() if key.startswith(f'{prefix}/')
  }
  shapes = json.loads(arrays['shapes'].tobytes())
  ends = np.cumsum([np.prod(shape, dtype=int) for shape in shapes.values()])
  parts = np.split(arrays['weights'], ends[:-1])
  weights = {key: x.reshape(shape) for (key, shape), x in zip(shapes.items(), parts, strict=True)}
  if name == 'transformer':
    weights['model.tgt_embed.1.pe'] = np.zeros((1, 4, 8), np.float32)
  return Fixture(
    weights,
    arrays['infos'].tobytes(),
    part('inputs'),
    arrays['captions'],
    arrays['log_probs'],
    {key: json.loads(x.tobytes()) for key, x in part('search').items()},
  )


def write(name: str, folder: pathlib.Path, **changes) -> list[str]:
  """Writes model.pth and infos.pkl, and returns the command's flags for them.

  Args:
    name: of the fixture.
    folder: for both files.
    changes: to the state dict; None removes a key.
  """
  fixture = load(name)
  weights = {k: v for k, v in {**fixture.weights, **changes}.items() if v is not None}
  (folder / 'model.pth').write_bytes(torch_zip(weights))
  (folder / 'infos.pkl').write_bytes(fixture.infos)
  return [
    '--from=imagecaptioning',
    f'--weights={folder / "model.pth"}',
    f'--infos={folder / "infos.pkl"}',
  ]
