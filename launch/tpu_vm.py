"""A run on a Cloud TPU VM or pod slice, by gcloud: makes it, installs, starts on all workers.

  python -m launch.tpu_vm --name=cap --zone=us-west4-a --type=v5litepod-16 \\
      -- --config=configs/vatex_fusion.py --config.data.dir=/mnt/data/vatex --workdir=/mnt/runs/a

It takes these steps, or those that --steps names, with commas between:

  create   the slice; one of that name is used if it is there, and made anew if it was preempted
  copy     this project's files, as git lists them, to all workers where it is not running
  install  Python and the project there
  start    the command on all workers, unless it is running; it needs the connection no longer
  logs     shows one worker's output until the run ends, and ends with its exit code
  stop     not by itself: the run saves and ends, with 143
  delete   not by itself: gives the slice back

The same command resumes: after a preemption, a failure, or when you only lost the connection; with
--retries it does so by itself. The data set and the workdir must be where all workers find them, on
a disk or bucket that is mounted. --dry_run prints the very script that would be run.
"""

import pathlib
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence

from launch import command

ROOT = pathlib.Path(__file__).resolve().parents[1]
STEPS = ('create', 'copy', 'install', 'start', 'logs', 'stop', 'delete')
USUAL = STEPS[:5]
# ssh's exit code when the connection, or the slice, is lost.
DISCONNECTED = 255
# Exit codes after which --retries start the run again.
RESUMED = (command.PREEMPTED, command.LOST, command.ABORTED, DISCONNECTED)
# Runtime versions by generation; v4 and older have another.
VERSIONS = {
  'v5litepod': 'v2-alpha-tpuv5-lite',
  'v5p': 'v2-alpha-tpuv5',
  'v6e': 'v2-alpha-tpuv6e',
}


def script(
  steps: Sequence[str],
  arguments: Sequence[str],
  *,
  name: str,
  where: Sequence[str],
  new: Sequence[str],
  python: str,
  worker: int,
) -> str:
  """Steps as one bash script.

  Args:
    steps: some of ``STEPS``.
    arguments: of vidcap_jax.main.
    name: of the slice.
    where: gcloud's flags that say where it is.
    new: gcloud's flags that say what to make.
    python: version to install.
    worker: whose output is shown.
  """

  def gcloud(verb: str, *rest: str) -> str:
    return shlex.join(['gcloud', 'compute', 'tpus', 'tpu-vm', verb, *rest, *where])

  def on(workers: str, *words: str) -> str:
    """A command of tpu_worker.sh: quoted once for the shell there, and once for the one here."""
    there = shlex.join(['bash', 'vidcap_jax/launch/tpu_worker.sh', *words])
    return gcloud('ssh', name, f'--worker={workers}', f'--command={there}')

  # Nothing is changed under a run: the script is there only if it was copied before.
  unpack = (
    'bash vidcap_jax/launch/tpu_worker.sh running 2>/dev/null || '
    '{ mkdir -p vidcap_jax && tar -xzf vidcap_jax.tar.gz -C vidcap_jax; }'
  )
  pieces = {
    'create': f"""\
state=$({gcloud('describe', name, '--format=value(state)')} 2>/dev/null || true)
case $state in
  READY) ;;
  STOPPED) {gcloud('start', name)} ;;
  PREEMPTED | TERMINATED) {gcloud('delete', name, '--quiet')} && {gcloud('create', name, *new)} ;;
  '') {gcloud('create', name, *new)} ;;
  *) echo {shlex.quote(name)} "is $state: try again later" >&2 && exit 1 ;;
esac""",
    'copy': f"""\
folder=$(mktemp -d)
git -C {shlex.quote(str(ROOT))} ls-files -coz --exclude-standard |
  tar -C {shlex.quote(str(ROOT))} --ignore-failed-read --null -T - -czf "$folder/vidcap_jax.tar.gz"
{gcloud('scp', '--worker=all')} "$folder/vidcap_jax.tar.gz" {shlex.quote(f'{name}:')}
rm -r "$folder"
{gcloud('ssh', name, '--worker=all', f'--command={unpack}')}""",
    'install': on('all', 'install', python),
    'start': on('all', 'start', *arguments),
    'logs': on(str(worker), 'follow'),
    'stop': on('all', 'stop'),
    'delete': gcloud('delete', name, '--quiet'),
  }
  lines = [f'# {step}\n{pieces[step]}' for step in STEPS if step in steps]
  return '\n'.join(['set -euo pipefail', *lines, ''])


def main(argv: Sequence[str] | None = None) -> int:
  """The launcher; returns its exit code."""
  made = command.parser('launch.tpu_vm', __doc__)
  made.add_argument('--name', required=True, help='of the slice')
  made.add_argument('--zone', required=True, help='e.g. us-west4-a')
  made.add_argument('--project', help="(default: gcloud's)")
  made.add_argument('--type', help='accelerator type, e.g. v5litepod-16; needed to create')
  made.add_argument('--version', help='runtime version (default: the usual one of the type)')
  made.add_argument('--spot', action='store_true', help='cheaper, and may be preempted')
  made.add_argument('--create', action='append', default=[], help='a further flag for creating')
  made.add_argument('--python', default='3.12', help='to install (default: %(default)s)')
  made.add_argument('--worker', type=int, default=0, help='whose output (default: %(default)s)')
  made.add_argument('--steps', default=','.join(USUAL), help='(default: %(default)s)')
  made.add_argument(
    '--retries',
    type=int,
    default=0,
    help='times to resume when stopped or lost (default: %(default)s)',
  )
  flags, arguments = command.parse(made, argv)
  if not re.fullmatch('[a-z][a-z0-9-]*', flags.name):
    made.error(f'--name={flags.name}: small letters, digits and -, a letter first')
  steps = flags.steps.split(',')
  if unknown := [step for step in steps if step not in STEPS]:
    made.error(f'--steps: unknown {", ".join(unknown)}; known: {", ".join(STEPS)}')
  if 'create' in steps and not flags.type:
    made.error('--type is needed to create a slice, e.g. --type=v5litepod-16')
  if 'start' in steps:
    command.require(made, arguments)
  version = flags.version or version_of(flags.type or '')
  new = [f'--accelerator-type={flags.type}', f'--version={version}']
  made_of = script(
    steps,
    arguments,
    name=flags.name,
    where=[f'--zone={flags.zone}', *([f'--project={flags.project}'] if flags.project else [])],
    new=[*new, *(['--spot'] if flags.spot else []), *flags.create],
    python=flags.python,
    worker=flags.worker,
  )
  if flags.dry_run:
    print(made_of, end='')
    return 0
  return run(made_of, flags.retries)


def run(text: str, retries: int) -> int:
  """Runs a script, again after a stop, a lost process or connection; returns its exit code."""
  for left in range(retries, -1, -1):
    code = subprocess.run(['bash', '-c', text], check=False).returncode
    if code not in RESUMED or not left:
      return code
    print(f'ended with {code}: resuming, {left} more times at most', file=sys.stderr)
  raise AssertionError('not reached')


def version_of(accelerator: str) -> str:
  """The runtime version of an accelerator type such as v5litepod-16."""
  return VERSIONS.get(accelerator.partition('-')[0], 'tpu-ubuntu2204-base')


if __name__ == '__main__':
  sys.exit(main())
