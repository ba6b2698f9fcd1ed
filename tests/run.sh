#!/usr/bin/env bash
# Installs what is missing, builds everything and runs every test; ends with ctest's summary and exit code.
#   ./tests/run.sh              all
#   ./tests/run.sh -L unit      any ctest arguments: a label (unit, parallel, ...), -R PATTERN, ...
set -euo pipefail
cd "$(dirname "$0")/.."
. jobs/setup.sh
. tests/cluster/packages.sh

install_packages "${longwave_packages[@]}" libgtest-dev libgmock-dev libboost-context-dev python3-numpy clang libclang-rt-14-dev "${cluster_packages[@]}"
# Python packages that tests compare with, small enough to install into the build folder where pip finds a registry; "" for none.
export LONGWAVE_PIP=${LONGWAVE_PIP-safetensors}
[ -z "$LONGWAVE_PIP" ] || install_packages python3-venv
build ON all
prepare_mpi
say "Running the tests"
# Debian's Open MPI 4.1.4 crashes in MPI_Init over TCP about once in 60 launches, outside our code; so a test that fails gets one
# more try. ctest's output keeps both.
exec ctest --test-dir build --output-on-failure --no-tests=error --repeat until-pass:2 -j "$(nproc)" "$@"
