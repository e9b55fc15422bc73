"""Starting a server, and the memory of processes."""

import multiprocessing
import os

import numpy as np
import pytest

from benchmarks.server_process import resident_bytes, start_server
from vidcap_jax.errors import UserError

HELD = 200 * 2**20  # bytes


def hold_memory(connection):
  array = np.ones(HELD, np.uint8)
  connection.send(len(array))
  connection.recv()


def test_memory_is_that_of_a_process_and_all_it_started():
  before = resident_bytes(os.getpid())
  own_end, connection = multiprocessing.Pipe()
  child = multiprocessing.get_context('spawn').Process(target=hold_memory, args=(connection,))
  child.start()
  own_end.recv()
  assert resident_bytes(os.getpid()) > before + HELD
  assert HELD < resident_bytes(child.pid) < resident_bytes(os.getpid())
  own_end.send(None)
  child.join()
  with pytest.raises(UserError, match=str(child.pid)):
    resident_bytes(child.pid)


def test_a_server_that_does_not_start(tmp_path):
  with pytest.raises(UserError, match='none'), start_server(tmp_path, str(tmp_path / 'none')):
    pass
