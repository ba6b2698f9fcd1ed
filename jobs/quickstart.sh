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
budget=780   # seconds for the three trainings, where the machine is too slow for all steps
case "${1:-}" in
  "") ;;
  --fast) name=quickstart-fast; budget=120 ;;
  *) fail "usage: jobs/quickstart.sh [--fast]" ;;
esac
ranks=2
job=jobs/$name.yaml
positions=(fope rope alibi)

install_packages "${longwave_packages[@]}"
build longwave
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

# The steps of runs that were begun, or as many as fit the budget on this machine.
choose_steps() {
  local kind steps
  for kind in "${positions[@]}"; do
    steps=$(sed -n 's/^  steps: *\([0-9]*\).*/\1/p' "runs/$name-$kind/config.yaml" 2>/dev/null | head -n 1)
    [ -z "$steps" ] || { echo "$steps"; return; }
  done
  "$longwave" plan "$job" --ranks "$ranks" --json run.name=measure >"$plan" || fail "the measurement failed."
  python3 - "$plan" "$budget" "${#positions[@]}" <<'PY'
import json, sys
plan = json.load(open(sys.argv[1]))
affordable = int(float(sys.argv[2]) / int(sys.argv[3]) / plan["seconds_per_step"])
print(max(20, min(plan["steps"], affordable)))
PY
}

prepare_text
plan=$(mktemp)
trap 'rm -f "$plan"' EXIT
say "Measuring this machine"
steps=$(choose_steps)
wanted=$(sed -n 's/^  steps: *\([0-9]*\).*/\1/p' "$job" | head -n 1)
[ "$steps" -ge "$wanted" ] || say "This machine is too slow for all $wanted steps in the time: training $steps steps each."
if [ -s "$plan" ]; then
  python3 - "$plan" "$steps" "${#positions[@]}" <<'PY'
import json, sys
plan = json.load(open(sys.argv[1]))
minutes = plan["seconds_per_step"] * int(sys.argv[2]) * int(sys.argv[3]) / 60
print(f"Training {sys.argv[3]} models takes about {minutes:.0f} minutes here, evaluating them about {max(1, minutes / 4):.0f} more.")
PY
fi

for kind in "${positions[@]}"; do
  say ""
  say "== $kind"
  mpirun --quiet -n "$ranks" --bind-to none "$longwave" train "$job" "run.name=$name-$kind" "position.kind=$kind" "train.steps=$steps" || {
    code=$?
    [ $code -ne 75 ] || fail "Stopped; run the same command again to go on."
    exit $code
  }
done

say ""
"$longwave" report "${positions[@]/#/runs/$name-}" -o "runs/$name.html"
say ""
say "Look at runs/$name.html, and at each run in runs/$name-{fope,rope,alibi}/."
