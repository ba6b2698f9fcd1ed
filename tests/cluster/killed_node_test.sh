#!/usr/bin/env bash
# The node of rank 0 dies with its slurmd and all its processes: the job is queued again, waits as only one node remains, and
# when its user asks for no more than that goes on there, with fewer ranks along the data axis.
# shellcheck source=tests/cluster/case.sh
. "$(dirname "$0")/case.sh"

trap '"$cluster_tests/start_node.sh" node1; scontrol update nodename=node3 state=resume; cleanup' EXIT
must scontrol update nodename=node3 state=drain reason=test
long_job_file job
submit --nodes=2 --ntasks-per-node=1 "$batch/train.sbatch" job.yaml
must wait_until 60 has_reached "$run" 110
must grep -q '"ranks": 2' "$run/provenance.json"
must kill -KILL "$(pid_of node1)"
must wait_until 90 restarted "$job"
must wait_until 60 in_state "$job" PENDING
must scontrol update jobid="$job" numnodes=1 numtasks=1 numcpus=1
must ends "$job" 150
must in_state "$job" COMPLETED
must status_says "$run" state "done"
must grep -q '"event":"resume"' "$run/logs/rank-00000.jsonl"
must grep -q '"ranks": 1' "$run/provenance.json"
