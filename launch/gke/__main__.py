"""Submits a run to a Kubernetes cluster with JobSet, on TPU slices or GPU nodes of GKE.

  python -m launch.gke --name=cap --image=REGISTRY/vidcap_jax:tpu --claim=vatex \\
      --tpu=tpu-v5-lite-podslice --topology=4x4 --hosts=4 --chips_per_host=4 \\
      -- --config=configs/vatex_fusion.py --config.data.dir=/data/vatex --workdir=/data/runs/a
  python -m launch.gke --name=cap --image=REGISTRY/vidcap_jax:gpu --claim=vatex \\
      --gpu=nvidia-h100-80gb --hosts=2 --chips_per_host=8 -- …

It writes a JobSet, checks it (needs the extra 'launch') and passes it to `kubectl apply`; --dry_run
prints it instead. A run that is preempted, evicted, stopped or that lost a node is restarted
without limit, a run that fails --restarts times; it resumes from its last checkpoint. To resume
after that, delete the JobSet (kubectl delete jobset NAME) and give the same command. The claim
holds data set and workdir and is mounted by all pods: its access mode must be ReadWriteMany.
"""

import argparse
import math
import subprocess
import sys
from collections.abc import Sequence

from launch import command
from launch.gke import jobset
from vidcap_jax import command_errors


@command_errors.exit_on_error()
def main(argv: Sequence[str] | None = None) -> int:
  """The launcher; returns its exit code."""
  parser = make_parser()
  flags, arguments = command.parse(parser, argv)
  command.require(parser, arguments)
  if problem := find_problem(flags):
    parser.error(problem)
  pod = jobset.Pod(
    image=flags.image,
    arguments=tuple(arguments),
    claim=flags.claim,
    chips=flags.chips_per_host,
    spot=flags.spot,
    tpu=flags.tpu,
    topology=flags.topology,
    gpu=flags.gpu,
  )
  manifest = jobset.render(
    pod,
    name=flags.name,
    namespace=flags.namespace,
    hosts=flags.hosts,
    slices=flags.slices,
    restarts=flags.restarts,
  )
  try:
    jobset.check(manifest)
  except jobset.InvalidJobSet as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  text = jobset.to_yaml(manifest)
  words = ['kubectl', 'apply', '-f', '-']
  if flags.dry_run:
    print(f"{command.shell(words)} <<'EOF'\n{text}EOF")
    return 0
  try:
    return subprocess.run(words, input=text, text=True, check=False).returncode
  except FileNotFoundError:
    print('error: kubectl is not installed; --dry_run prints the JobSet', file=sys.stderr)
    return 1


def make_parser() -> argparse.ArgumentParser:
  """The launcher's own flags."""
  parser = command.make_parser('launch.gke', __doc__)
  add = parser.add_argument
  add('--name', required=True, help='of the run')
  add('--image', required=True, help='container image, built from launch/docker/')
  add('--claim', required=True, help='PersistentVolumeClaim that is mounted at /data')
  add('--namespace', default='default', help='(default: %(default)s)')
  accelerator = parser.add_mutually_exclusive_group(required=True)
  accelerator.add_argument('--tpu', help='value of cloud.google.com/gke-tpu-accelerator')
  accelerator.add_argument('--gpu', help='value of cloud.google.com/gke-accelerator')
  add('--topology', help='of a TPU slice, e.g. 4x4')
  add('--hosts', type=int, default=1, help='hosts of a slice, or GPU nodes (default: 1)')
  add('--slices', type=int, default=1, help='number of TPU slices (default: %(default)s)')
  add('--chips_per_host', type=int, required=True, help='TPU chips or GPUs of a host')
  add('--restarts', type=int, default=3, help='limit after failures (default: %(default)s)')
  add('--spot', action='store_true', help='use spot nodes')
  return parser


def find_problem(flags: argparse.Namespace) -> str | None:
  """An error message if flags are empty or contradict each other."""
  for name in ('name', 'image', 'claim', 'namespace', 'tpu', 'gpu', 'topology'):
    if getattr(flags, name) == '':
      return f'--{name}= is empty'
  if bool(flags.tpu) != bool(flags.topology):
    return '--topology and --tpu go together, e.g. --tpu=tpu-v5-lite-podslice --topology=4x4'
  if flags.gpu and flags.slices != 1:
    return '--slices is for --tpu; give the number of GPU nodes as --hosts'
  if min(flags.hosts, flags.slices, flags.chips_per_host) < 1:
    return '--hosts, --slices and --chips_per_host must be at least 1'
  if not flags.topology:
    return None
  try:
    chips = math.prod(int(side) for side in flags.topology.split('x'))
  except ValueError:
    return f'--topology={flags.topology}: not of the form 4x4 or 2x2x4'
  if chips != flags.hosts * flags.chips_per_host:
    return (
      f'--topology={flags.topology} has {chips} chips, but --hosts={flags.hosts} with '
      f'--chips_per_host={flags.chips_per_host} have {flags.hosts * flags.chips_per_host}'
    )
  return None


if __name__ == '__main__':
  sys.exit(main())
