#include "jobs/trainer.h"

#include <algorithm>
#include <cmath>

#include "core/base/stop_request.h"
#include "core/base/stop_watch.h"
#include "core/optimizer/schedule.h"
#include "jobs/length_evaluation.h"
#include "jobs/report/format.h"
#include "parallel/agreement.h"

namespace longwave {
Trainer::Trainer(Job& job, Sampler sampler, DataParallel& optimizer, RunCheckpoints& checkpoints, Phase& phase, Progress& progress,
                 double rate)
    : job_(job), sampler_(std::move(sampler)), optimizer_(optimizer), checkpoints_(checkpoints), phase_(phase), progress_(progress),
      rate_(rate), guard_(job.config.train.spike), graph_(job, optimizer, phase, progress) {
  const std::int64_t sequences = job.config.train.batch / job.mesh->shape().data;
  batch_tokens_ = sequences * job.config.model.context;
  const auto count = static_cast<std::size_t>(batch_tokens_);
  tokens_ = HostMemory(job.backend(), count * sizeof(std::int32_t));
  targets_ = HostMemory(job.backend(), count * sizeof(std::int32_t));
  weights_ = HostMemory(job.backend(), count * sizeof(float));
  memory_ = memory_by_kind(job.model->plan_training(job.config.train.micro_batch, job.config.model.context), optimizer.state_bytes());
}

Trainer::Outcome Trainer::run(const TrainingState& state) {
  step_ = logged_step_ = state.step;
  updates_ = state.updates;
  guard_.resume(state.guard);
  seconds_ = state.seconds;
  try {
    return train();
  } catch (const SharedError&) {
    checkpoints_.settle();
    throw;
  }
}

Trainer::Outcome Trainer::train() {
  const Config& config = job_.config;
  phase_.enter("train", step_);
  progress_.begin_phase(step_, config.train.steps);
  logged_at_ = Clock::now();
  while (step_ < config.train.steps) {
    if (stop_wanted()) {
      checkpoints_.save_now(state(), true);
      return Outcome::stopped;
    }
    together(job_.control, [&] {
      const StopWatch watch(times_.data);
      load_batch();
    });
    const StepResult result = compute_gradients();
    const double learning_rate = learning_rate_at(config.schedule, config.optimizer.learning_rate, step_, config.train.steps);
    if (accept(result)) update(result);
    ++step_;
    phase_.pulse(step_);
    const bool last = step_ == config.train.steps;
    if (step_ % config.logging.every == 0 || last || step_ == 1) log_step(result, learning_rate);
    if (config.evaluate.every > 0 && step_ % config.evaluate.every == 0 && job_.data->has_validation()) log_validation();
  }
  checkpoints_.save_now(state(), false);
  return Outcome::done;
}

// A step's boundary: one reduction carries what any rank has to say, and all act on it.
bool Trainer::stop_wanted() {
  std::int64_t said[4] = {stop_requested(), checkpoints_.due(step_), checkpoints_.busy(), graph_.wants_record()};
  job_.control.all_reduce(said, 4, Element::i64, Reduction::max);
  const std::int64_t signal = said[0];
  records_ = said[3] != 0;
  if (signal == 0) {
    checkpoints_.at_boundary(said[1] != 0, said[2] != 0, state());
    return false;
  }
  stop_reason_ = fmt::format("stopped by {} after step {}", signal_name(static_cast<int>(signal)), step_);
  phase_.log().info("signal", {{"message", stop_reason_}});
  return true;
}

void Trainer::load_batch() {
  const Config& config = job_.config;
  const std::int64_t sequences = config.train.batch / job_.mesh->shape().data;
  const std::int64_t first = step_ * config.train.batch + job_.mesh->data_rank() * sequences;
  for (std::int64_t i = 0; i < sequences; ++i) {
    const std::int64_t at = i * config.model.context;
    sampler_.sample(first + i, {tokens_.as<std::int32_t>() + at, targets_.as<std::int32_t>() + at, weights_.as<float>() + at});
  }
}

// What is the same in every step: the batch lies where it always lies.
void Trainer::queue_gradients(Clock::time_point& passes_queued) {
  const Config& config = job_.config;
  optimizer_.begin_step();
  {
    const StopWatch watch(times_.backward);
    job_.model->zero_gradients();
  }
  const std::int64_t micro_tokens = config.train.micro_batch * config.model.context;
  for (std::int64_t at = 0; at < batch_tokens_; at += micro_tokens) {
    const bool last = at + micro_tokens == batch_tokens_;
    job_.model->accumulate(tokens_.as<std::int32_t>() + at, targets_.as<std::int32_t>() + at, weights_.as<float>() + at,
                           last ? DataParallel::gradients_ready : nullptr, &optimizer_);
  }
  passes_queued = Clock::now();
  optimizer_.queue_results(job_.model->totals());
}

StepResult Trainer::compute_gradients() {
  const WaitWatch wait_watch(times_.exposed_communication);
  const Clock::time_point begin = Clock::now();
  Clock::time_point queued = begin;  // a replay queues all at once
  graph_.run([&] { queue_gradients(queued); }, records_);
  const StepResult result = optimizer_.read_results();
  const PassTimes passes = job_.model->pass_times();
  times_.forward += passes.forward;
  times_.backward += passes.backward;
  // A device is still at the passes when they are queued; what of the wait is theirs is not the optimizer's.
  const std::chrono::duration<double> all = Clock::now() - begin, waited = Clock::now() - queued;
  times_.optimizer += std::clamp(all.count() - passes.forward - passes.backward, 0.0, waited.count());
  return result;
}

bool Trainer::accept(const StepResult& result) {
  const std::string wrong = guard_.judge(result);
  if (wrong.empty()) return true;
  const std::string message = fmt::format("step {}: {}", step_ + 1, wrong);
  phase_.log().warning("bad_step", {{"message", message}});
  if (job_.config.train.on_bad_step == OnBadStep::stop) {
    throw SharedError(ExitCode::bad_step, message + "; train.on_bad_step is stop", 0);
  }
  if (guard_.hopeless()) {
    throw SharedError(ExitCode::bad_step, fmt::format("{}, the {}th in a row; lower optimizer.learning_rate or look at the data", message,
                                                      StepGuard::most_in_a_row), 0);
  }
  progress_.say(message + "; the update is skipped");
  return false;
}

void Trainer::update(const StepResult& result) {
  const StopWatch watch(times_.optimizer);
  const WaitWatch wait_watch(times_.exposed_communication);
  const OptimizerConfig& adamw = job_.config.optimizer;
  ++updates_;
  AdamWStep step;
  step.learning_rate =
      static_cast<float>(learning_rate_at(job_.config.schedule, adamw.learning_rate, step_, job_.config.train.steps));
  step.beta1 = static_cast<float>(adamw.beta1);
  step.beta2 = static_cast<float>(adamw.beta2);
  step.epsilon = static_cast<float>(adamw.epsilon);
  step.weight_decay = static_cast<float>(adamw.weight_decay);
  step.bias_correction1 = static_cast<float>(1 - std::pow(adamw.beta1, static_cast<double>(updates_)));
  step.bias_correction2 = static_cast<float>(1 - std::pow(adamw.beta2, static_cast<double>(updates_)));
  step.gradient_scale = result.gradient_scale(adamw.clip);
  optimizer_.apply(step);
  job_.model->parameters_changed();
}

void Trainer::log_step(const StepResult& result, double learning_rate) {
  const Config& config = job_.config;
  const Clock::time_point now = Clock::now();
  const double elapsed = std::chrono::duration<double>(now - logged_at_).count();
  const auto tokens_a_step = static_cast<double>(config.train.batch * config.model.context);
  const double tokens_per_second = static_cast<double>(step_ - logged_step_) * tokens_a_step / elapsed;
  const double operations = 3 * job_.model->forward_operations_per_token(config.model.context);
  const double share = tokens_per_second * operations / rate_;
  seconds_ += elapsed;
  const SlowestRank slowest = find_slowest(job_.control, times_.own_work());

  Json event = {{"steps", step_ - logged_step_}, {"seconds", elapsed}};
  event.update(times_.to_json());
  phase_.log().info("step", event);
  if (RunDirectory* directory = phase_.directory()) {
    Json line = {{"step", step_},
                 {"loss", result.loss},
                 {"learning_rate", learning_rate},
                 {"grad_norm", result.grad_norm},
                 {"tokens", static_cast<std::int64_t>(static_cast<double>(step_) * tokens_a_step)},
                 {"seconds", seconds_},
                 {"tokens_per_second", tokens_per_second},
                 {"mfu", share}};
    line.update(times_.to_json());
    line.update({{"slowest_rank", slowest.rank},
                 {"slowest_rank_behind_seconds", slowest.behind},
                 {"skipped", step_ - updates_},
                 {"memory_bytes", memory_}});
    directory->metrics().append(line);
  }
  progress_.update(step_, fmt::format("step {:>{}}/{}  loss {:.4f}  lr {:.2e}  norm {:>6.3f}  {:>6} tok/s  {:>3.0f} % of rate", step_,
                                      fmt::formatted_size("{}", config.train.steps), config.train.steps, result.loss, learning_rate,
                                      result.grad_norm, show_count(tokens_per_second), 100 * share),
                   true);
  times_ = {};
  logged_step_ = step_;
  logged_at_ = now;
}

void Trainer::log_validation() {
  const Clock::time_point begin = Clock::now();
  phase_.enter("evaluate", step_);
  const double loss = validation_loss(job_, job_.config.evaluate.tokens, [&] { phase_.pulse(step_); });
  if (RunDirectory* directory = phase_.directory()) {
    directory->metrics().append({{"step", step_}, {"validation_loss", loss}});
  }
  progress_.say(fmt::format("step {}  validation loss {:.4f}", step_, loss));
  phase_.enter("train", step_);
  logged_at_ += Clock::now() - begin;  // not a part of the steps' time
}

}  // namespace longwave
