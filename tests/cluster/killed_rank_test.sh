#!/usr/bin/env bash
# One rank is killed: the others notice, name it and leave, and the job is queued again and ends right.
# shellcheck source=tests/cluster/case.sh
. "$(dirname "$0")/case.sh"

must reference
long_job_file job
submit --nodes=2 --ntasks-per-node=1 "$batch/train.sbatch" job.yaml
must wait_until 60 has_reached "$run" 60
freeze
victim=$(rank_on node2)
must [ -n "$victim" ]
must kill -KILL "$victim"
thaw
must wait_until 60 log_says 'exit code 69'
must log_says 'rank 1'
must ends "$job" 120
must in_state "$job" COMPLETED
must [ "$(restarts_of "$job")" -eq 1 ]
must grep -q '"event":"resume"' "$run/logs/rank-00000.jsonl"
must ends_as_the_reference
