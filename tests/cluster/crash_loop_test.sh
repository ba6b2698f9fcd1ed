#!/usr/bin/env bash
# A run that dies in every attempt without a new checkpoint is stopped after three, and status.json says so; submitted anew
# it is tried anew.
# shellcheck source=tests/cluster/case.sh
. "$(dirname "$0")/case.sh"

cat >dies <<DIES
#!/bin/sh
[ "\$1" = train ] || exec "$LONGWAVE" "\$@"
timeout --signal=KILL 2 "$LONGWAVE" "\$@"
exit
DIES
chmod +x dies
job_file job 1000000
submit --nodes=1 --ntasks=1 --export="ALL,LONGWAVE=$here/dies" "$batch/train.sbatch" job.yaml
must ends "$job" 120
must exit_code_is "$job" 69
must [ "$(restarts_of "$job")" -eq 3 ]
must status_says "$run" state failed
must grep -q '"reason": "3 attempts of Slurm job .* made no new checkpoint' "$run/status.json"
submit --nodes=1 --ntasks=1 "$batch/train.sbatch" job.yaml
must wait_until 60 status_says "$run" state running
