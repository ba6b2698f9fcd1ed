// The evaluation that ends every job: perplexity by length and passkey retrieval, spread over the data ranks, written to
// eval/ as JSON and CSV.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "jobs/job.h"
#include "jobs/progress.h"

namespace longwave {

struct LengthEvaluation {
  std::vector<PerplexityResult> perplexity;
  std::vector<PasskeyResult> passkey;
  std::vector<std::string> notes;  // lengths left out, and why
};

// Called after every pass, on every rank; collective over the tensor axis when there is one.
using EvaluationPulse = std::function<void()>;

// Collective. Lengths and trials as job.config.evaluate says; results are the same on every rank. A wish to stop ends it with
// an Error of ExitCode::requeue on all ranks.
LengthEvaluation evaluate_lengths(Job& job, Progress& progress, const EvaluationPulse& pulse);

// Collective. Mean validation loss at the training length over the first `tokens` tokens.
double validation_loss(Job& job, std::int64_t tokens, const EvaluationPulse& pulse);

// perplexity.{json,csv} and passkey.{json,csv} in `folder`, a run's eval/. Rank 0.
void write_length_evaluation(const std::string& folder, std::int64_t train_length, const LengthEvaluation& evaluation);

// A table for the terminal: a line a length.
std::string describe(const LengthEvaluation& evaluation, std::int64_t train_length);

}  // namespace longwave
