#!/usr/bin/env bash
# The node of rank 0 dies with its slurmd and all its processes. A job that was submitted for two or three nodes is queued again
# and goes on by itself with the two that remain, fewer ranks along the data axis, and ends right; one that wants three waits
# until its user asks for less. The cell of a sweep that was not to be queued again is shown as what happened to it.
# shellcheck source=tests/cluster/case.sh
. "$(dirname "$0")/case.sh"

perplexity_of() { sed -n 's/^.*"perplexity": *\([0-9.]*\).*$/\1/p' "$1/eval/perplexity.json" | tail -n 1; }
# The mesh changes the order of additions, and nothing else.
ends_near_the_reference() {
  awk -v mine="$(perplexity_of "$run")" -v expected="$(perplexity_of "$shared/reference/runs/reference")" \
    'BEGIN {exit !(mine > 1 && mine / expected < 1.02 && mine / expected > 0.98)}'
}

trap '"$cluster_tests/start_node.sh" node1; cleanup' EXIT
must reference
stuck_cell --nodelist=node1
long_job_file job
submit --nodes=2-3 --export=ALL,LONGWAVE_RANKS_PER_NODE=1 "$batch/train.sbatch" job.yaml
must wait_until 60 has_reached "$run" 60
must grep -q '"ranks": 3' "$run/provenance.json"
must kill -KILL "$(pid_of node1)"
must wait_until 90 restarted "$job"
ranged=$job
job_file wide 20
submit --nodes=3 --ntasks-per-node=1 --output=wide.out "$batch/train.sbatch" wide.yaml
must ends "$ranged" 150
must in_state "$ranged" COMPLETED
must status_says "$run" state "done"
must grep -q '"event":"resume"' "$run/logs/rank-00000.jsonl"
must grep -q '^  "ranks": 2' "$run/provenance.json"
must ends_near_the_reference
must cell_is NODE_FAIL

must in_state "$job" PENDING
must scontrol update jobid="$job" numnodes=1 numtasks=1 numcpus=1
must ends "$job" 90
must in_state "$job" COMPLETED
must grep -q '^  "ranks": 1' runs/wide/provenance.json
