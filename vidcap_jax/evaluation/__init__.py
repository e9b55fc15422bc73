"""Scoring of captions, and the files that evaluation writes."""
