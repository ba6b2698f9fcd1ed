#include "parallel/agreement.h"

namespace longwave {

std::string broadcast_text(Communicator& control, std::string text, int root) {
  auto size = static_cast<std::int64_t>(text.size());
  control.broadcast(&size, 1, Element::i64, root);
  text.resize(static_cast<std::size_t>(size));
  if (size > 0) control.broadcast(text.data(), size, Element::byte, root);
  return text;
}

void raise_together(Communicator& control, const Failure& failure) {
  // The lowest failing rank has the largest claim.
  const std::int64_t claim = failure ? control.size() - control.rank() : 0;
  const std::int64_t largest = all_reduce_value(control, claim, Reduction::max);
  if (largest == 0) return;
  const int rank = control.size() - static_cast<int>(largest);
  std::int64_t code = failure ? static_cast<std::int64_t>(failure->code()) : 0;
  control.broadcast(&code, 1, Element::i64, rank);
  const std::string message = broadcast_text(control, failure ? failure->what() : "", rank);
  throw SharedError(static_cast<ExitCode>(code), message, rank);
}

}  // namespace longwave
