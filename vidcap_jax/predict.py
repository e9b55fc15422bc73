"""Captions for new videos."""
