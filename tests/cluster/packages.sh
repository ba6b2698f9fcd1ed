# shellcheck shell=bash
# What the cluster of the tests needs beyond the program's own packages, for tests/run.sh. Installing does not start anything
# that the tests use: they run daemons of their own.
# shellcheck disable=SC2034
cluster_packages=(slurm-wlm slurm-client slurmctld slurmd munge libpmix2 iproute2 util-linux libfaketime shellcheck)
