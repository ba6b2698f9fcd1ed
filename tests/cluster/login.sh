#!/usr/bin/env bash
# Process 1 of the cluster, started by up.sh in namespaces of its own: the login node, which also is the switch, the file
# server and the controller.
set -euo pipefail
cluster=$1
nodes=$2
here=$(dirname "$0")

hostname login
ip link set lo up
ip link add switch type bridge
ip addr add 10.77.0.1/24 dev switch
ip link set switch up

# The shared file system: small, so that a test can fill it.
mount -t tmpfs -o size=192m,mode=755 shared "$cluster/disk"
mount --bind "$cluster/disk" "$cluster/shared"

{
  echo "127.0.0.1 localhost"
  echo "10.77.0.1 login"
  for ((i = 1; i <= nodes; i++)); do echo "10.77.0.$((100 + i)) node$i"; done
} >"$cluster/etc/hosts"
mount --bind "$cluster/etc/hosts" /etc/hosts

# up.sh made a folder of control groups where this machine has them: there Slurm holds jobs to their memory.
tasks=none
[ ! -d "${memory_groups:?}" ] || tasks=cgroup

cat >"$cluster/etc/slurm.conf" <<CONF
ClusterName=longwave
SlurmctldHost=login
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A requeued job waits until its credential has expired: 120 s by default.
AuthInfo=socket=$cluster/state/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation=$cluster/state/slurmctld
SlurmdSpoolDir=$cluster/spool/%n
SlurmctldPidFile=$cluster/state/slurmctld.pid
SlurmdPidFile=$cluster/state/%n.pid
SlurmctldLogFile=$cluster/log/slurmctld.log
SlurmdLogFile=$cluster/log/%n.log
# Slurm's cgroup plugins want the machine's control groups, which containers often lack.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/$tasks
# What became of jobs that squeue has forgotten, for sacct --completion; a database for sacct itself would be a server more.
JobCompType=jobcomp/filetxt
JobCompLoc=$cluster/state/completions
JobAcctGatherType=jobacct_gather/none
TaskProlog=$cluster/etc/task_prolog
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerNode=400
# The nodes claim processors that the machine need not have.
SlurmdParameters=config_overrides
SlurmctldParameters=preempt_send_user_signal
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
ReturnToService=2
SlurmdTimeout=12
SlurmctldTimeout=30
KillWait=5
InactiveLimit=0
# More than a step of a node that was cut off takes to give up reaching slurmctld: were it killed, its node would be drained.
UnkillableStepTimeout=120
MessageTimeout=5
TCPTimeout=2
TreeWidth=50
SchedulerParameters=sched_interval=1,sched_min_interval=200000,batch_sched_delay=1,bf_interval=5,requeue_setup_env_fail
NodeName=node[1-$nodes] CPUs=2 RealMemory=1500 State=UNKNOWN
PartitionName=main Default=YES Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE GraceTime=40 MaxTime=60 DefaultTime=10
PartitionName=spare Nodes=ALL PriorityTier=1 PreemptMode=CANCEL GraceTime=2 MaxTime=60 DefaultTime=10
PartitionName=urgent Nodes=ALL PriorityTier=10 PreemptMode=OFF MaxTime=60 DefaultTime=10
CONF

printf 'CgroupPlugin=cgroup/v1\nConstrainRAMSpace=yes\n' >"$cluster/etc/cgroup.conf"

# Tests change what a job finds on a node by a file of variables in the node's own /tmp.
cat >"$cluster/etc/task_prolog" <<'PROLOG'
#!/bin/sh
[ ! -e /tmp/task_environment ] || sed 's/^/export /' /tmp/task_environment
PROLOG
chmod +x "$cluster/etc/task_prolog"

chmod 755 "$cluster/state"
head -c 128 /dev/urandom >"$cluster/etc/munge.key"
chmod 600 "$cluster/etc/munge.key"
munged --force --key-file="$cluster/etc/munge.key" --socket="$cluster/state/munge.socket" --num-threads=2 \
  --pid-file="$cluster/state/munged.pid" --log-file="$cluster/log/munged.log" --seed-file="$cluster/state/munged.seed"

for ((i = 1; i <= nodes; i++)); do "$here/start_node.sh" "node$i"; done

export SLURM_CONF=$cluster/etc/slurm.conf
mkdir -p "$cluster/state/slurmctld"
slurmctld -c
touch "$cluster/started"
while true; do sleep 3600 & wait $!; done
