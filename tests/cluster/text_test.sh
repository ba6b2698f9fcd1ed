#!/usr/bin/env bash
# What the batch scripts must say, whatever else changes, because each line's absence has cost others a run.
set -uo pipefail
cd "$(dirname "$0")/../../slurm" || exit 1
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

shellcheck --external-sources --source-path=.. ./*.sbatch launch.sh ../tests/cluster/*.sh || fail "shellcheck"

grep -q '^#SBATCH --requeue$' train.sbatch || fail "train.sbatch must be requeued when a node fails"
grep -q '^#SBATCH --open-mode=append$' train.sbatch || fail "an attempt must not overwrite the log of the one before"
grep -Eq '^#SBATCH --signal=B:USR1@[0-9]+$' train.sbatch || fail "the batch shell must hear of the time limit early"
grep -q "^trap 'pass_on USR1' USR1$" train.sbatch || fail "a signal to the batch shell reaches no rank unless it is passed on"
grep -q 'export SRUN_CPUS_PER_TASK=' launch.sh || fail "srun does not inherit --cpus-per-task since Slurm 22.05"
grep -q -- '--mpi=pmix' launch.sh || fail "srun without PMIx starts ranks that do not know of each other"
grep -q -- '--kill-on-bad-exit=0' launch.sh || fail "survivors must have the time to say who is missing"
# Requeued are 75 and 69 and nothing else.
# shellcheck disable=SC2016
[ "$(grep 'requeue ;;$' train.sbatch)" = '  75 | 69) say "exit code $code"; requeue ;;' ] || fail "requeue on 75 and 69 alone"
# The id of an array's last task is, to Slurm's commands, the whole array.
# shellcheck disable=SC2016
grep -q 'scontrol requeue "$SLURM_JOB_ID"' train.sbatch && fail "a task of an array must not requeue the whole array"
# A second sbatch line after the first command would be ignored by Slurm.
for script in *.sbatch; do
  awk '/^#SBATCH/ && command {exit 1} !/^#/ && NF {command = 1}' "$script" || fail "$script: #SBATCH after a command is ignored"
done
