#!/usr/bin/env bash
# `scontrol requeue` in mid-training costs nothing but time.
# shellcheck source=tests/cluster/case.sh
. "$(dirname "$0")/case.sh"

must reference
long_job_file job
submit --nodes=2 --ntasks-per-node=1 "$batch/train.sbatch" job.yaml
must wait_until 60 has_reached "$run" 60
must scontrol requeue "$job"
must wait_until 60 restarted "$job"
must ends "$job" 120
must in_state "$job" COMPLETED
must [ "$(restarts_of "$job")" -eq 1 ]
must grep -q '"event":"resume"' "$run/logs/rank-00000.jsonl"
must ends_as_the_reference
