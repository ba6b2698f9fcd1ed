#!/usr/bin/env bash
# A job of a higher partition takes the nodes: the run is warned, saves, gives way, and goes on when they are free again. The cell
# of a sweep in a partition whose jobs are not queued again is shown as what happened to it.
# shellcheck source=tests/cluster/case.sh
. "$(dirname "$0")/case.sh"

must reference
stuck_cell --nodelist=node3 --partition=spare
long_job_file job
sed -i 's/step: 10/step: 300/' job.yaml
submit --nodes=2 --ntasks-per-node=1 --exclusive "$batch/train.sbatch" job.yaml
must wait_until 60 has_reached "$run" 10
freeze
low=$job
submit --partition=urgent --nodes=3 --exclusive --output=urgent.out --wrap='hostname'
must wait_until 60 log_says 'longwave: USR1 at'
thaw
must ends "$job" 90
must in_state "$job" COMPLETED
must ends "$low" 120
must in_state "$low" COMPLETED
must [ "$(restarts_of "$low")" -eq 1 ]
must grep -q '"event":"resume"' "$run/logs/rank-00000.jsonl"
must ends_as_the_reference
must cell_is PREEMPTED
