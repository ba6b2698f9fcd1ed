#include "jobs/phase.h"

namespace longwave {

void Phase::enter(const std::string& name, std::int64_t step) {
  name_ = name;
  pulse(step);
}

void Phase::pulse(std::int64_t step) {
  step_ = step;
  log_.at(step, name_);
  heartbeat_.beat(name_, step);
  if (directory_ != nullptr) directory_->report(name_ == "start" ? RunState::starting : RunState::running, name_, step);
}

}  // namespace longwave
