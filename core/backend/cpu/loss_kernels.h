// One row of logits; loss.h has the rows.
#pragma once

#include "core/backend/cpu/isa.h"

namespace longwave {

struct LogitStatistics {
  float maximum;         // minus infinity when there is no column
  float sum_exp;         // of e^(logit - maximum)
  std::int64_t argmax;   // the lowest column that holds the maximum; 0 when there is none
};

struct LossKernels {
  LogitStatistics (*statistics[activation_types])(const void* logits, std::int64_t columns, bool want_argmax);
  // logits <- weight * e^(logits - maximum) / sum_exp
  void (*backward[activation_types])(void* logits, std::int64_t columns, float maximum, float sum_exp, float weight);
};

LONGWAVE_DECLARE_KERNELS(LossKernels, loss_kernels)

}  // namespace longwave
