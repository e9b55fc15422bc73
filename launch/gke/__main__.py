"""Submits a run to a Kubernetes cluster with JobSet, on TPU slices or GPU nodes of GKE.

  python -m launch.gke --name=cap --image=REGISTRY/vidcap_jax:tpu --claim=vatex \\
      --tpu=tpu-v5-lite-podslice --topology=4x4 --hosts=4 --chips_per_host=4 \\
      -- --config=configs/vatex_fusion.py --config.data.dir=/data/vatex --workdir=/data/runs/a
  python -m launch.gke --name=cap --image=REGISTRY/vidcap_jax:gpu --claim=vatex \\
      --gpu=nvidia-h100-80gb --hosts=2 --chips_per_host=8 -- …

It renders a JobSet, checks it (extra 'launch') and gives it to `kubectl apply`; --dry_run prints it
instead. A run that is preempted, evicted or told to stop, or that lost a node, is started again as
often as it takes, one that fails --restarts times; it goes on from its last checkpoint. To resume
after that, delete the JobSet and give the same command: kubectl delete jobset NAME. The data set
and the workdir are on the claim, which all pods mount: its access mode must be ReadWriteMany.
"""

import math
import subprocess
import sys
from collections.abc import Sequence

from launch import command
from launch.gke import jobset


def main(argv: Sequence[str] | None = None) -> int:
  """The launcher; returns its exit code."""
  made = command.parser('launch.gke', __doc__)
  made.add_argument('--name', required=True, help='of the run')
  made.add_argument('--image', required=True, help='made from launch/docker/')
  made.add_argument('--claim', required=True, help='PersistentVolumeClaim mounted at /data')
  made.add_argument('--namespace', default='default', help='(default: %(default)s)')
  kind = made.add_mutually_exclusive_group(required=True)
  kind.add_argument('--tpu', help='value of cloud.google.com/gke-tpu-accelerator')
  kind.add_argument('--gpu', help='value of cloud.google.com/gke-accelerator')
  made.add_argument('--topology', help='of a TPU slice, e.g. 4x4')
  made.add_argument('--hosts', type=int, default=1, help='of a slice, or GPU nodes (default: 1)')
  made.add_argument('--slices', type=int, default=1, help='of TPUs (default: %(default)s)')
  made.add_argument('--chips_per_host', type=int, required=True, help='TPU chips or GPUs')
  made.add_argument('--restarts', type=int, default=3, help='after failures (default: %(default)s)')
  made.add_argument('--spot', action='store_true', help='on spot nodes')
  flags, arguments = command.parse(made, argv)
  command.require(made, arguments)
  for name in ('name', 'image', 'claim', 'namespace', 'tpu', 'gpu', 'topology'):
    if getattr(flags, name) == '':
      made.error(f'--{name}= is empty')
  if bool(flags.tpu) != bool(flags.topology):
    made.error('--topology goes with --tpu, e.g. --tpu=tpu-v5-lite-podslice --topology=4x4')
  if flags.gpu and flags.slices != 1:
    made.error('--slices are of TPUs; of GPU nodes there are --hosts')
  if min(flags.hosts, flags.slices, flags.chips_per_host) < 1:
    made.error('--hosts, --slices and --chips_per_host are 1 or more')
  if flags.topology:
    try:
      chips = math.prod(int(side) for side in flags.topology.split('x'))
    except ValueError:
      made.error(f'--topology={flags.topology}: not of the form 4x4 or 2x2x4')
    if chips != flags.hosts * flags.chips_per_host:
      made.error(
        f'--topology={flags.topology} has {chips} chips, but --hosts={flags.hosts} with '
        f'--chips_per_host={flags.chips_per_host} have {flags.hosts * flags.chips_per_host}'
      )
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
  whole = jobset.render(
    pod,
    name=flags.name,
    namespace=flags.namespace,
    hosts=flags.hosts,
    slices=flags.slices,
    restarts=flags.restarts,
  )
  try:
    jobset.check(whole)
  except jobset.Invalid as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  text = jobset.to_yaml(whole)
  words = ['kubectl', 'apply', '-f', '-']
  if flags.dry_run:
    print(f"{command.shell(words)} <<'EOF'\n{text}EOF")
    return 0
  try:
    return subprocess.run(words, input=text, text=True, check=False).returncode
  except FileNotFoundError:
    print('error: there is no kubectl here; with --dry_run the JobSet is printed', file=sys.stderr)
    return 1


if __name__ == '__main__':
  sys.exit(main())
