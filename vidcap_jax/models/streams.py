"""Selects the streams that a model reads, and makes its inputs of batches of stored features."""

from collections.abc import Mapping, Sequence

import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from vidcap_jax.data.batch import default_sizes, empty_batch
from vidcap_jax.data.schema import Manifest, Stream
from vidcap_jax.errors import DataError
from vidcap_jax.models.captioner import Inputs, Needs

DOCS = 'docs/models.md lists which settings read which kinds'


def select_streams(needs: Needs, streams: Sequence[Stream], where: str) -> tuple[Stream, ...]:
  """Selects the streams that a model needs from those of a data set or checkpoint.

  Args:
    needs: of the model.
    streams: those there are.
    where: the data set or checkpoint, for messages.

  Raises:
    DataError: a stream is missing or of another kind; names the stream, and what is there.
  """
  have = {stream.name: stream for stream in streams}
  for name, kinds in needs.streams.items():
    if name not in have:
      found = '; '.join(f'{s.name}: {s.kind} {s.axes}' for s in streams) or 'none'
      raise DataError(
        f'the model needs a stream {name!r} ({" or ".join(kinds)}); {where} has: {found}. '
        f'Name other streams in config.model or build the data set with this one; {DOCS}'
      )
    if have[name].kind not in kinds:
      raise DataError(
        f'the model needs stream {name!r} as {" or ".join(kinds)}; '
        f'in {where} it is {have[name].kind} {have[name].axes}; {DOCS}'
      )
  return tuple(have[name] for name in needs.streams)


def differences(trained: Stream, given: Stream) -> dict[str, tuple]:
  """The fields, known for both, in which two streams of one name differ: field -> both values."""
  fields = ('kind', 'channels', 'extractor', 'version', 'sampling')
  values = {field: (getattr(trained, field), getattr(given, field)) for field in fields}
  return {field: (a, b) for field, (a, b) in values.items() if a != b and None not in (a, b)}


def check_categories(needs: Needs, manifest: Manifest) -> None:
  """Raises DataError if the model's number of categories doesn't fit the data set's."""
  if needs.categories and not 0 < manifest.categories <= needs.categories:
    raise DataError(
      f'the model has {needs.categories} video categories (config.model.categories), the data set '
      f'{manifest.name!r} has {manifest.categories or "none"}; set that number, or 0 for a model '
      'without categories'
    )


def to_inputs(batch: Mapping, streams: Sequence[Stream], standardise: bool) -> Inputs:
  """Casts features to float32 and optionally standardises them by the training split's statistics.

  Streams without statistics (of a data set built without a training split) are not standardised.
  """
  features = {}
  for stream in streams:
    x = batch['features'][stream.name].astype(jnp.float32)
    if standardise and stream.mean:
      shape = (1,) * (x.ndim - 1) + (-1,)
      mean = np.asarray(stream.mean, np.float32).reshape(shape)
      std = np.asarray(stream.std, np.float32).reshape(shape)
      # Channels that are constant in training become zeros: divided by their deviation, rounding
      # errors would exceed all other channels.
      varies = std > 1e-6 * (1 + np.abs(mean))
      valid = batch['masks'][stream.name][..., None] & varies
      x = jnp.where(valid, (x - mean) / np.where(varies, std, 1), jnp.zeros_like(x))
    features[stream.name] = x
  masks = {stream.name: batch['masks'][stream.name] for stream in streams}
  return Inputs(features, masks, batch['category'], batch['key_frame'])


def stream_sizes(
  streams: Sequence[Stream], config: ConfigDict, needs: Needs
) -> dict[str, tuple[int, ...]]:
  """Static sizes of a batch, from ``data.max_frames`` and the longest video."""
  return default_sizes(streams, config.data.max_frames or None, needs.blocks)


def example_inputs(streams: Sequence[Stream], config: ConfigDict, needs: Needs):
  """Inputs of one video of padding, to initialise parameters with."""
  batch = empty_batch(streams, stream_sizes(streams, config, needs), 1, 1, 2)
  return to_inputs(batch, streams, config.data.standardise)
