#!/usr/bin/env bash
# Starts a Slurm cluster of N nodes on this machine: slurmctld, munge and N slurmd from Debian's packages, each node with its
# own network, host name, processes, /tmp and /dev/shm. Nothing outside changes but the folder $cluster. Done twice, the
# second call finds the cluster up. `on.sh login sinfo` looks at it, `down.sh` removes it. Exit code 77: not possible here.
#   tests/cluster/up.sh 3
set -euo pipefail
# shellcheck source=tests/cluster/place.sh
. "$(dirname "$0")/place.sh"

nodes=${1:?usage: up.sh N}

[ "$(id -u)" -eq 0 ] || skip "the cluster tests need root, for namespaces and slurmd"
for tool in slurmctld slurmd munged srun ip unshare nsenter; do
  command -v "$tool" >/dev/null || skip "the cluster tests need $tool; tests/run.sh installs it (tests/cluster/packages.sh)"
done
unshare --net --uts --mount --pid --fork --mount-proc true 2>/dev/null ||
  skip "the cluster tests need namespaces, which are not permitted here"
unshare --net ip link add name probe type bridge 2>/dev/null ||
  skip "the cluster tests need bridges, which are not permitted here"

all_idle() { [ "$(on login sinfo --noheader --Node --format='%N %T' | sort -u | grep -c ' idle$')" -eq "$nodes" ]; }

if pid_of login >/dev/null; then
  if [ "$(cat "$cluster/nodes")" = "$nodes" ] && wait_until 60 all_idle; then
    echo "already up: $nodes nodes, $cluster"
    exit 0
  fi
  "$cluster_tests/down.sh"
fi

rm -rf "$cluster"
mkdir -p "$cluster"/{etc,log,state,disk,shared,spool}
echo "$nodes" >"$cluster/nodes"
[ ! -e /sys/fs/cgroup/memory/memory.limit_in_bytes ] || mkdir -p "$memory_groups"

setsid unshare --net --uts --mount --pid --fork --kill-child --mount-proc \
  "$cluster_tests/login.sh" "$cluster" "$nodes" >"$cluster/log/login.log" 2>&1 </dev/null &
if ! wait_until 60 test -e "$cluster/started"; then
  cat "$cluster/log/login.log"
  "$cluster_tests/down.sh"
  die "the cluster did not start"
fi

wait_until 60 all_idle || { tail -n 20 "$cluster"/log/*; "$cluster_tests/down.sh"; die "the nodes did not come up"; }
echo "up: $nodes nodes, $cluster"
