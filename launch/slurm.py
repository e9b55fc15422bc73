"""Submits a run to Slurm, with one process on each node that uses all of the node's GPUs.

  python -m launch.slurm --nodes=2 --gpus_per_node=8 --time=24:00:00 --setup=env.sh \\
      -- --config=configs/vatex_fusion.py --config.data.dir=/data/vatex --workdir=/scratch/vatex

The job is requeued when it is preempted, reaches its time limit or loses a process, at most
--restarts times, and resumes from its last checkpoint; to resume after that, or after a failure,
give the same command again. The job runs in the folder where it is submitted. That folder, /scratch
and /data must be the same on all nodes. --sbatch passes a further option to sbatch and may be
repeated: --sbatch=--partition=gpu --sbatch=--account=me.
"""

import pathlib
import re
import subprocess
import sys
from collections.abc import Sequence

from launch import command
from vidcap_jax import command_errors

BATCH_SCRIPT = pathlib.Path(__file__).resolve().with_name('slurm.sbatch')
# The forms that sbatch takes: M, M:S, H:M:S, D-H, D-H:M and D-H:M:S.
TIME = r'(\d+-\d+(:\d+){0,2}|\d+(:\d+){0,2})'


def submission(
  arguments: Sequence[str],
  *,
  nodes: int,
  gpus_per_node: int,
  cpus_per_node: int,
  time: str,
  log: str,
  setup: str,
  restarts: int,
  options: Sequence[str] = (),
) -> list[str]:
  """The sbatch command; the arguments reach vidcap_jax.main as they are, without a shell."""
  return [
    'sbatch',
    f'--nodes={nodes}',
    f'--gpus-per-node={gpus_per_node}',
    f'--cpus-per-task={cpus_per_node}',
    f'--time={time}',
    f'--output={log}',
    f'--chdir={pathlib.Path.cwd()}',
    *options,
    str(BATCH_SCRIPT),
    setup,
    str(restarts),
    *arguments,
  ]


@command_errors.exit_on_error()
def main(argv: Sequence[str] | None = None) -> int:
  """The launcher; returns its exit code."""
  parser = command.make_parser('launch.slurm', __doc__)
  parser.add_argument('--nodes', type=int, default=1, help='(default: %(default)s)')
  parser.add_argument('--gpus_per_node', type=int, default=8, help='(default: %(default)s)')
  parser.add_argument('--cpus_per_node', type=int, default=16, help='(default: %(default)s)')
  parser.add_argument(
    '--time', default='24:00:00', help='time limit between restarts (default: %(default)s)'
  )
  parser.add_argument('--log', default='slurm-%j.out', help='output file (default: slurm-%%j.out)')
  parser.add_argument(
    '--setup', default='', help='shell file that is sourced first, e.g. to load modules'
  )
  parser.add_argument('--restarts', type=int, default=100, help='limit (default: %(default)s)')
  parser.add_argument('--sbatch', action='append', default=[], help='further option for sbatch')
  flags, arguments = command.parse(parser, argv)
  command.require(parser, arguments)
  for name in ('nodes', 'gpus_per_node', 'cpus_per_node'):
    if getattr(flags, name) < 1:
      parser.error(f'--{name}={getattr(flags, name)}: must be at least 1')
  if flags.restarts < 0:
    parser.error(f'--restarts={flags.restarts}: must be at least 0')
  if not re.fullmatch(TIME, flags.time):
    parser.error(
      f'--time={flags.time}: give MINUTES, HOURS:MINUTES:SECONDS or DAYS-HOURS, as sbatch reads it'
    )
  for option in flags.sbatch:
    if not option.startswith('-'):
      parser.error(f'--sbatch={option}: give an option, e.g. --sbatch=--partition=gpu')
  if flags.setup and not pathlib.Path(flags.setup).is_file():
    parser.error(f'--setup={flags.setup}: no such file')
  words = submission(
    arguments,
    nodes=flags.nodes,
    gpus_per_node=flags.gpus_per_node,
    cpus_per_node=flags.cpus_per_node,
    time=flags.time,
    log=flags.log,
    setup=str(pathlib.Path(flags.setup).resolve()) if flags.setup else '',
    restarts=flags.restarts,
    options=flags.sbatch,
  )
  if flags.dry_run:
    print(command.shell(words))
    return 0
  try:
    return subprocess.run(words, check=False).returncode
  except FileNotFoundError:
    print(
      'error: sbatch is not installed; run this on a login node of the cluster', file=sys.stderr
    )
    return 1


if __name__ == '__main__':
  sys.exit(main())
