"""Errors that the user can fix: the message says what is wrong, where, and what to do.

Commands print them without a traceback and exit with code 1; other exceptions are bugs.
"""


class UserError(ValueError):
  """Base class of these errors."""


class ConfigError(UserError):
  """A setting that is unknown or does not fit."""


class DataError(UserError):
  """Bad input data: a file, an array or a caption that can't be used."""


class VideoError(UserError):
  """A video without a single frame; the message names the file and the reason."""
