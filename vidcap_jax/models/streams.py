"""From a batch of stored features to a model's inputs; which streams a model reads."""

from collections.abc import Mapping, Sequence

import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from vidcap_jax.data.batch import default_sizes, empty_batch
from vidcap_jax.data.schema import Manifest, Stream
from vidcap_jax.errors import DataError
from vidcap_jax.models.captioner import Inputs, Needs

READ = 'docs/models.md says which settings read which kinds'


def select_streams(needs: Needs, streams: Sequence[Stream], where: str) -> tuple[Stream, ...]:
  """The streams that a model needs, of those a data set or checkpoint has.

  Raises:
    DataError: a stream is missing or of another kind; names stream, found and needed.
  """
  have = {stream.name: stream for stream in streams}
  for name, kinds in needs.streams.items():
    if name not in have:
      found = '; '.join(f'{s.name}: {s.kind} {s.axes}' for s in streams) or 'none'
      raise DataError(
        f'the model needs a stream {name!r} ({" or ".join(kinds)}); {where} has: {found}. '
        f'Name other streams in config.model or build the data set with this one; {READ}'
      )
    if have[name].kind not in kinds:
      raise DataError(
        f'the model needs stream {name!r} as {" or ".join(kinds)}; '
        f'in {where} it is {have[name].kind} {have[name].axes}; {READ}'
      )
  return tuple(have[name] for name in needs.streams)


def differences(trained: Stream, given: Stream) -> dict[str, tuple]:
  """In what two streams of one name differ, as far as both are known: field -> both values."""
  fields = ('kind', 'channels', 'extractor', 'version', 'sampling')
  values = {field: (getattr(trained, field), getattr(given, field)) for field in fields}
  return {field: (a, b) for field, (a, b) in values.items() if a != b and None not in (a, b)}


def check_categories(needs: Needs, manifest: Manifest) -> None:
  """DataError if the model tells categories apart that the data set does not have as many of."""
  if needs.categories and not 0 < manifest.categories <= needs.categories:
    have = (
      f'{manifest.categories} categories' if manifest.categories else 'no category of any video'
    )
    raise DataError(
      f'the model tells {needs.categories} categories apart (config.model.categories); the data '
      f'set {manifest.name!r} has {have}. Set the number, or 0 for a model without'
    )


def to_inputs(batch: Mapping, streams: Sequence[Stream], standardise: bool) -> Inputs:
  """Casts features to float32 and, if asked, standardises them by the training split's statistics.

  Streams without statistics (a data set built without a training split) stay as they are.
  """
  features = {}
  for stream in streams:
    x = batch['features'][stream.name].astype(jnp.float32)
    if standardise and stream.mean:
      shape = (1,) * (x.ndim - 1) + (-1,)
      mean = np.asarray(stream.mean, np.float32).reshape(shape)
      std = np.asarray(stream.std, np.float32).reshape(shape)
      # A channel that is constant in training carries nothing. Divided by its deviation, the least
      # change or rounding error would swamp all others, so it becomes zeros.
      varies = std > 1e-6 * (1 + np.abs(mean))
      kept = batch['masks'][stream.name][..., None] & varies
      x = jnp.where(kept, (x - mean) / np.where(varies, std, 1), jnp.zeros_like(x))
    features[stream.name] = x
  masks = {stream.name: batch['masks'][stream.name] for stream in streams}
  return Inputs(features, masks, batch['category'], batch['key_frame'])


def stream_sizes(
  streams: Sequence[Stream], config: ConfigDict, needs: Needs
) -> dict[str, tuple[int, ...]]:
  """Static sizes of a batch, from the config's limit and the longest video."""
  return default_sizes(streams, config.data.max_frames or None, needs.blocks)


def example_inputs(streams: Sequence[Stream], config: ConfigDict, needs: Needs):
  """Inputs of one all-padding video: shapes for initialising parameters."""
  batch = empty_batch(streams, stream_sizes(streams, config, needs), 1, 1, 2)
  return to_inputs(batch, streams, config.data.standardise)
