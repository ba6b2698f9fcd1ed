// What a job will do and need, found without doing it: `longwave plan`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jobs/config/config.h"
#include "jobs/plan/calibration.h"

namespace longwave {

struct PlanOptions {
  std::int64_t ranks = 1;
  bool calibrate = true;
};

struct Plan {
  Config config;  // finished for that many ranks
  std::int64_t ranks = 1;

  std::vector<std::pair<std::string, std::int64_t>> parameters;  // by part of the model, as published: no padding
  std::int64_t trained = 0;
  std::int64_t frozen = 0;

  double forward_operations_per_token = 0;  // at the training length; training is three times that

  std::vector<std::pair<std::string, std::size_t>> memory;  // bytes of one rank, by kind
  std::size_t memory_total = 0;

  std::int64_t tokens_per_step = 0;
  std::int64_t tokens = 0;                  // of the whole training
  std::optional<std::int64_t> data_tokens;  // of the training sources
  std::string data_note;                    // why they could not be opened

  std::string device;
  std::optional<Calibration> measured;
  std::string measure_note;          // why nothing was measured
  double evaluation_operations = 0;  // of all ranks, at the end of the job

  double training_seconds() const { return measured->seconds_per_step * static_cast<double>(config.train.steps); }
  double evaluation_seconds() const;
};

// Opens the data where it is there already, and writes nothing. Throws config_error, and data_error where the vocabulary
// depends on what cannot be opened.
Plan make_plan(Config config, const PlanOptions& options);

std::string plan_text(const Plan& plan);
std::string plan_json(const Plan& plan);

}  // namespace longwave
