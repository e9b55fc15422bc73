"""Runs on a Cloud TPU VM or pod slice through gcloud: creates it, installs, starts all workers.

  python -m launch.tpu_vm --name=cap --zone=us-west4-a --type=v5litepod-16 \\
      -- --config=configs/vatex_fusion.py --config.data.dir=/mnt/data/vatex --workdir=/mnt/runs/a

The steps, of which --steps selects some (separated by commas):

  create   creates the slice unless it exists, and recreates it if it was preempted
  copy     copies the files that git lists to all workers, unless the run is running there
  install  installs Python and the project there
  start    starts the command on all workers, unless it is running; the connection may end then
  logs     prints one worker's output until the run ends, and ends with its exit code
  stop     only if selected: saves a checkpoint and ends the run with 143
  delete   only if selected: deletes the slice

The same command resumes after a preemption, a failure or a lost connection; with --retries it does
so by itself. The data set and the workdir must be on a disk or bucket that all workers mount.
--dry_run prints the script that would be run.
"""

import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence

from launch import command
from vidcap_jax import command_errors

ROOT = pathlib.Path(__file__).resolve().parents[1]
STEPS = ('create', 'copy', 'install', 'start', 'logs', 'stop', 'delete')
DEFAULT_STEPS = STEPS[:5]
# The exit code of ssh when the connection or the slice is lost.
DISCONNECTED = 255
# Exit codes after which --retries restarts the run.
RESUMED = (command.PREEMPTED, command.LOST, command.ABORTED, DISCONNECTED)
# Runtime versions by TPU generation; v4 and older use DEFAULT_VERSION.
VERSIONS = {
  'v5litepod': 'v2-alpha-tpuv5-lite',
  'v5p': 'v2-alpha-tpuv5',
  'v6e': 'v2-alpha-tpuv6e',
}
DEFAULT_VERSION = 'tpu-ubuntu2204-base'


def script(
  steps: Sequence[str],
  arguments: Sequence[str],
  *,
  name: str,
  location: Sequence[str],
  options: Sequence[str],
  python: str,
  worker: int,
) -> str:
  """A bash script of the steps.

  Args:
    steps: some of ``STEPS``.
    arguments: for vidcap_jax.main.
    name: of the slice.
    location: flags of gcloud for the zone and project.
    options: flags of gcloud for creating the slice.
    python: version to install.
    worker: the one whose output is printed.
  """

  def gcloud(verb: str, *rest: str) -> str:
    return shlex.join(['gcloud', 'compute', 'tpus', 'tpu-vm', verb, *rest, *location])

  def on_workers(workers: str, *words: str) -> str:
    """Runs tpu_worker.sh; quoted once for the remote shell and once for the local one."""
    remote = shlex.join(['bash', 'vidcap_jax/launch/tpu_worker.sh', *words])
    return gcloud('ssh', name, f'--worker={workers}', f'--command={remote}')

  # The files of a running run stay as they are. The script exists only after a first copy.
  unpack = (
    'bash vidcap_jax/launch/tpu_worker.sh running 2>/dev/null || '
    '{ mkdir -p vidcap_jax && tar -xzf vidcap_jax.tar.gz -C vidcap_jax; }'
  )
  create = gcloud('create', name, *options)
  pieces = {
    'create': f"""\
state=$({gcloud('describe', name, '--format=value(state)')} 2>/dev/null || true)
case $state in
  READY) ;;
  STOPPED) {gcloud('start', name)} ;;
  PREEMPTED | TERMINATED) {gcloud('delete', name, '--quiet')} && {create} ;;
  '') {create} ;;
  *) echo {shlex.quote(name)} "is $state; try again later" >&2 && exit 1 ;;
esac""",
    'copy': f"""\
folder=$(mktemp -d)
git -C {shlex.quote(str(ROOT))} ls-files -coz --exclude-standard |
  tar -C {shlex.quote(str(ROOT))} --ignore-failed-read --null -T - -czf "$folder/vidcap_jax.tar.gz"
{gcloud('scp', '--worker=all')} "$folder/vidcap_jax.tar.gz" {shlex.quote(f'{name}:')}
rm -r "$folder"
{gcloud('ssh', name, '--worker=all', f'--command={unpack}')}""",
    'install': on_workers('all', 'install', python),
    'start': on_workers('all', 'start', *arguments),
    'logs': on_workers(str(worker), 'follow'),
    'stop': on_workers('all', 'stop'),
    'delete': gcloud('delete', name, '--quiet'),
  }
  lines = [f'# {step}\n{pieces[step]}' for step in STEPS if step in steps]
  return '\n'.join(['set -euo pipefail', *lines, ''])


