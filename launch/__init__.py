"""Starting a run on one machine, TPU VMs, Slurm or Kubernetes: see docs/clusters.md."""
