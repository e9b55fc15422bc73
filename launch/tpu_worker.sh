#!/bin/bash
# launch/tpu_vm.py runs this on each worker of a TPU slice, in the folder that it copied there.
#   tpu_worker.sh running            succeeds, with a message, if a run is running
#   tpu_worker.sh install PYTHON     installs the project in .venv, unless a run is running
#   tpu_worker.sh start [flags of vidcap_jax.main]
#   tpu_worker.sh run [flags]        the background process of start
#   tpu_worker.sh follow             prints the log until the run ends, exits with its exit code
#   tpu_worker.sh stop               sends SIGTERM: the run saves and ends
set -euo pipefail
cd "$(dirname "$0")/.."

running() {
  # Also checks the command line: after a reboot another process may have the pid.
  [ -e run.pid ] && grep -q vidcap_jax "/proc/$(cat run.pid)/cmdline" 2>/dev/null
}

report_running() {
  running && echo "$(hostname): already running, pid $(cat run.pid)"
}

case $1 in
  running)
    report_running
    ;;
  install)
    report_running && exit 0
    python3 -m pip install -q --user uv
    python3 -m uv venv -q --allow-existing --python="$2" .venv
    python3 -m uv pip install -q --python=.venv -e '.[metrics,video]' 'jax[tpu]'
    ;;
  start)
    shift
    report_running && exit 0
    rm -f run.exit run.pid
    # The run outlives the connection; its exit code goes to run.exit.
    nohup setsid bash launch/tpu_worker.sh run "$@" >> run.log 2>&1 < /dev/null &
    until [ -s run.pid ]; do sleep 0.1; done
    echo "$(hostname): started, pid $(cat run.pid)"
    ;;
  run)
    shift
    .venv/bin/python -m vidcap_jax.main "$@" &
    echo $! > run.pid
    code=0
    wait $! || code=$?
    echo "$code" > run.exit
    ;;
  follow)
    tail -n +1 --pid="$(cat run.pid)" -F run.log
    for _ in $(seq 20); do
      if [ -s run.exit ]; then exit "$(cat run.exit)"; fi
      sleep 0.5
    done
    echo "$(hostname): the run left no exit code; did the machine reboot?" >&2
    exit 1
    ;;
  stop)
    if ! running; then
      echo "$(hostname): nothing is running"
      exit 0
    fi
    kill -TERM "$(cat run.pid)"
    while running; do sleep 0.5; done
    echo "$(hostname): stopped"
    ;;
  *)
    echo "unknown command: $1" >&2
    exit 2
    ;;
esac
