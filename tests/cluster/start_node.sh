#!/usr/bin/env bash
# On login: starts a node, or starts it again after it was killed, and plugs its network card into the switch.
set -euo pipefail
# shellcheck source=tests/cluster/place.sh
. "$(dirname "$0")/place.sh"
name=$1

! pid_of "$name" >/dev/null || exit 0
unplugged() { ! ip link show "$name"; }
wait_until 20 unplugged   # the kernel takes a dead node's network away in its own time

setsid unshare --net --uts --mount --pid --fork --kill-child --mount-proc \
  "$cluster_tests/node.sh" "$cluster" "$name" >>"$cluster/log/$name.start" 2>&1 </dev/null &
wait_until 20 pid_of "$name" || die "$name did not start"
ip link add "$name" type veth peer name eth0 netns "$(pid_of "$name")"
ip link set "$name" master switch up
