#!/usr/bin/env bash
# Starts the cluster for the tests and puts the program and the batch scripts where all nodes see them: setup.sh PROGRAM
set -euo pipefail
# shellcheck source=tests/cluster/place.sh
. "$(dirname "$0")/place.sh"
program=$(readlink -f "$1")
"$cluster_tests/up.sh" 3
on login rm -rf "$shared/reference"   # another program made it
on login cp "$program" "$shared/longwave"
on login cp -r "$source_tree/slurm" "$shared/"
