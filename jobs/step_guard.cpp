#include "jobs/step_guard.h"

#include <fmt/format.h>

namespace longwave {
namespace {

constexpr double decay = 0.98;  // of the average: it remembers about fifty steps

}  // namespace

std::string StepGuard::judge(const StepResult& result) {
  std::string wrong;
  if (!result.finite) {
    wrong = fmt::format("loss or gradient is not finite (loss {}, gradient norm {})", result.loss, result.grad_norm);
  } else if (spike_ > 0 && state_.accepted >= warmup && result.grad_norm > spike_ * state_.norm_average) {
    wrong = fmt::format("gradient norm {:.4g} is more than {} times its average {:.4g}", result.grad_norm, spike_, state_.norm_average);
  }
  if (!wrong.empty()) {
    ++state_.bad_in_a_row;
    return wrong;
  }
  // The first steps count alike, later ones fade.
  const double share = state_.accepted < 50 ? 1.0 / static_cast<double>(state_.accepted + 1) : 1 - decay;
  state_.norm_average += share * (result.grad_norm - state_.norm_average);
  ++state_.accepted;
  state_.bad_in_a_row = 0;
  return wrong;
}

}  // namespace longwave
