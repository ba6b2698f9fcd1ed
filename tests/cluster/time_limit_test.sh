#!/usr/bin/env bash
# Ahead of the time limit every rank hears USR1, the run saves, leaves with 75, is queued again, goes on from there and ends
# with the bits of a run that nothing happened to. A run that cannot hear it is cut down, and shown as that in its sweep.
# shellcheck source=tests/cluster/case.sh
. "$(dirname "$0")/case.sh"

must reference
stuck_cell --nodelist=node3 --time=1 --signal=B:USR1@1
long_job_file job
sed -i 's/step: 10/step: 300/' job.yaml
submit --nodes=2 --ntasks-per-node=1 --time=1 --signal=B:USR1@20 --export=ALL,LONGWAVE_LEAD=2 \
  "$batch/train.sbatch" job.yaml logging.every=1
must wait_until 60 has_reached "$run" 10
freeze
sleep 4
thaw
must wait_until 60 has_reached "$run" 20
freeze
must wait_until 90 log_says 'longwave: USR1 at'
thaw
must wait_until 60 log_says 'exit code 75'
must ends "$job" 180
must in_state "$job" COMPLETED
must [ "$(restarts_of "$job")" -ge 1 ]
for rank in 0 1; do must grep -q 'stopped by SIGUSR1' "$run/logs/rank-0000$rank.jsonl"; done
must grep -q '"event":"resume"' "$run/logs/rank-00000.jsonl"
must ends_as_the_reference

# A step that took longer than the two seconds that this job was told of is warned of at the next start.
must log_says '^warning: the signal comes 2 s before the limit, but the slowest step took [0-9]* s'

# No step twice and none missing, and the attempts are on record.
must [ "$(grep -o '^{"step":[0-9]*,"loss"' "$run/metrics.jsonl" | sort | uniq -d | wc -l)" -eq 0 ]
"$LONGWAVE" run show "$run" >show.txt
must grep -q "attempt 2 .*Slurm job $job, restart 1" show.txt
must grep -q 'signal .*SIGUSR1' show.txt
must grep -q ' resume ' show.txt
must wait_until 60 cell_is TIMEOUT
