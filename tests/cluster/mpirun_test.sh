#!/usr/bin/env bash
# Without PMIx train.sbatch falls back to mpirun, whose ranks are one world across the nodes and get USR1 too.
# shellcheck source=tests/cluster/case.sh
. "$(dirname "$0")/case.sh"

job_file job 100000
submit --nodes=2 --ntasks-per-node=1 --no-requeue --export=ALL,LONGWAVE_LAUNCHER=mpirun "$batch/train.sbatch" job.yaml
must wait_until 60 has_reached "$run" 3
must log_says 'launcher: mpirun'
must grep -q '"ranks": 2' "$run/provenance.json"
must scancel --batch --signal=USR1 "$job"
must ends "$job" 60
must exit_code_is "$job" 75
must status_says "$run" state stopped
must grep -q 'SIGUSR1' "$run/logs/rank-00000.jsonl"
must grep -q 'SIGUSR1' "$run/logs/rank-00001.jsonl"
