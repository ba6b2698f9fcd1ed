#include "jobs/same_job.h"

#include "jobs/checkpoint/saved_config.h"
#include "parallel/agreement.h"

namespace longwave {
namespace {

// Of `text`, the line that begins at `at`.
std::string line_at(const std::string& text, std::size_t at) { return text.substr(at, text.find('\n', at) - at); }

}  // namespace

void refuse_unlike_configs(Communicator& control, const Config& config, const std::string& host) {
  std::string own;
  together(control, [&] {
    for (const auto& [key, value] : config_keys(config)) own += fmt::format("{}: {}\n", key, value);
  });
  const std::string first = broadcast_text(control, own, 0);
  together(control, [&] {
    if (own == first) return;
    // Where one ends before the other, its line is empty.
    std::size_t at = 0;
    while (line_at(own, at) == line_at(first, at)) at += line_at(own, at).size() + 1;
    throw config_error("rank {} on {} has \"{}\" and rank 0 \"{}\"; give every node the same job file", control.rank(), host,
                       line_at(own, at), line_at(first, at));
  });
}

void refuse_unlike_data(Communicator& control, const Dataset& data, const std::string& host) {
  if (control.size() == 1) return;  // reading samples would be for nothing
  std::int64_t own = 0;
  together(control, [&] { own = static_cast<std::int64_t>(data.fingerprint()); });
  std::int64_t first = own;
  control.broadcast(&first, 1, Element::i64, 0);
  together(control, [&] {
    if (first == own) return;
    throw data_error("rank {} on {} has other data or another tokenizer than rank 0; give every node the same files",
                     control.rank(), host);
  });
}

}  // namespace longwave
