#include "core/model/loss_head.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/backend/host_copy.h"
#include "core/model/projection.h"

namespace longwave {
namespace {

// Logits of a chunk should stay in the last-level cache between the passes over them. But each chunk reads the weight twice and
// its gradient, of twice the size, once, and writes that back: below 1024 rows of a large vocabulary this costs more.
std::int64_t choose_chunk(std::int64_t row_bytes) { return std::clamp<std::int64_t>((4 << 20) / row_bytes, 1024, 4096); }

}  // namespace

LossHead::LossHead(const Shard& shard, ParameterStore& store, std::size_t embedding, std::int64_t chunk_rows)
    : shard_(shard), store_(store), weight_(embedding),
      chunk_(chunk_rows > 0 ? chunk_rows : choose_chunk(shard.vocabulary() * static_cast<std::int64_t>(size_of(shard.compute())))) {
  if (!shard.model().tied) {
    weight_ = add_projection(store, shard, "lm_head.weight", {shard.model().vocabulary, shard.model().width}, Split::rows,
                             shard.first_token(), shard.vocabulary());
  }
}

void LossHead::plan(Arena& arena, const Rows& rows, LossWorkspace& work) const {
  const std::int64_t chunk = std::min(chunk_, rows.count);
  work.logits = arena.allocate(shard_.compute(), {chunk, shard_.vocabulary()});
  work.maximum = arena.allocate(DType::f32, {chunk});
  work.group_maximum = arena.allocate(DType::f32, {chunk});
  work.statistics = arena.allocate(DType::f32, {2, chunk});
  work.argmax = arena.allocate(DType::i32, {chunk});
  work.candidate = arena.allocate(DType::f32, {chunk});
  work.loss = arena.allocate(DType::f32, {rows.count});
  work.totals = arena.allocate(DType::f64, {2});
}

void LossHead::chunk_loss(Tensor hidden, Tensor targets, std::int64_t begin, std::int64_t end, const LossWorkspace& work,
                          bool want_argmax) const {
  Backend& backend = shard_.backend();
  const std::int64_t count = end - begin;
  const Tensor logits = work.logits.rows(0, count);
  const Tensor chunk_targets = targets.rows(begin, end);
  const Tensor own = work.maximum.rows(0, count);
  const Tensor group = work.group_maximum.rows(0, count);
  const Tensor sum_exp = work.statistics.rows(0, 1).view({work.statistics.shape[1]}).rows(0, count);
  const Tensor target_logit = work.statistics.rows(1, 2).view({work.statistics.shape[1]}).rows(0, count);

  backend.linear_forward(hidden.rows(begin, end), store_.value(weight_), logits);
  backend.logit_statistics(logits, chunk_targets, shard_.first_token(), shard_.model().vocabulary, own, sum_exp, target_logit,
                           want_argmax ? work.argmax.rows(0, count) : Tensor{});
  backend.copy(own, group);
  if (shard_.group().size() > 1) {
    shard_.group().all_reduce_max(group);
    backend.rescale_sum_exp(own, group, sum_exp);
    shard_.group().all_reduce_sum(work.statistics);
  }
  backend.token_loss(chunk_targets, group, sum_exp, target_logit, work.loss.rows(begin, end));
}

void LossHead::chunk_argmax(std::int64_t count, const LossWorkspace& work, std::int32_t* out) const {
  Backend& backend = shard_.backend();
  backend.copy_to_host(out, work.argmax.rows(0, count));
  if (shard_.group().size() == 1) return;
  // The lowest id among the shards that hold the maximum; ids are exact in fp32 below 2^24.
  LONGWAVE_CHECK(shard_.model().vocabulary < (1 << 24));
  std::vector<float> own(static_cast<std::size_t>(count)), group(own.size());
  backend.copy_to_host(own.data(), work.maximum.rows(0, count));
  backend.copy_to_host(group.data(), work.group_maximum.rows(0, count));
  for (std::size_t row = 0; row < own.size(); ++row) {
    own[row] = own[row] == group[row] ? -static_cast<float>(out[row]) : std::numeric_limits<float>::lowest();
  }
  const Tensor candidate = work.candidate.rows(0, count);
  backend.copy_from_host(candidate, own.data());
  shard_.group().all_reduce_max(candidate);
  backend.copy_to_host(own.data(), candidate);
  for (std::size_t row = 0; row < own.size(); ++row) out[row] = static_cast<std::int32_t>(-own[row]);
}

void LossHead::forward_backward(const Rows& rows, Tensor hidden, Tensor targets, Tensor weights, const LossWorkspace& work,
                                Tensor dhidden) const {
  Backend& backend = shard_.backend();
  const std::int64_t chunk = work.logits.shape[0];
  for (std::int64_t begin = 0; begin < rows.count; begin += chunk) {
    const std::int64_t end = std::min(begin + chunk, rows.count);
    chunk_loss(hidden, targets, begin, end, work, false);
    const Tensor logits = work.logits.rows(0, end - begin);
    backend.cross_entropy_backward(logits, targets.rows(begin, end), shard_.first_token(), shard_.model().vocabulary,
                                   work.group_maximum.rows(0, end - begin),
                                   work.statistics.rows(0, 1).view({work.statistics.shape[1]}).rows(0, end - begin),
                                   weights.rows(begin, end));
    backend.linear_backward_weight(logits, hidden.rows(begin, end), store_.gradient(weight_));
    backend.linear_backward_input(logits, store_.value(weight_), dhidden.rows(begin, end));
  }
  backend.loss_totals(targets, work.loss, weights, work.totals);
}

void LossHead::forward(const Rows& rows, Tensor hidden, Tensor targets, const LossWorkspace& work, std::int32_t* argmax) const {
  const std::int64_t chunk = work.logits.shape[0];
  for (std::int64_t begin = 0; begin < rows.count; begin += chunk) {
    const std::int64_t end = std::min(begin + chunk, rows.count);
    chunk_loss(hidden, targets, begin, end, work, argmax != nullptr);
    if (argmax != nullptr) chunk_argmax(end - begin, work, argmax + begin);
  }
}

void LossHead::logits(Tensor hidden, const LossWorkspace& work, float* out) const {
  LONGWAVE_CHECK(shard_.group().size() == 1, "whole logits exist on one shard only");
  Backend& backend = shard_.backend();
  const std::int64_t vocabulary = shard_.model().vocabulary;
  const std::int64_t chunk = work.logits.shape[0];
  for (std::int64_t begin = 0; begin < hidden.shape[0]; begin += chunk) {
    const std::int64_t end = std::min(begin + chunk, hidden.shape[0]);
    const Tensor rows = work.logits.rows(0, end - begin);
    backend.linear_forward(hidden.rows(begin, end), store_.value(weight_), rows);
    const std::vector<float> padded = download(backend, rows);
    for (auto row = padded.begin(); row != padded.end(); row += shard_.vocabulary(), out += vocabulary) {
      std::copy_n(row, vocabulary, out);
    }
  }
}

}  // namespace longwave
