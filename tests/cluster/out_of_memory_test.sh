#!/usr/bin/env bash
# A cell that needs more memory than its job has is killed, says so, is not queued again, and is shown as that in its sweep.
# shellcheck source=tests/cluster/case.sh
. "$(dirname "$0")/case.sh"
[ -d "$memory_groups" ] || skip "this machine has no version 1 of the memory control groups to hold jobs to their memory"

job_file job 10
sed -i 's/batch: 12/batch: 4096/' job.yaml   # activations of 1.8 GiB
one_cell job
must wait_until 60 no_jobs
must cell_is OUT_OF_MEMORY
must status_says runs/grid/s1 state failed
must status_says runs/grid/s1 exit_code 137
must status_says runs/grid/s1 attempt 1
must log_says 'out of memory: a rank of Slurm job'
must log_says 'exit code 137; not queued again'
