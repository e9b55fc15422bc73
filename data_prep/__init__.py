"""Preparing data: videos, features and annotation files become a data set folder."""
