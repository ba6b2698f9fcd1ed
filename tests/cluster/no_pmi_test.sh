#!/usr/bin/env bash
# srun without PMI starts programs that do not know of each other: each refuses with advice, and nothing is written.
# shellcheck source=tests/cluster/case.sh
. "$(dirname "$0")/case.sh"

job_file job 20
srun --mpi=none --nodes=2 --ntasks=2 "$LONGWAVE" train job.yaml >output.txt 2>&1
must [ $? -eq 78 ]
must grep -q 'srun --mpi=pmix' output.txt
must [ "$(grep -c . output.txt)" -le 6 ]   # a line of each, and srun's own
must test ! -e runs
