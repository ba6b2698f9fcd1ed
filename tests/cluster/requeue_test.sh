#!/usr/bin/env bash
# `scontrol requeue` in mid-training costs nothing but time. A job that goes on with fewer nodes, and whose batch does not divide
# among their ranks, takes as many ranks as it does.
# shellcheck source=tests/cluster/case.sh
. "$(dirname "$0")/case.sh"

must reference
trap 'scontrol update nodename=node3 state=resume 2>/dev/null; cleanup' EXIT
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

long_job_file fewer
sed -i 's/batch: 24/batch: 9/' fewer.yaml
submit --nodes=2-3 --export=ALL,LONGWAVE_RANKS_PER_NODE=1 --output=fewer.out "$batch/train.sbatch" fewer.yaml
must wait_until 60 has_reached runs/fewer 60
must grep -q '^  "ranks": 3' runs/fewer/provenance.json
must scontrol update nodename=node3 state=drain reason=test
must scontrol requeue "$job"
must wait_until 60 restarted "$job"
must ends "$job" 120
must in_state "$job" COMPLETED
must grep -q 'train.batch divides among 1 of 2 ranks; the others idle' fewer.out
must grep -q '^  "ranks": 1' runs/fewer/provenance.json
must grep -q '"event":"resume"' runs/fewer/logs/rank-00000.jsonl
must scontrol update nodename=node3 state=resume
must wait_until 60 all_nodes_idle
