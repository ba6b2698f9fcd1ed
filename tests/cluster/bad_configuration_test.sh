#!/usr/bin/env bash
# A bad configuration fails once, with the exit code that says so, and is not queued again; nothing is made.
# shellcheck source=tests/cluster/case.sh
. "$(dirname "$0")/case.sh"

job_file job 20 'modell: {layers: 3}'
submit --nodes=1 --ntasks=2 "$batch/train.sbatch" job.yaml
must ends "$job" 60
must exit_code_is "$job" 78
must [ "$(restarts_of "$job")" -eq 0 ]
must log_says 'modell: unknown key'
must test ! -e runs

# What only the ranks can find out, too: 12 sequences do not divide over 5 ranks.
job_file job 20
submit --nodes=3 --ntasks=5 "$batch/train.sbatch" job.yaml
must ends "$job" 60
must exit_code_is "$job" 78
must [ "$(restarts_of "$job")" -eq 0 ]
must log_says 'not queued again'

# Missing data is not a reason to try again either.
submit --nodes=1 --ntasks=1 "$batch/train.sbatch" job.yaml data.train=missing.txt
must ends "$job" 60
must exit_code_is "$job" 65
must [ "$(restarts_of "$job")" -eq 0 ]
