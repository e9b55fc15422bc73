"""Reads every key of an LMDB store and touches both ends of every value: ``lmdb_walk.py PATH``.

A program of its own because pages are mapped into memory, where a damaged one can end a process.
It imports nothing of this package, and so starts at once.
"""

import pathlib
import sys

import lmdb


def main(path: str) -> None:
  folder = pathlib.Path(path).is_dir()
  store = lmdb.open(path, subdir=folder, readonly=True, lock=False, readahead=False)
  entries = store.stat()['entries']
  with store.begin(buffers=True) as transaction:
    found = 0
    for key, value in transaction.cursor():
      found += 1
      if found > entries:
        break
      bytes(key)
      bytes(value[:1]), bytes(value[-1:])
  if found != entries:
    sys.exit(f'{found} entries or more, its header says {entries}')


if __name__ == '__main__':
  main(sys.argv[1])
