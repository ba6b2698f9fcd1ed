#!/usr/bin/env bash
# How fast this machine trains and evaluates, beside PyTorch: one table.
#   ./tests/bench/run.sh                              everything; under ten minutes, twice that the first time
#   ./tests/bench/run.sh --cases quickstart --layouts 2x1 --rounds 9
#   ./tests/bench/run.sh --json FILE                  the rows as JSON
#   ./tests/bench/run.sh --no-peer                    without PyTorch
# PyTorch, the newest that pip finds, is installed into LONGWAVE_BENCH_CACHE (default: ~/.cache/longwave-bench), which
# also keeps what torch.compile has compiled. Leave the machine alone meanwhile.
set -euo pipefail
[ "${1:-}" != "--help" ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0; }
caller=$PWD
cd "$(dirname "$0")/../.."
. jobs/setup.sh

peer=yes
arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --no-peer) peer=no ;;
    --json) case ${2:?--json wants a file} in /*) arguments+=(--json "$2") ;; *) arguments+=(--json "$caller/$2") ;; esac; shift ;;
    *) arguments+=("$1") ;;
  esac
  shift
done

install_packages "${longwave_packages[@]}" python3-venv
build ON bench_worker
prepare_mpi

if [ $peer = yes ]; then
  cache=${LONGWAVE_BENCH_CACHE:-$HOME/.cache/longwave-bench}
  if [ ! -e "$cache/venv/installed" ]; then
    say "Installing PyTorch into $cache/venv"
    python3 -m venv "$cache/venv"
    "$cache/venv/bin/pip" install --quiet torch numpy || fail "pip could not install PyTorch; --no-peer measures without it."
    touch "$cache/venv/installed"
  fi
  export TORCHINDUCTOR_CACHE_DIR=$cache/inductor
  arguments+=(--python "$cache/venv/bin/python")
fi
exec python3 tests/bench/bench.py --worker "$PWD/build/tests/bench/bench_worker" "${arguments[@]}"
