// Vocabulary-parallel cross-entropy of the CPU backend; arguments as in core/backend/backend.h.
#pragma once

#include <cstdint>

#include "core/tensor/tensor.h"

namespace longwave {

void logit_statistics_cpu(Tensor logits, Tensor targets, std::int64_t first, std::int64_t vocabulary, Tensor maximum,
                          Tensor sum_exp, Tensor target_logit, Tensor argmax);
void rescale_sum_exp_cpu(Tensor own_maximum, Tensor maximum, Tensor sum_exp);
void token_loss_cpu(Tensor targets, Tensor maximum, Tensor sum_exp, Tensor target_logit, Tensor loss);
void cross_entropy_backward_cpu(Tensor logits, Tensor targets, std::int64_t first, std::int64_t vocabulary, Tensor maximum,
                                Tensor sum_exp, Tensor weights);
void loss_totals_cpu(Tensor targets, Tensor loss, Tensor weights, Tensor totals);

}  // namespace longwave
