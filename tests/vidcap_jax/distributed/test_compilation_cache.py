"""Where compiled programs are kept."""

import os
import zlib

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache import compilation_cache as jax_cache

from vidcap_jax.distributed import compilation_cache
from vidcap_jax.errors import ConfigError

NAMES = ('jax_compilation_cache_dir', 'jax_persistent_cache_min_compile_time_secs')


@pytest.fixture(autouse=True)
def user_cache(monkeypatch, tmp_path):
  """No folder is set, and the user's cache folder is the test's; JAX's settings are put back."""
  before = {name: getattr(jax.config, name) for name in NAMES}
  jax.config.update('jax_compilation_cache_dir', None)
  monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
  yield tmp_path
  for name, value in before.items():
    jax.config.update(name, value)
  jax_cache.reset_cache()


def test_by_default_programs_are_kept_in_the_users_cache_and_read_back(user_cache, monkeypatch):
  monkeypatch.delenv('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS')
  compilation_cache.use('auto')
  assert jax.config.jax_persistent_cache_min_compile_time_secs == 0.3
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)
  jax_cache.reset_cache()
  events: list[str] = []
  jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
  found = []
  for _ in range(2):  # a new function object, as in a new process
    found.append(float(jax.jit(lambda x: jnp.sin(x) @ x)(jnp.arange(7.0))))
  assert found[0] == found[1]
  folder = user_cache / 'vidcap_jax' / 'programs'
  assert folder.stat().st_mode & 0o777 == 0o700
  assert [path.name for path in folder.iterdir() if path.name.startswith('jit__lambda')]
  assert '/jax/compilation_cache/cache_hits' in events


def test_the_home_folder_without_xdg(monkeypatch):
  monkeypatch.delenv('XDG_CACHE_HOME')
  monkeypatch.setenv('HOME', '/home/somebody')
  assert str(compilation_cache.default_folder()) == '/home/somebody/.cache/vidcap_jax/programs'


def test_a_folder_set_for_jax_is_kept(user_cache):
  jax.config.update('jax_compilation_cache_dir', 'elsewhere')
  for setting in ('auto', ''):
    compilation_cache.use(setting)
    assert jax.config.jax_compilation_cache_dir == 'elsewhere'
  assert list(user_cache.iterdir()) == []


def test_off(user_cache):
  compilation_cache.use('')
  assert not jax.config.jax_compilation_cache_dir
  assert list(user_cache.iterdir()) == []


def test_a_named_folder_is_made(user_cache):
  compilation_cache.use(str(user_cache / 'a' / 'b'))
  assert jax.config.jax_compilation_cache_dir == str(user_cache / 'a' / 'b')
  assert (user_cache / 'a' / 'b').is_dir()


def test_a_named_folder_that_cannot_be_made():
  with pytest.raises(ConfigError, match='compilation_cache=/dev/null/x: Not a directory'):
    compilation_cache.use('/dev/null/x')


def test_without_write_access_one_line_is_printed(monkeypatch, capsys):
  monkeypatch.setenv('XDG_CACHE_HOME', '/dev/null')
  compilation_cache.use('auto')
  assert not jax.config.jax_compilation_cache_dir
  line = capsys.readouterr().err
  assert line.count('\n') == 1
  assert '/dev/null/vidcap_jax/programs' in line
  assert 'runtime.compilation_cache' in line


def test_the_oldest_programs_are_removed(user_cache, monkeypatch):
  folder = compilation_cache.default_folder()
  folder.mkdir(parents=True)
  for age in range(4):
    path = folder / f'p{age}-cache'
    path.write_bytes(zlib.compress(b'x' * 10, 0))  # 21 bytes
    os.utime(path, (1e9 - age, 1e9 - age))
  (folder / 'other').write_bytes(b'x' * 100)
  monkeypatch.setattr(compilation_cache, 'MAX_BYTES', 50)
  compilation_cache.use('auto')
  assert {path.name for path in folder.iterdir()} == {'p0-cache', 'p1-cache', 'other', 'checked'}


def test_a_half_written_program_is_removed_and_compiled_again(user_cache):
  """JAX itself would neither read nor replace it."""
  compilation_cache.use('auto')
  folder = compilation_cache.default_folder()
  packed = zlib.compress(bytes(range(256)) * 9)
  (folder / 'whole-cache').write_bytes(packed)
  (folder / 'cut-cache').write_bytes(packed[:-20])
  (folder / 'empty-cache').write_bytes(b'')
  (folder / 'old-cache').write_bytes(packed[:-20])
  os.utime(folder / 'old-cache', (1e9, 1e9))  # before the last start, which has read it
  jax.config.update('jax_compilation_cache_dir', None)
  compilation_cache.use('auto')
  assert {path.name for path in folder.iterdir()} == {'whole-cache', 'old-cache', 'checked'}
