#!/usr/bin/env bash
# Preflight finds a healthy cluster fit, and names the node that is short of space, has its clock off, or lacks the shared
# folder.
# shellcheck source=tests/cluster/case.sh
. "$(dirname "$0")/case.sh"

restore() {
  on node2 rm -f /tmp/task_environment
  on node3 rm -f /tmp/filler
  on node2 mountpoint -q "$shared" || on node2 mount --bind "$cluster/disk" "$shared"
  cleanup
}
trap restore EXIT
library=$(ls /usr/lib/*/faketime/libfaketimeMT.so.1)
fits_small_disk

preflight() {
  submit --nodes=3 --ntasks-per-node=1 --output="$1.out" "$batch/preflight.sbatch"
  must ends "$job" 120
}

preflight healthy
must in_state "$job" COMPLETED
must grep -q 'all 3 nodes are fit' healthy.out
must grep -Eq '^node3 +1 .* with node[12] +fit' healthy.out
must grep -Eq '^all-reduce of all ranks, MPI: [0-9.]+ GB/s' healthy.out
must grep -q 'one step of training on 3 ranks is done' healthy.out

# Of the wall clock only: libfaketime's other clocks crash in programs that start threads while they load.
printf 'LD_PRELOAD=%s\nFAKETIME=+120s\nFAKETIME_DONT_FAKE_MONOTONIC=1\nDONT_FAKE_MONOTONIC=1\n' "$library" |
on node2 tee /tmp/task_environment >/dev/null
preflight clock
must exit_code_is "$job" 69
must grep -q 'node2: clock is 1[12][0-9].[0-9] s ahead' clock.out
must grep -qx -- '--exclude=node2' clock.out
on node2 rm /tmp/task_environment

on node3 dd if=/dev/zero of=/tmp/filler bs=64k count=700 >/dev/null 2>&1
preflight space
must exit_code_is "$job" 69
must grep -q 'node3: only .* free in /tmp' space.out
must grep -qx -- '--exclude=node3' space.out
on node3 rm /tmp/filler

must on node2 umount --lazy "$shared"   # slurmd may just be writing there
preflight folder
must exit_code_is "$job" 69
must grep -q 'node2: does not see a file made in ' folder.out
must grep -qx -- '--exclude=node2' folder.out
