# shellcheck shell=bash
# Sourced by the batch scripts: how the program is started on every rank of a job, and a minute of checks before.

longwave=${LONGWAVE:-${SLURM_SUBMIT_DIR:-.}/build/longwave}

say() { printf 'longwave: %s\n' "$*"; }
refuse() { say "$*" >&2; exit 78; }
[ -x "$longwave" ] || refuse "no program at $longwave; build it, or set LONGWAVE"

# choose_launcher: sets `launch`, the words before the program.
choose_launcher() {
  local wanted=${LONGWAVE_LAUNCHER:-auto}
  if [ "$wanted" = auto ]; then
    # What Slurm offers; without PMIx srun would start programs that do not know of each other.
    if srun --mpi=list 2>&1 | grep -qw 'pmix\(_v[0-9]*\)\?'; then wanted=srun; else wanted=mpirun; fi
  fi
  case $wanted in
    srun)
      # Not killed on a bad exit: the survivors find out who is missing and say so. They have until --wait.
      launch=(srun --mpi=pmix --nodes="$nodes_used" --ntasks="$SLURM_NTASKS" --kill-on-bad-exit=0 --wait=120)
      # Since Slurm 22.05 srun no longer takes this from sbatch: every rank would get one core.
      if [ -n "${SLURM_CPUS_PER_TASK:-}" ]; then export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK; fi
      ;;
    mpirun)
      command -v mpirun >/dev/null ||
        refuse "this Slurm has no PMIx (srun --mpi=list) and there is no mpirun on the path: load your Open MPI module"
      # No binding: Open MPI's default puts the threads of two ranks a node on one core each. Its daemons, one a node, are a
      # step that shall have all of the node's share. The first rank to leave with 75 must not get the others killed.
      launch=(mpirun -n "$SLURM_NTASKS" --bind-to none --mca orte_abort_on_non_zero_status 0)
      export SLURM_WHOLE=1
      unset SRUN_CPUS_PER_TASK
      ;;
    *) refuse "LONGWAVE_LAUNCHER=$wanted: srun, mpirun or auto" ;;
  esac
  say "launcher: ${launch[*]}"
}

# use_ranks COUNT: of all that the job has; on as few nodes as they fit.
use_ranks() {
  export SLURM_NTASKS=$1 SLURM_NPROCS=$1
  local per_node=${SLURM_NTASKS_PER_NODE:-1}
  nodes_used=$((($1 + per_node - 1) / per_node))
  if [ "$nodes_used" -gt "$SLURM_JOB_NUM_NODES" ]; then nodes_used=$SLURM_JOB_NUM_NODES; fi
}

# How many ranks, and the threads of each. They are not pinned (OMP_PROC_BIND): where Slurm does not bind tasks, all ranks of a
# node would pin to the same cores.
set_environment() {
  if [ -n "${LONGWAVE_RANKS_PER_NODE:-}" ]; then
    export SLURM_NTASKS_PER_NODE=$LONGWAVE_RANKS_PER_NODE
    local cpus=$((${SLURM_CPUS_ON_NODE:-1} / LONGWAVE_RANKS_PER_NODE))
    export SLURM_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-$((cpus > 0 ? cpus : 1))}
  fi
  # A job that now has fewer nodes still has the environment of its first submission.
  if [ -n "${SLURM_NTASKS_PER_NODE:-}" ]; then export SLURM_NTASKS=$((SLURM_JOB_NUM_NODES * SLURM_NTASKS_PER_NODE)); fi
  export SLURM_NTASKS=${SLURM_NTASKS:-$SLURM_JOB_NUM_NODES}
  use_ranks "$SLURM_NTASKS"
  export OMP_NUM_THREADS=${OMP_NUM_THREADS:-${SLURM_CPUS_PER_TASK:-1}}
  export NCCL_DEBUG=${NCCL_DEBUG:-WARN}
  export CUDA_DEVICE_ORDER=PCI_BUS_ID
}

# What every rank does before it becomes the program: it says where it runs.
# shellcheck disable=SC2016
as_rank='cpus=$(sed -n "s/^Cpus_allowed_list:[[:space:]]*//p" /proc/self/status)
rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${SLURM_PROCID:-0}}}
printf "rank %s on %s: cpus %s, OMP_NUM_THREADS=%s, CUDA_VISIBLE_DEVICES=%s\n" \
  "$rank" "$(uname -n)" "$cpus" "$OMP_NUM_THREADS" "${CUDA_VISIBLE_DEVICES:-none}"
exec "$@"'

