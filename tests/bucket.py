"""An in-memory object store behind gs://, for the text files of a run."""

from fsspec.implementations.memory import MemoryFileSystem


class Bucket(MemoryFileSystem):
  """Like the real store, it cannot append to objects."""

  cachable = False
  protocol = ('gs',)

  def __init__(self):
    super().__init__()
    self.store, self.pseudo_dirs = {}, ['']

  @classmethod
  def _strip_protocol(cls, path):
    return super()._strip_protocol(str(path).removeprefix('gs://'))

  def _open(self, path, mode='rb', **options):
    assert 'a' not in mode, f'{path}: objects cannot be appended to'
    return super()._open(path, mode, **options)

  def names(self) -> list[str]:
    return sorted(self.store)
