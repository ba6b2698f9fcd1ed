#!/usr/bin/env bash
# A sweep is an array with a run directory for every cell and a last job that writes the report comparing them. Submitted
# again it runs what is not done.
# shellcheck source=tests/cluster/case.sh
. "$(dirname "$0")/case.sh"

job_file job 10
cat >sweep.yaml <<YAML
name: grid
job: job.yaml
axes:
  position: {fope: [position.kind=fope], rope: [position.kind=rope]}
  seed: {s1: [run.seed=1], s2: [run.seed=2]}
YAML
must bash "$batch/sweep.sbatch" sweep.yaml --ntasks=1
"$LONGWAVE" sweep status sweep.yaml >before.txt
must grep -Eq 'fope-s1 +(PENDING|CONFIGURING|RUNNING|DONE)' before.txt
must wait_until 120 no_jobs
for cell in fope-s1 fope-s2 rope-s1 rope-s2; do must status_says "runs/grid/$cell" state "done"; done
must test -s runs/grid/report.html
must grep -q 'rope-s2' runs/grid/report.html
"$LONGWAVE" sweep status sweep.yaml >after.txt
must grep -q '4 cells: 4 DONE' after.txt

# One cell is lost: it alone is submitted.
must rm -r runs/grid/rope-s1
must [ "$("$LONGWAVE" sweep pending sweep.yaml)" = 2 ]
must bash "$batch/sweep.sbatch" sweep.yaml --ntasks=1
must wait_until 120 no_jobs
must status_says runs/grid/rope-s1 state "done"
must status_says runs/grid/fope-s1 attempt 1

# A cell that is stopped is queued again, and it alone, even where Slurm knows it by the id of the whole array.
must rm -r runs
job_file job 1000000
must bash "$batch/sweep.sbatch" sweep.yaml --ntasks=1
last=$(tail -n 1 runs/grid/submissions.jsonl | sed 's/.*"array":"\([0-9]*\)".*/\1/')
for cell in fope-s1 rope-s2; do must wait_until 60 status_says "runs/grid/$cell" state running; done
must scancel --batch --signal=USR1 "${last}_3"
must wait_until 60 status_says runs/grid/rope-s2 exit_code 75
"$LONGWAVE" sweep status sweep.yaml >requeued.txt
must grep -Eq 'rope-s2 +(RUNNING|REQUEUED|PENDING|COMPLETING)' requeued.txt
must wait_until 60 status_says runs/grid/rope-s2 attempt 2
must status_says runs/grid/fope-s1 attempt 1

# A cell that is cut down by Slurm is shown as what happened to it.
must wait_until 60 status_says runs/grid/rope-s2 state running
must scancel --name=sweep
must wait_until 60 no_jobs
"$LONGWAVE" sweep status sweep.yaml >cut.txt
must grep -Eq 'rope-s2 +CANCELLED' cut.txt
