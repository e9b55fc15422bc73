"""Reads every key of an LMDB store and both ends of every value: ``lmdb_walk.py PATH``.

It runs in its own process because pages are mapped into memory, where a damaged one can crash the
process. It imports nothing from this package, so it starts quickly.
"""

import pathlib
import sys

import lmdb


def main(path: str) -> None:
  folder = pathlib.Path(path).is_dir()
  store = lmdb.open(path, subdir=folder, readonly=True, lock=False, readahead=False)
  entries = store.stat()['entries']
  with store.begin(buffers=True) as transaction:
    count = 0
    for key, value in transaction.cursor():
      count += 1
      if count > entries:
        break
      bytes(key)
      bytes(value[:1]), bytes(value[-1:])
  if count != entries:
    sys.exit(f'{count} entries or more, its header says {entries}')


if __name__ == '__main__':
  main(sys.argv[1])
