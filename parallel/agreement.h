// Decisions that every rank takes together. A rank that fails alone must not leave the others waiting in a collective: work
// that can fail on one rank runs inside `together`, and then either all ranks go on or all throw the same Error.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "parallel/communicator.h"

namespace longwave {

// An Error that all ranks throw; `rank` is the one it happened on.
class SharedError : public Error {
 public:
  SharedError(ExitCode code, const std::string& message, int rank) : Error(code, message), rank_(rank) {}
  int rank() const { return rank_; }

 private:
  int rank_;
};

// This rank's failure, or none, for `raise_together`.
using Failure = std::optional<Error>;

// Runs `work` and keeps what it throws: an Error as it is, anything else as a bug of ours.
template <class Work>
Failure capture(Work&& work) {
  try {
    std::forward<Work>(work)();
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(ExitCode::bug, error.what());
  }
  return std::nullopt;
}

// Collective: if any rank failed, all throw the failure of the lowest such rank.
void raise_together(Communicator& control, const Failure& failure);

// Collective: runs `work` on every rank and raises together.
template <class Work>
void together(Communicator& control, Work&& work) {
  raise_together(control, capture(std::forward<Work>(work)));
}

// Collective: rank `root`'s text on every rank.
std::string broadcast_text(Communicator& control, std::string text, int root);

}  // namespace longwave
