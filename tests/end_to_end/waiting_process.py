"""One of COUNT processes that meet and then wait for each other; the last does not come.

Arguments: PORT COUNT INDEX TIMEOUT WHAT: the last one 'waits' or 'fails'.
"""

import sys
import time

from vidcap_jax.distributed import jobs, mesh
from vidcap_jax.distributed.cluster import Place
from vidcap_jax.errors import DataError

port, count, index, timeout, what = sys.argv[1:]
place = Place(f'localhost:{port}', int(count), int(index))

if __name__ == '__main__':
  with jobs.joined(place, float(timeout), 120):
    mesh.wait_for_all('start')
    print('ready', flush=True)
    if place.index == place.count - 1:
      if what == 'fails':
        raise DataError('v7 is broken')
      time.sleep(600)
    mesh.wait_for_all('never')  # in a collective until something ends it
