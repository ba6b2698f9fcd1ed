// Head and loss, vocabulary-parallel and chunked: the logits of only `chunk` rows exist at a time, and training turns each
// chunk into its gradients before the next is made, so no logit is computed twice and a long sequence needs no more memory.
#pragma once

#include "core/model/parameter_store.h"
#include "core/model/shard.h"

namespace longwave {

struct LossWorkspace {
  Tensor logits;      // [chunk, V']
  Tensor maximum;     // fp32 [chunk]: of this shard
  Tensor group_maximum;  // fp32 [chunk]
  Tensor statistics;  // fp32 [2, chunk]: sum_exp, target_logit, so that one reduction carries both
  Tensor argmax;      // int32 [chunk]
  Tensor candidate;   // fp32 [chunk]: minus the id of the group's maximum
  Tensor loss;        // fp32 [rows]
  Tensor totals;      // fp64 [2]
};

class LossHead {
 public:
  // A tied head is the embedding's parameter; else it registers lm_head.weight. chunk_rows 0: chosen from the row's size.
  LossHead(const Shard& shard, ParameterStore& store, std::size_t embedding, std::int64_t chunk_rows);

  void plan(Arena& arena, const Rows& rows, LossWorkspace& work) const;

  // hidden [padded rows, W], gathered. Adds (sum of weight * loss, sum of weights) to work.totals; writes dhidden (may not be
  // hidden's memory) and adds to the head's gradient, both of the weighted sum of losses.
  void forward_backward(const Rows& rows, Tensor hidden, Tensor targets, Tensor weights, const LossWorkspace& work,
                        Tensor dhidden) const;
  // Losses to work.loss. argmax to host int32 [rows], unless null.
  void forward(const Rows& rows, Tensor hidden, Tensor targets, const LossWorkspace& work, std::int32_t* argmax) const;
  // logits of the rows of `hidden`, to host fp32 [rows, vocabulary]; one shard only.
  void logits(Tensor hidden, const LossWorkspace& work, float* out) const;

 private:
  // Logits and losses of rows [begin, end): leaves the group's maximum and sums in `work`.
  void chunk_loss(Tensor hidden, Tensor targets, std::int64_t begin, std::int64_t end, const LossWorkspace& work, bool want_argmax) const;
  void chunk_argmax(std::int64_t count, const LossWorkspace& work, std::int32_t* out) const;

  const Shard& shard_;
  ParameterStore& store_;
  std::size_t weight_;
  std::int64_t chunk_;
};

}  // namespace longwave
