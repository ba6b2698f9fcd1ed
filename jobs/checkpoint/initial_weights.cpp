#include "jobs/checkpoint/initial_weights.h"

#include <filesystem>

#include "jobs/checkpoint/weight_source.h"
#include "parallel/agreement.h"
#include "parallel/checkpoint/manifest.h"
#include "parallel/checkpoint/verification.h"

namespace longwave {
namespace {

bool is_position(const std::string& name) {
  return name.find(".position.") != std::string::npos || name.find("rotary_emb") != std::string::npos;
}

// Both ways: nothing of the model may stay as drawn unnoticed, nothing of the source be left out unnoticed.
void check_names(const WeightSource& source, const ParameterStore& store) {
  for (const Parameter& parameter : store.parameters()) {
    if (parameter.initialisation == Initialisation::given) continue;
    const WeightSource::Entry* entry = source.find(parameter.name);
    if (entry == nullptr) throw data_error("{}: there is no tensor {}", source.path(), parameter.name);
    if (const auto shape = extents(parameter.global_shape); entry->shape != shape) {
      throw data_error("{}: {} is [{}], the model's is [{}]", source.path(), entry->name, fmt::join(entry->shape, ", "),
                       fmt::join(shape, ", "));
    }
  }
  for (const WeightSource::Entry& entry : source.entries()) {
    bool known = is_position(entry.name);
    for (const Parameter& parameter : store.parameters()) known = known || parameter.name == entry.name;
    if (!known) throw data_error("{}: has {}, which this model does not", source.path(), entry.name);
  }
}

void copy_weights(const WeightSource& source, const ParameterStore& store, Backend& backend, const DataParallel& optimizer) {
  for (const OwnedSlice& slice : optimizer.owned_slices()) {
    const Parameter& parameter = store[slice.parameter];
    if (parameter.initialisation == Initialisation::given) continue;
    const WeightSource::Entry& entry = *source.find(parameter.name);
    std::vector<float> values(static_cast<std::size_t>(slice.master.count()));
    for (const RunPiece& piece : pieces_of_run(parameter, slice.begin, slice.master.count())) {
      const std::vector<float> part = source.read(entry, piece.rectangle);
      std::copy(part.begin(), part.end(), values.begin() + piece.offset);
    }
    backend.copy_from_host(slice.master, values.data());
  }
  backend.synchronize();
}

}  // namespace

void check_initial_weights(const std::string& path, const Transformer& model) {
  const std::string resolved = resolve_weights(path);
  check_hugging_face_config(resolved, model.config());
  check_names(*open_weights(resolved), model.parameters());
}

std::string load_initial_weights(const std::string& path, Job& job, DataParallel& optimizer) {
  std::string resolved;
  together(job.control, [&] {
    if (job.first()) resolved = resolve_weights(path);
  });
  resolved = broadcast_text(job.control, resolved, 0);
  if (std::filesystem::exists(resolved + "/" + manifest_name)) open_verified(resolved, job.control);
  together(job.control, [&] {
    const std::unique_ptr<WeightSource> source = open_weights(resolved);
    check_names(*source, job.model->parameters());
    copy_weights(*source, job.model->parameters(), job.backend(), optimizer);
  });
  optimizer.values_from_masters();
  job.model->parameters_loaded();
  return resolved;
}

}  // namespace longwave
