#!/usr/bin/env bash
# tests/gpu.sh as far as it goes without a GPU: what it refuses and what it says.
set -euo pipefail
cd "$(dirname "$0")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# expect CODE WORDS ARGUMENT...: its exit code, and words in what it says.
expect() {
  local code=0
  tests/gpu.sh --out "$scratch/out" --pack "$scratch/pack" "${@:3}" >"$scratch/said" 2>&1 || code=$?
  if [ $code -ne "$1" ] || ! grep -qF -- "$2" "$scratch/said"; then
    echo "tests/gpu.sh ${*:3}: exit code $code instead of $1, or nothing of '$2' in:"
    cat "$scratch/said"
    exit 1
  fi
}

expect 0 "racecheck" --list
expect 78 "there is no part 'everything'; the parts are start suite" --part everything
expect 78 "unknown argument '--parts'" --parts
expect 78 "--minutes wants a whole number, not 'soon'" --minutes soon
expect 78 "there is no folder" --table
if ! compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
  expect 69 "no GPU here"
  [ "$(wc -l <"$scratch/said")" -eq 1 ] || { echo "not one line:"; cat "$scratch/said"; exit 1; }
fi

# A folder of results with nothing in it yet still makes a table of what is to be done.
mkdir -p "$scratch/out"
expect 0 "part racecheck" --table
grep -q '^| part suite |  | not done |' "$scratch/out/table.md"
