"""Errors that a user can mend: the message says what is wrong, where, and what to do.

Commands print them without a traceback and exit with 1; anything else is a fault of the program.
"""


class UserError(ValueError):
  """Base of all of them."""


class ConfigError(UserError):
  """A setting that is unknown or does not fit."""


class DataError(UserError):
  """Bad input data: a file, an array or a caption that can't be used."""
