#!/usr/bin/env bash
# A job that its user cancels stops in order and stays cancelled.
# shellcheck source=tests/cluster/case.sh
. "$(dirname "$0")/case.sh"

job_file job 100000
submit --nodes=1 --exclusive --export=ALL,LONGWAVE_RANKS_PER_NODE=2 "$batch/train.sbatch" job.yaml
must wait_until 60 has_reached "$run" 3
must grep -q '"ranks": 2' "$run/provenance.json"
must scancel "$job"
must ends "$job" 60
must in_state "$job" CANCELLED
must wait_until 30 log_says 'left to Slurm'
must status_says "$run" state stopped
must [ "$(restarts_of "$job")" -eq 0 ]
