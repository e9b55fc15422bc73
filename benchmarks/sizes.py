"""The number of parameters and the cost of a training step, for every config, variant and stage.

  python -m benchmarks.sizes
  python -m benchmarks.sizes --config=configs/vatex_fusion.py:spatial
  python -m benchmarks.sizes --write=docs/models.md

Nothing is trained and no data set is read: shapes come from STREAMS and VOCABULARY of the config
file. The cost is that of a whole step with gradients and update, divided by the captions of a batch
at full length: XLA's count before fusion, with loop bodies counted as often as they run. Bytes are
therefore those that each operation would read and write on its own.
"""

import argparse
import dataclasses
import math
import pathlib
import sys
from collections.abc import Iterator, Sequence

import jax
from ml_collections import ConfigDict

import configs
from benchmarks import Row, add_json, write
from vidcap_jax import command_errors, config_files
from vidcap_jax.compilation import data_sizes
from vidcap_jax.compilation.abstract_stage import make_stage
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.studies import markdown
from vidcap_jax.training.cost import Cost, cost_of_traced
from vidcap_jax.training.experiment import stage_config
from vidcap_jax.training.programs import SplitSizes
from vidcap_jax.variants import each_variant, read_variant

BEGIN, END = '<!-- sizes: python -m benchmarks.sizes --write -->', '<!-- sizes end -->'
_STEPS = 1000  # of a stage; the cost of a step does not depend on it


@dataclasses.dataclass(frozen=True)
class Size:
  """The size of some stages of a config.

  Attributes:
    config: FILE or FILE:VARIANT.
    stages: of this size.
    parameters: that are trained.
    captions: of a step.
    per_caption: cost of a step divided by its captions.
  """

  config: str
  stages: tuple[str, ...]
  parameters: int
  captions: int
  per_caption: Cost


def sizes(config: str) -> Iterator[Size]:
  """The sizes of the training stages of a config; stages of equal size are combined.

  Args:
    config: as for ``--config``: FILE or FILE:VARIANT.

  Raises:
    UserError: no such file, one that lacks STREAMS or another definition, an unknown variant, or
      STREAMS without what the model needs.
  """
  path, _, variant = config.partition(':')
  config_of_run = config_files.load(path).get_config(variant)
  stages_by_size: dict[tuple, list[str]] = {}
  for stage in config_of_run.order:
    settings = stage_config(config_of_run, stage)
    # Self-critical training has the parameters of the stage that it starts from, and its cost
    # depends on the lengths of the samples.
    if settings.get('task', 'train') == 'train' and settings.objective.name != 'self_critical':
      size = _stage_size(settings, config)
      stages_by_size.setdefault(size, []).append(stage)
  for size, stages in stages_by_size.items():
    yield Size(config, tuple(stages), *size)


def _stage_size(config: ConfigDict, source: str) -> tuple[int, int, Cost]:
  """The number of parameters, the captions of a step, and its cost per caption."""
  rows, captions = config.train.batch_size, config.data.captions_per_video
  split = SplitSizes(rows, captions, _STEPS, _STEPS)
  data = dataclasses.replace(data_sizes.from_config_file(source, config), split=split)
  mesh = make_mesh(devices=jax.devices()[:1])
  stage = make_stage(config, data, mesh)
  parameters = sum(math.prod(x.shape) for x in jax.tree.leaves(stage.state.params))
  # Arrays without shardings: with them, a few operations that move nothing would be counted.
  arguments = jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), stage.step_arguments(stage.shape.length)
  )
  traced = stage.programs.train_step.trace(*arguments)
  cost = cost_of_traced(traced)
  return parameters, rows * captions, cost * (1 / (rows * captions))


def every_config(folder: str) -> list[str]:
  """All configs of a folder with all their variants."""
  paths = [f'{folder}/{name}' for name in configs.files()]
  return [config for path in paths for config in variants(path)]


def variants(path: str) -> list[str]:
  """FILE and FILE:VARIANT for each variant that differs from a data set's default in one part."""
  known = config_files.load(path).VARIANTS
  return [f'{path}:{v}' if v else path for v in each_variant(**known)]


def table(rows: Sequence[tuple[str, ...]]) -> str:
  """Rows of ``cells`` as an aligned Markdown table."""
  head = ('config', 'stage', 'parameters', 'GFLOP a caption', 'MB a caption')
  return markdown.table([head, *rows], left=(0, 1))


def cells(size: Size) -> tuple[str, ...]:
  """The cells of a row of the table."""
  flops, megabytes = size.per_caption.flops / 1e9, size.per_caption.bytes / 1e6
  name = size.config.removeprefix('configs/')
  return (
    name,
    ', '.join(size.stages),
    f'{size.parameters:,}',
    f'{flops:,.3f}',
    f'{megabytes:,.0f}',
  )


def update_page(text: str, measured: Sequence[tuple[str, ...]], listed: Sequence[str]) -> str:
  """Replaces the rows of the measured configs in the table between the page's two marks.

  Args:
    text: the page.
    measured: rows of ``cells``.
    listed: all configs in the order of the table; rows of other configs are removed.

  Raises:
    UserError: the page lacks the marks.
  """
  before, block, after = markdown.split_page(text, BEGIN, END)
  names = [config.removeprefix('configs/') for config in listed]
  replaced = {row[0] for row in measured}
  lines = [line for line in block.splitlines() if line.startswith('|')][2:]
  old = [tuple(cell.strip() for cell in line.strip('|').split('|')) for line in lines]
  rows = [row for row in old if row[0] in names and row[0] not in replaced] + list(measured)
  place = {name: i for i, name in enumerate(names)}
  block = table(sorted(rows, key=lambda row: place.get(row[0], len(place))))  # stages in order
  return f'{before}{BEGIN}\n\n{block}\n\n{END}{after}'


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.sizes',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument(
    '--config', metavar='FILE[:VARIANT]', help='one config; without VARIANT all of its variants'
  )
  add_json(parser)
  parser.add_argument('--write', metavar='PAGE', help='update the rows of the table in this page')
  options = parser.parse_args(arguments)
  chosen = _chosen(options.config)
  found = []
  for number, config in enumerate(chosen, 1):
    print(f'{number} of {len(chosen)}: {config}', file=sys.stderr, flush=True)
    found += sizes(config)
  rows = [cells(size) for size in found]
  print(table(rows))
  if options.write:
    page = pathlib.Path(options.write)
    page.write_text(update_page(page.read_text(), rows, every_config('configs')))
  if options.json:
    write([row for size in found for row in _rows(size)], options.json)


def _chosen(config: str | None) -> list[str]:
  if config is None:
    return every_config('configs')
  source = config_files.current_source(config)
  if ':' in config:
    return [source]
  path, _, renamed_part = source.partition(':')
  if not renamed_part:
    return variants(path)
  # An earlier name of one data set's config.
  known = config_files.load(path).VARIANTS
  data_set = read_variant(renamed_part, **known)['data']
  each = ((v, v.partition(':')[2]) for v in variants(path))
  return [config for config, variant in each if read_variant(variant, **known)['data'] == data_set]


def _rows(size: Size) -> list[Row]:
  name = f'{size.config} {",".join(size.stages)}'
  return [
    Row(f'{name} parameters', size.parameters),
    Row(f'{name} step', size.per_caption.flops / 1e9, 'GFLOP/caption'),
    Row(f'{name} step', size.per_caption.bytes / 1e6, 'MB/caption'),
  ]


if __name__ == '__main__':
  main()
