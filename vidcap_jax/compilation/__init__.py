"""Compiles a run's programs for devices that are not there, and reports what they need."""
