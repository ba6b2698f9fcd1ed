#!/usr/bin/env bash
# How much of a step two ranks of the 60M model wait for each other (16 sequences of 512 tokens a step).
#   ./tests/bench/exposed_communication.sh [STEPS]                     default 12, of which the first two do not count
#   ./tests/bench/exposed_communication.sh 12 parallel.tensor=2        more overrides, as of `longwave train`
#
# Method: one run of the job on two ranks, each with half of the cores, under mpirun with shared memory between them. Every
# rank logs each step: its seconds, and the seconds in which its main thread stood in a communicator's wait, within forward,
# backward, reduction, norm and update. Gradients that are reduced while the backward goes on are waited for only as far as
# they are late. A wait is either for bytes or for a rank that computes more slowly; the smaller of the two ranks' waits in
# the same step holds the bytes without most of the other. Both are printed as shares of the step, medians over the steps.
# Leave the machine alone meanwhile; it needs 2 GB of disk in TMPDIR for the weights that the run ends with.
set -euo pipefail
[ "${1:-}" != "--help" ] || { sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 0; }
cd "$(dirname "$0")/../.."
. jobs/setup.sh

steps=${1:-12}
[ $# -eq 0 ] || shift
build ON longwave
prepare_mpi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 - "$folder/text.txt" <<'TEXT'
import random, sys
draw = random.Random(1)
with open(sys.argv[1], "w") as file:
    file.write("".join(chr(draw.randrange(97, 123)) for _ in range(1 << 20)))
TEXT
cat >"$folder/60m.yaml" <<JOB
model: {preset: 60m, context: 512, vocabulary: 50280}
data: {train: $folder/text.txt}
train: {steps: $steps, batch: 16}
evaluate: {passkey: {trials: 0}}
logging: {every: 1}
run: {dir: $folder/runs}
JOB
threads=$(($(nproc) / 2))
export OMP_NUM_THREADS=$((threads > 0 ? threads : 1))
mpirun --quiet -n 2 --bind-to none build/longwave train "$folder/60m.yaml" "$@" >"$folder/output" || { cat "$folder/output"; exit 1; }
head -1 "$folder/output"
python3 tests/bench/exposed_communication.py "$folder/runs/60m"
