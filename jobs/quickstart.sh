#!/usr/bin/env bash
# From a fresh Debian 12 machine to the answer: installs what is missing, builds, fetches and prepares real text, trains three
# small models that differ in their position encoding alone (fope, rope, alibi), evaluates each at up to sixteen times its
# training length, and compares them in runs/quickstart.html.
#   ./jobs/quickstart.sh           about 15 minutes of training and evaluation on two cores
#   ./jobs/quickstart.sh --fast    under 3 minutes, with smaller numbers, into runs/quickstart-fast-*
# Interrupt it when you like and run it again: what is done is not done twice.
set -euo pipefail
cd "$(dirname "$0")/.."
. jobs/setup.sh

name=quickstart
budget=840   # seconds for training and evaluating all three; a slow machine takes fewer steps
case "${1:-}" in
  "") ;;
  --fast) name=quickstart-fast; budget=150 ;;
  *) fail "usage: jobs/quickstart.sh [--fast]" ;;
esac
ranks=2
job=jobs/$name.yaml
positions=(fope rope alibi)

install_packages "${longwave_packages[@]}"
build OFF longwave
prepare_mpi
[ ! -t 1 ] || export LONGWAVE_TERMINAL=1
longwave=build/longwave
# Ranks share the cores there are; each computes on its share of them.
cores=$(nproc)
[ "$cores" -ge "$ranks" ] || ranks=1
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores / ranks))}

prepare_text() {
  [ ! -f data/quickstart/train.lwtok ] || [ ! -f data/quickstart/validation.lwtok ] || return 0
  say "Fetching public-domain books from Debian packages"
  jobs/fetch_text.sh data/text
  "$longwave" prepare data/text/train --validation data/text/validation -o data/quickstart --unwrap --force
}

# Sets `steps`: those of runs that were begun, or as many as fit the budget on this machine.
choose_steps() {
  local kind plan
  for kind in "${positions[@]}"; do
    [ -f "runs/$name-$kind/config.yaml" ] || continue
    steps=$(sed -n 's/^  steps: *\([0-9]*\).*/\1/p' "runs/$name-$kind/config.yaml")
    return 0
  done
  say "Measuring this machine"
  plan=$("$longwave" plan "$job" --ranks "$ranks" --json) || fail "the measurement failed."
  read -r steps wanted minutes < <(python3 - "$budget" "${#positions[@]}" "$plan" <<'PY'
import json, sys
budget, runs, plan = float(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
# Long sequences reach a lower rate than training does.
evaluation = 2 * plan["evaluation_seconds"]
steps = int((budget / runs - evaluation) / plan["seconds_per_step"])
steps = max(20, min(plan["steps"], steps))
print(steps, plan["steps"], f"{runs * (steps * plan['seconds_per_step'] + evaluation) / 60:.0f}")
PY
  )
  [ "$steps" -eq "$wanted" ] || say "This machine is too slow for all $wanted steps in the time: it trains $steps each, so expect less of the models."
  say "Training and evaluating ${#positions[@]} models takes about $minutes minutes here."
}

prepare_text
choose_steps

for kind in "${positions[@]}"; do
  say ""
  say "== $kind"
  run=runs/$name-$kind
  mpirun --quiet -n "$ranks" --bind-to none "$longwave" train "$job" "run.name=$name-$kind" "position.kind=$kind" "train.steps=$steps" || {
    code=$?
    # An interrupted mpirun has an exit code of its own; the run directory says how the job ended.
    ! grep -q '"state": "stopped"' "$run/status.json" 2>/dev/null || fail "Stopped; run the same command again to go on."
    exit $code
  }
done

say ""
"$longwave" report "${positions[@]/#/runs/$name-}" -o "runs/$name.html"
say ""
say "Look at runs/$name.html, and at each run in runs/$name-{fope,rope,alibi}/."
