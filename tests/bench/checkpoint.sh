#!/usr/bin/env bash
# How fast checkpoints are saved and loaded, beside dd with the same bytes, and what an asynchronous save costs the step.
#   ./tests/bench/checkpoint.sh [FOLDER] [ROUNDS]     default: a folder of its own in TMPDIR, five rounds
#
# Method: one rank with all cores holds a model of 85 million parameters, whose checkpoint is 1 GB. In every round, what is to
# be compared runs one after the other, and in the next round the other way round; the ratio is taken within a round, and
# the median over the rounds is printed with the range.
#   save      start to durable under its final name, checksums of every byte on; with checkpoint.verify: true, the default,
#             it is read back from the disk besides. dd bs=1M conv=fsync copies the same file, which is in the page cache.
#   load      every byte checked, then everything put into the model and the optimizer. dd bs=1M reads the same file to
#             /dev/null; both from the page cache.
#   stall     of the training thread by an asynchronous save, against a synchronous one; the optimizer's values are copied.
# Needs 5 GB of memory and 4 GB of disk in FOLDER. Leave the machine alone meanwhile.
set -euo pipefail
[ "${1:-}" != "--help" ] || { sed -n '2,14s/^# \{0,1\}//p' "$0"; exit 0; }
caller=$PWD
cd "$(dirname "$0")/../.."
. jobs/setup.sh
build ON bench_checkpoint_worker
prepare_mpi

parent=${1:-${TMPDIR:-/tmp}}
case $parent in /*) ;; *) parent=$caller/$parent ;; esac
folder=$(mktemp -d "$parent/longwave-bench-XXXXXX")
trap 'rm -rf "$folder"' EXIT
python3 tests/bench/checkpoint.py build/tests/bench/bench_checkpoint_worker "$folder" "${2:-5}"
