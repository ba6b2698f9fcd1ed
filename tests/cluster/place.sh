# shellcheck shell=bash
# Sourced by the scripts beside it: where the cluster of this source tree lives, and how to get inside.
#
# The whole cluster is the child of one `unshare`: a process namespace of its own whose process 1 holds the bridge, the
# shared file system and slurmctld, and within it one such namespace per node. So killing one process ends everything, and
# with the last process go the mounts and the network.

cluster_tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_tree=$(cd "$cluster_tests/../.." && pwd)
# A short path, for sockets; one per source tree; /run because nodes have a /tmp of their own.
cluster=${LONGWAVE_CLUSTER:-/run/longwave-cluster-$(cksum <<<"$source_tree" | cut -d' ' -f1)}
# shellcheck disable=SC2034
shared=$cluster/shared   # the same on login and on every node
# Where a node's jobs are held to their memory, on machines with version 1 of the memory control groups.
export memory_groups=/sys/fs/cgroup/memory/${cluster##*/}
skipped=77               # CTest's SKIP_RETURN_CODE

skip() { printf 'skipped: %s\n' "$*" >&2; exit "$skipped"; }
die() { printf '%s\n' "$*" >&2; exit 1; }

# pid_of HOST: process 1 of login or of a node, as seen from here, if it lives. The folder in its command line makes it ours.
pid_of() {
  local script="node\\.sh $cluster $1"
  [ "$1" != login ] || script="login\\.sh $cluster [0-9]+"
  pgrep --oldest --full "^bash [^ ]*/$script\$"
}

# on HOST COMMAND...: runs a command on login or on a node.
on() {
  local host=$1 pid
  shift
  pid=$(pid_of "$host") || die "$host is not up; tests/cluster/up.sh starts the cluster"
  SLURM_CONF=$cluster/etc/slurm.conf nsenter --target "$pid" --net --uts --mount --pid --wdns="$shared" -- "$@"
}

# wait_until SECONDS COMMAND...: until the command succeeds.
wait_until() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.3
  done
}
