"""Imports checkpoints of PyTorch projects: a module a project, whose tables map parameters."""
