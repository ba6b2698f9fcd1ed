#!/usr/bin/env bash
# Ends the cluster that up.sh started, with all that runs in it, and removes its folder. Without one it does nothing.
set -euo pipefail
# shellcheck source=tests/cluster/place.sh
. "$(dirname "$0")/place.sh"

if pid=$(pid_of login); then
  kill -KILL "$pid"   # process 1: the kernel ends the others of its namespace
  wait_until 20 test ! -e "/proc/$pid" || die "process $pid does not end"
fi
if [ -d "$memory_groups" ]; then find "$memory_groups" -depth -type d -exec rmdir {} +; fi
rm -rf "$cluster"
