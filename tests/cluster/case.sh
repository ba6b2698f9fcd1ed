# shellcheck shell=bash disable=SC2034
# Sourced first by every *_test.sh: moves the script onto the cluster's login node and gives it a folder, a job file and the
# questions to ask. A test fails at the first `must` that does not hold, and then shows what there is to see.
set -uo pipefail
# shellcheck source=tests/cluster/place.sh
. "$(dirname "$0")/place.sh"

if [ -z "${LONGWAVE_ON_LOGIN:-}" ]; then
  if [ "$(id -u)" -ne 0 ] || ! pid_of login >/dev/null; then skip "$(basename "$0"): the cluster of the tests is not up"; fi
  test_file=$(readlink -f "$0")
  # Root may run Open MPI; more ranks than cores take turns; no search for network hardware.
  export LONGWAVE_ON_LOGIN=yes OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
  export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp OMPI_MCA_rmaps_base_oversubscribe=1 OMP_NUM_THREADS=1
  on login bash "$test_file" "$@"
  exit
fi

name=$(basename "$0" _test.sh)
here=$shared/$name
rm -rf "$here"
mkdir -p "$here"
cd "$here" || die "no $here"
export LONGWAVE=$shared/longwave
batch=$shared/slurm
run=$here/runs/job

must() {
  "$@" || { printf 'FAILED: %s\n' "$*" >&2; show >&2; exit 1; }
}

show() {
  tail -n 15 ./*.out
  head -n 50 runs/*/status.json
  squeue
  sinfo --Node
  tail -n 15 "$cluster/log/slurmctld.log"
}

# However the test ends, the next one finds an idle cluster and room on the disk.
cleanup() {
  thaw
  scancel --user=root --quiet
  wait_until 90 no_jobs || die "jobs remain: $(squeue)"
  cd / && rm -rf "$here"
}
all_nodes_idle() { ! sinfo --noheader --Node --format=%T | grep -qv "^idle$"; }
no_jobs() { [ -z "$(squeue --noheader)" ]; }
trap cleanup EXIT

# job_file NAME STEPS [LINE...]: a model that is small, on text that is here. All tests' losses and weights are its.
job_file() {
  local file=$1
  [ -e "$shared/text.txt" ] || seq -f 'line %g of a text that is easy to learn' 20000 >"$shared/text.txt"
  cat >"$1.yaml" <<YAML
model: {layers: 2, width: 64, heads: 2, context: 64}
data: {train: $shared/text.txt, validation: $shared/text.txt}
train: {steps: $2, batch: 12}
evaluate: {lengths: [64, 128], tokens: 2048, passkey: {trials: 0}}
logging: {every: 5}
YAML
  shift 2
  [ $# -eq 0 ] || printf '%s\n' "$@" >>"$file.yaml"
}

# long_job_file NAME [LINE...]: one that takes some seconds and saves on the way.
long_job_file() {
  local file=$1
  job_file "$1" 400
  sed -i 's/context: 64/context: 128/; s/batch: 12/batch: 24/' "$1.yaml"
  printf '%s\n' 'checkpoint: {every_steps: 50}' 'watchdog: {step: 10}' >>"$1.yaml"
}

# reference: what long_job_file's run gives on two ranks when nothing happens; for all tests once.
reference() {
  local weights=$shared/reference/runs/reference/weights.safetensors
  [ ! -s "$weights" ] || return 0
  mkdir -p "$shared/reference"
  (cd "$shared/reference" && long_job_file reference &&
    srun --mpi=pmix --nodes=2 --ntasks=2 "$LONGWAVE" train reference.yaml >reference.out 2>&1)
  [ -s "$weights" ]
}
ends_as_the_reference() { cmp "$run/weights.safetensors" "$shared/reference/runs/reference/weights.safetensors"; }

# fits_small_disk: makes LONGWAVE a program whose preflight is content with 20 MiB, as the tests' shared file system is small.
fits_small_disk() {
  LONGWAVE=$here/fits_small_disk
  cat >"$LONGWAVE" <<PROGRAM
#!/bin/sh
if [ "\$1" = preflight ]; then exec "$shared/longwave" "\$@" --space=0.02; fi
exec "$shared/longwave" "\$@"
PROGRAM
  chmod +x "$LONGWAVE"
}

# one_cell JOB SBATCH_WORDS...: a sweep of one cell of one rank, in runs/grid/s1.
one_cell() {
  printf '%s\n' 'name: grid' "job: $1.yaml" 'axes: {seed: {s1: [run.seed=1]}}' >sweep.yaml
  shift
  must bash "$batch/sweep.sbatch" sweep.yaml --ntasks=1 "$@"
}

# stuck_cell SBATCH_WORDS...: a sweep of one cell, not queued again, whose rank hangs, for Slurm to end. Its program has a name of
# its own, so that freeze and thaw leave it alone.
stuck_cell() {
  ln -f "$shared/longwave" stuck
  job_file stuck 1000000
  LONGWAVE=$here/stuck one_cell stuck --no-requeue --output=stuck.out "$@"
  must wait_until 60 has_reached runs/grid/s1 1
  pgrep --full "^$here/stuck train" | must xargs kill -STOP
}
# cell_is STATE: by squeue, and by what Slurm keeps of ended jobs when squeue has forgotten them.
cell_is() {
  "$LONGWAVE" sweep status sweep.yaml | grep -q "s1 *$1 " || return
  mkdir -p forgetful && printf '#!/bin/sh\n' >forgetful/squeue && chmod +x forgetful/squeue
  PATH=$here/forgetful:$PATH "$LONGWAVE" sweep status sweep.yaml | grep -q "s1 *$1 "
}

# The ranks of all nodes, seen from login. A rank that is frozen holds up all: what a test does then, it does in mid-training.
ranks() { pgrep --full "^$LONGWAVE train"; }
freeze() { ranks | head -n 1 | xargs -r kill -STOP; }
thaw() { ranks | xargs -r kill -CONT; }
rank_on() { ranks | while read -r pid; do [ "$(nsenter --target "$pid" --uts uname -n)" != "$1" ] || echo "$pid"; done; }

# submit SBATCH_WORDS...: sets `job`.
submit() { job=$(must sbatch --parsable "$@"); }

state_of() { scontrol show job "$1" --oneliner | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p'; }
restarts_of() { scontrol show job "$1" --oneliner | sed -n 's/.*Restarts=\([0-9]*\).*/\1/p'; }
restarted() { [ "$(restarts_of "$1")" -ge 1 ]; }
in_state() { [ "$(state_of "$1")" = "$2" ]; }
exit_code_is() { scontrol show job "$1" --oneliner | grep -q "ExitCode=$2:0"; }
# ends JOB SECONDS: whatever the outcome.
ends() { wait_until "$2" has_ended "$1"; }
has_ended() { case $(state_of "$1") in PENDING | RUNNING | COMPLETING | CONFIGURING | SUSPENDED | REQUEUED) return 1 ;; esac; }
status_says() { grep -q "^ *\"$2\": \"*$3\"*,*\$" "$1/status.json"; }    # status_says RUN KEY VALUE
status_of() { sed -n "s/^ *\"$2\": \"*\([^\",]*\)\"*,*\$/\1/p" "$1/status.json"; }
has_reached() { [ "$(status_of "$1" step)" -ge "$2" ]; }               # has_reached RUN STEP
log_says() { grep -q -- "$1" slurm-*.out; }
