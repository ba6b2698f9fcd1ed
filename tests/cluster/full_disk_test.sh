#!/usr/bin/env bash
# The shared disk fills up in mid-training: the run ends with 74 and says why, is not queued again, and goes on when it is
# submitted again with room on the disk.
# shellcheck source=tests/cluster/case.sh
. "$(dirname "$0")/case.sh"

must reference
trap 'rm -f "$shared/filler"; cleanup' EXIT
long_job_file job
submit --nodes=2 --ntasks-per-node=1 --output=/dev/null "$batch/train.sbatch" job.yaml checkpoint.on_error=abort
must wait_until 60 has_reached "$run" 60
dd if=/dev/zero of="$shared/filler" bs=64k >/dev/null 2>&1
must ends "$job" 90
must exit_code_is "$job" 74
must [ "$(restarts_of "$job")" -eq 0 ]
rm -f "$shared/filler"
submit --nodes=2 --ntasks-per-node=1 "$batch/train.sbatch" job.yaml
must ends "$job" 120
must in_state "$job" COMPLETED
must ends_as_the_reference
