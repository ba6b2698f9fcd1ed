#!/usr/bin/env bash
# part.sh NAME OUT PACK: one part of tests/gpu.sh, which wrote the programs' scripts into OUT/bin and may stop this with SIGTERM.
# Exit code 3: it does not apply to this machine, as the last line says; 75: it goes on where it was stopped.
set -euo pipefail
part=$1 out=$2 pack=$3

say() { printf '%s\n' "$*"; }
data=("run.dir=$out/runs" "data.train=$pack/data/train.lwtok" "data.validation=$pack/data/validation.lwtok")
have_torch() { python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; }

# Activations are bf16 on a GPU, so the suite's cases in fp32 do not apply.
suite() { "$out/bin/kernel_suite" "--gtest_filter=$1:-*/fp32*" "${@:2}"; }

# A checker is hundreds of times slower than the GPU: it gets cases of small sizes that reach every kernel between them.
every_kernel='*CudaAttention*:*CudaQkvSplit*:CudaEmbedding*:*CudaPositionTable/*:*Embedding/*:*RmsNorm*:*Loss*:*AdamW*:SumOf*'
every_kernel+=':*Elementwise*:Copy*:*TileProduct*:Warp*:Block*'
check() {
  local checker
  checker=$(command -v compute-sanitizer || compgen -G '/usr/local/cuda*/bin/compute-sanitizer' | head -n 1) ||
    { say "no compute-sanitizer on this machine"; exit 3; }
  exec "$checker" --tool "$1" --error-exitcode 9 --target-processes all "$out/bin/kernel_suite" \
    "--gtest_filter=$2:-*/fp32*"
}

model() {
  local peer=()
  if have_torch; then peer=(--python python3); else say "python3 has no PyTorch with CUDA: ours alone"; fi
  export TORCHINDUCTOR_CACHE_DIR=$out/inductor
  exec python3 tests/bench/bench.py --worker "$out/bin/bench_worker" --layouts gpu --cases "gpu-$1" --rounds 5 --seconds 2 \
    --json "$out/$1.json" "${peer[@]}"
}

case $part in
  start)
    suite '*' --gtest_list_tests >"$out/cases"
    say "$(grep -c '^  ' "$out/cases") cases in the kernel suite"
    "$out/bin/gpu_kernels" --help >/dev/null
    "$out/bin/bench_worker" --help >/dev/null
    "$out/bin/longwave" --version
    rm -rf "$out/runs/start"
    exec "$out/bin/longwave" train tests/gpu/60m.yaml "${data[@]}" run.name=start run.device=cpu \
      model.layers=1 model.width=128 model.heads=2 model.mlp_hidden=128 model.vocabulary=257 model.context=64 \
      train.steps=2 train.batch=2 schedule.warmup=1 'evaluate.lengths=[64]' evaluate.tokens=256
    ;;
  suite) suite '*' "--gtest_output=json:$out/suite.json" ;;
  train) exec "$out/bin/longwave" train tests/gpu/60m.yaml "${data[@]}" ;;
  graph)
    results() { grep -o '"\(loss\|grad_norm\)": *[^,}]*' "$out/runs/graph-$1/metrics.jsonl"; }
    for graph in false true; do
      rm -rf "$out/runs/graph-$graph"
      "$out/bin/longwave" train tests/gpu/60m.yaml "${data[@]}" "run.name=graph-$graph" "run.cuda_graph=$graph" train.steps=40 \
        train.micro_batch=16 evaluate.every=15 evaluate.tokens=8192 'evaluate.lengths=[512]' logging.every=1
    done
    [ -n "$(results true)" ] && diff <(results false) <(results true)
    ;;
  kernels) exec "$out/bin/gpu_kernels" --json "$out/kernels.json" ;;
  attention)
    have_torch || { say "python3 has no PyTorch with CUDA"; exit 3; }
    "$out/bin/gpu_kernels" --only attention --json "$out/attention-ours.json"
    exec python3 tests/gpu/attention.py "$out/attention-ours.json" "$out/attention.json"
    ;;
  60m | 180m | 1.2b) model "$part" ;;
  memcheck) check memcheck "$every_kernel" ;;
  racecheck) check racecheck "$every_kernel" ;;  # of shared memory
esac
