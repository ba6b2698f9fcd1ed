#!/usr/bin/env bash
# Of two jobs on one run directory the second refuses, names the first, and does no harm.
# shellcheck source=tests/cluster/case.sh
. "$(dirname "$0")/case.sh"

job_file job 100000
submit --nodes=1 --ntasks=2 --nodelist=node1 --no-requeue "$batch/train.sbatch" job.yaml
first=$job
must wait_until 60 has_reached "$run" 3
submit --nodes=1 --ntasks=1 --nodelist=node2 --output=second.out "$batch/train.sbatch" job.yaml
must ends "$job" 90
must exit_code_is "$job" 78
must grep -q 'node1' second.out
must in_state "$first" RUNNING
must status_says "$run" attempt 1
reached=$(status_of "$run" step)
must wait_until 60 has_reached "$run" $((reached + 5))
