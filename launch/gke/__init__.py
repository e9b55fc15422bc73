"""Runs on Kubernetes, as JobSets: see docs/clusters.md."""
