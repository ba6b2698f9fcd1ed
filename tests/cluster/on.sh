#!/usr/bin/env bash
# Runs a command on a host of the cluster: tests/cluster/on.sh login squeue; tests/cluster/on.sh node2 ip addr
# shellcheck source=tests/cluster/place.sh
. "$(dirname "$0")/place.sh"
on "$@"