# pass_errors: standard input to standard error, as it comes. Fails when srun said in it that a rank was killed for its memory:
# srun's exit code does not tell that from much else.
pass_errors() {
  local line code=0
  trap '' TERM USR1   # it hears to the end
  while IFS= read -r line || [ -n "$line" ]; do
    printf '%s\n' "$line" >&2
    case $line in "srun: error: "*": Out Of Memory") code=1 ;; esac
  done
  return "$code"
}

# ended PID: waits for it and returns its exit code. A signal ends a wait early: train.sbatch's pass_on sets `signalled`.
ended() {
  local code signalled
  while true; do
    signalled=
    wait "$1"
    code=$?
    [ -n "$signalled" ] || return "$code"
  done
}

# run_ranks WORDS...: the program on every rank; returns the launcher's exit code, and sets `out_of_memory` where Slurm killed a
# rank for that. Signals of the batch shell go on to the launcher (train.sbatch: pass_on), which passes USR1 to every rank:
# mpirun's ranks are no job step and get none from Slurm.
run_ranks() {
  local code folder reader=
  out_of_memory=
  if [ "${launch[0]}" = srun ] && folder=$(mktemp -d) && mkfifo "$folder/errors"; then
    pass_errors <"$folder/errors" &
    reader=$!
    exec 3>"$folder/errors"
    rm -r "$folder"
  else
    exec 3>&2
  fi
  "${launch[@]}" bash -c "$as_rank" rank "$longwave" "$@" 2>&3 3>&- &
  launcher=$!
  exec 3>&-
  ended "$launcher"
  code=$?
  # shellcheck disable=SC2034  # train.sbatch asks for it
  if [ -n "$reader" ]; then ended "$reader" || out_of_memory=yes; fi
  return "$code"
}

# on_every_node FOLDER: what must hold before MPI can start there at all; prints the hosts where it does not.
on_every_node() {
  local marker answers host
  mkdir -p "$1" && marker=$(mktemp "$(realpath "$1")/preflight-XXXXXX") || return
  # shellcheck disable=SC2016
  answers=$(srun --mpi=none --nodes="$SLURM_JOB_NUM_NODES" --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --chdir=/ bash -c '
    if [ ! -e "$1" ]; then echo "$SLURMD_NODENAME: does not see a file made in $(dirname "$1")"
    elif ! "$2" --version >/dev/null; then echo "$SLURMD_NODENAME: cannot run $2"
    else echo "$SLURMD_NODENAME: starts"; fi' node "$marker" "$(realpath "$longwave")")
  rm -f "$marker"
  for host in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
    grep -qx "$host: starts" <<<"$answers" && continue
    { grep "^$host: " <<<"$answers" || echo "$host: does not answer"; } >&2
    echo "$host"
  done
}

# again_if_killed WORDS...: Open MPI 4.1 over TCP crashes in MPI_Init once in a while, when another rank is quicker (about one
# launch in sixty on busy machines); that is nothing against a node. A node at fault fails twice.
again_if_killed() {
  local code
  run_ranks "$@"
  code=$?
  if [ "$code" -gt 128 ]; then
    say "a rank was killed by signal $((code - 128)); once more"
    run_ranks "$@"
    code=$?
  fi
  return "$code"
}

# preflight FOLDER: every node's fitness, and one step of training on all ranks. 69: a node is unfit, and named.
preflight() {
  local unfit folder=$1/preflight-$SLURM_JOB_ID code
  unfit=$(on_every_node "$1") || refuse "$1 cannot be written"
  if [ -n "$unfit" ]; then
    say "preflight: unfit nodes; submit again with"
    printf -- '--exclude=%s\n' "$(paste -sd, <<<"$unfit")"
    return 69
  fi
  # Here survivors have nothing to tell: a node where MPI itself dies shall not hold up the others.
  local launch=("${launch[@]/--kill-on-bad-exit=0/--kill-on-bad-exit=1}")
  again_if_killed preflight "$1" || return
  mkdir -p "$folder"
  seq 5000 >"$folder/text.txt"
  printf '%s\n' 'model: {layers: 1, width: 64, heads: 2, context: 64}' "data: {train: $folder/text.txt}" \
    "train: {steps: 1, batch: $SLURM_NTASKS}" 'evaluate: {passkey: {trials: 0}}' >"$folder/step.yaml"
  again_if_killed train "$folder/step.yaml" run.dir="$folder"
  code=$?
  rm -rf "$folder"
  if [ "$code" -eq 0 ]; then say "preflight: one step of training on $SLURM_NTASKS ranks is done"; fi
  return "$code"
}
