"""One of COUNT processes that join a job and wait in a collective, which the last never enters.

Arguments: PORT COUNT INDEX TIMEOUT ACTION: the last process 'waits', 'fails', or 'hangs' in a step,
which may take three seconds.
"""

import sys
import time

from vidcap_jax.distributed import activity, jobs, mesh
from vidcap_jax.distributed.cluster import JobProcess
from vidcap_jax.errors import DataError

port, count, index, timeout, action = sys.argv[1:]
process = JobProcess(f'localhost:{port}', int(count), int(index))

if __name__ == '__main__':
  stall_timeout = 3.0 if action == 'hangs' else 0.0
  with jobs.joined(process, float(timeout), 120, stall_timeout), activity.doing('stepping'):
    mesh.wait_for_all('start')
    print('ready', flush=True)
    if process.process_id == process.num_processes - 1:
      if action == 'fails':
        raise DataError('v7 is broken')
      time.sleep(600)
    mesh.wait_for_all('never')  # waits in a collective until the job ends
