"""A data set that a run makes itself, where its config names none."""

import pathlib
from collections.abc import Mapping
from typing import Protocol

from etils import epath
from ml_collections import ConfigDict

from vidcap_jax.distributed.mesh import is_main, wait_for_all
from vidcap_jax.errors import DataError
from vidcap_jax.program_name import as_typed


class Recipe(Protocol):
  """Makes a data set where the config names none, from clips that it renders itself."""

  def prepare(self, directory: epath.Path, streams: Mapping[str, str], videos: int) -> str:
    """Writes clips, captions and features below a folder; returns the data set's folder."""

  def clips(self, directory: epath.Path, split: str) -> list[pathlib.Path]:
    """The video files of a split."""

  def first_captions(self, directory: epath.Path) -> dict[str, str]:
    """A caption of each clip, by the name of its file."""


def prepare_data(config: ConfigDict, workdir: epath.Path, recipe: Recipe | None) -> str:
  """The data set's folder; the recipe makes it in WORKDIR/data where the config names none."""
  if config.data.dir:
    return config.data.dir
  videos = config.data.recipe.videos
  if not videos or not recipe:
    build = as_typed('python -m data_prep.build')
    raise DataError(f'no data: give --config.data.dir=DIR, a folder written by {build}')
  arguments = workdir / 'data', dict(config.data.recipe.streams), videos
  if is_main():
    recipe.prepare(*arguments)
  wait_for_all('data')
  return recipe.prepare(*arguments)  # finished already, so that it only returns the folder
