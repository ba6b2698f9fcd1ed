#!/usr/bin/env bash
# Process 1 of a node, started by login.sh in namespaces of its own. Its network card, eth0, is put in from outside.
set -euo pipefail
cluster=$1
name=$2

hostname "$name"
ip link set lo up
until ip link show eth0 >/dev/null 2>&1; do sleep 0.05; done
ip addr add "$(awk -v name="$name" '$2 == name {print $1}' "$cluster/etc/hosts")/24" dev eth0
ip link set eth0 up

# The PMIx plugin and Open MPI keep sockets and segments here under names that nodes would share.
mount -t tmpfs -o size=64m,mode=1777 tmp /tmp
mount -t tmpfs -o size=256m,mode=1777 shm /dev/shm
if [ -d "${memory_groups:?}" ]; then
  mkdir -p "$memory_groups/$name"
  mount --bind "$memory_groups/$name" /sys/fs/cgroup/memory   # nodes would share the names within
fi
export SLURM_CONF=$cluster/etc/slurm.conf
mkdir -p "$cluster/spool/$name"
slurmd -N "$name"
while true; do sleep 3600 & wait $!; done
