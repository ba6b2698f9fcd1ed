#!/usr/bin/env bash
# The network of a node is cut in mid-training: the job ends within the limit, is queued again, and ends right on the nodes
# that remain.
# shellcheck source=tests/cluster/case.sh
. "$(dirname "$0")/case.sh"

must reference
trap 'ip link set node2 up; scontrol update nodename=node2 state=resume; cleanup' EXIT
long_job_file job
submit --nodes=2 --ntasks-per-node=1 "$batch/train.sbatch" job.yaml
must wait_until 60 has_reached "$run" 60
must ip link set node2 down
must wait_until 90 restarted "$job"
must ends "$job" 150
must in_state "$job" COMPLETED
must grep -q '"event":"resume"' "$run/logs/rank-00000.jsonl"
must grep -q '^ *"node3"' "$run/provenance.json"
must ends_as_the_reference
must ip link set node2 up
scontrol update nodename=node2 state=resume   # else it is back when its slurmd happens to speak
must wait_until 60 all_nodes_idle
