#!/usr/bin/env bash
# A job submitted with train.sbatch to two nodes runs one world of ranks, finishes and leaves its report. It may
# look at its nodes first.
# shellcheck source=tests/cluster/case.sh
. "$(dirname "$0")/case.sh"

fits_small_disk
job_file job 20
submit --nodes=2 --ntasks-per-node=1 --cpus-per-task=2 "$batch/train.sbatch" --preflight job.yaml
must ends "$job" 120
must in_state "$job" COMPLETED
must status_says "$run" state "done"
must test -s "$run/report.html"
must test -s "$run/eval/perplexity.json"
must grep -q '"ranks": 2' "$run/provenance.json"
must grep -q "\"job_id\": \"$job\"" "$run/provenance.json"
must log_says 'preflight: all 2 nodes are fit'
must log_says 'preflight: one step of training on 2 ranks is done'
must log_says 'launcher: srun --mpi=pmix'
must log_says 'rank 1 on node[1-3]: cpus '

# The directory alone tells the story.
"$LONGWAVE" run show "$run" >show.txt
must grep -q "Slurm job $job" show.txt
must grep -q 'state: done at step 20 of 20' show.txt
must grep -q 'runs/job  *done  *20 ' <("$LONGWAVE" run list runs)
