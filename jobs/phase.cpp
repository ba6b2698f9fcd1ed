#include "jobs/phase.h"

namespace longwave {

void Phase::enter(const std::string& name, std::int64_t step) {
  log_change(name);
  name_ = name;
  pulse(step);
}

void Phase::leave() {
  log_change("end");
  heartbeat_.beat("end", step_);
}

// An event of the phase that ends: its line carries the phase's name and last step.
void Phase::log_change(const std::string& name) {
  if (name == name_) return;
  const auto now = std::chrono::steady_clock::now();
  log_.info("phase", {{"seconds", std::chrono::duration<double>(now - entered_).count()}, {"next", name}});
  entered_ = now;
}

void Phase::pulse(std::int64_t step) {
  step_ = step;
  log_.at(step, name_);
  heartbeat_.beat(name_, step);
  if (directory_ != nullptr) directory_->report(name_ == "start" ? RunState::starting : RunState::running, name_, step);
}

}  // namespace longwave