@command_errors.exit_on_error()
def main(argv: Sequence[str] | None = None) -> int:
  """The launcher; returns its exit code."""
  parser = command.make_parser('launch.tpu_vm', __doc__)
  parser.add_argument('--name', required=True, help='of the slice')
  parser.add_argument('--zone', required=True, help='e.g. us-west4-a')
  parser.add_argument('--project', help="(default: gcloud's)")
  parser.add_argument(
    '--type', help='accelerator type, e.g. v5litepod-16; required by the step create'
  )
  parser.add_argument('--version', help='runtime version (default: by --type)')
  parser.add_argument(
    '--spot', action='store_true', help='use spot capacity, which may be preempted'
  )
  parser.add_argument(
    '--create', action='append', default=[], help='further flag for gcloud create; may be repeated'
  )
  parser.add_argument('--python', default='3.12', help='version to install (default: %(default)s)')
  parser.add_argument(
    '--worker', type=int, default=0, help='its output is printed (default: %(default)s)'
  )
  parser.add_argument('--steps', default=','.join(DEFAULT_STEPS), help='(default: %(default)s)')
  parser.add_argument(
    '--retries',
    type=int,
    default=0,
    help='limit for resuming after a stop or a loss (default: %(default)s)',
  )
  flags, arguments = command.parse(parser, argv)
  if not re.fullmatch('[a-z][a-z0-9-]*', flags.name):
    parser.error(
      f'--name={flags.name}: use lower-case letters, digits and -, and begin with a letter'
    )
  steps = flags.steps.split(',')
  if unknown := [step for step in steps if step not in STEPS]:
    parser.error(f'--steps: unknown {", ".join(unknown)}; known: {", ".join(STEPS)}')
  if 'create' in steps and not flags.type:
    parser.error('the step create needs --type, e.g. --type=v5litepod-16')
  if 'copy' in steps and not (ROOT / 'setup.py').is_file():
    parser.error('the step copy needs a clone of this project; run the launcher from one')
  if 'start' in steps:
    command.require(parser, arguments)
  version = flags.version or version_of(flags.type or '')
  options = [f'--accelerator-type={flags.type}', f'--version={version}']
  text = script(
    steps,
    arguments,
    name=flags.name,
    location=[f'--zone={flags.zone}', *([f'--project={flags.project}'] if flags.project else [])],
    options=[*options, *(['--spot'] if flags.spot else []), *flags.create],
    python=flags.python,
    worker=flags.worker,
  )
  if flags.dry_run:
    print(text, end='')
    return 0
  return run(text, flags.retries)


def run(text: str, retries: int) -> int:
  """Runs a script, again after a stop or a loss; returns its last exit code."""
  for retries_left in range(retries, -1, -1):
    code = subprocess.run(['bash', '-c', text], check=False).returncode
    if code not in RESUMED or not retries_left:
      return code
    print(f'ended with {code}; resuming ({retries_left} retries left)', file=sys.stderr)
  raise AssertionError('not reached')


def version_of(accelerator: str) -> str:
  """The runtime version of an accelerator type such as v5litepod-16."""
  return VERSIONS.get(accelerator.partition('-')[0], DEFAULT_VERSION)


if __name__ == '__main__':
  sys.exit(main())
