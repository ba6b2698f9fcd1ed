#include "core/model/parameter_store.h"

#include "core/base/divide.h"
#include "core/base/random.h"

namespace longwave {
namespace {

constexpr std::int64_t flat_alignment = 64;      // elements: 256 bytes of fp32
constexpr std::size_t frozen_alignment = 256;    // bytes

}  // namespace

std::size_t ParameterStore::add(Parameter parameter, bool align) {
  if (parameter.frozen) {
    frozen_bytes_ = round_up(frozen_bytes_, frozen_alignment);
    parameter.offset = static_cast<std::int64_t>(frozen_bytes_);
    frozen_bytes_ += static_cast<std::size_t>(parameter.count()) * size_of(parameter.dtype);
  } else {
    if (align) trained_count_ = round_up(trained_count_, flat_alignment);
    parameter.offset = trained_count_;
    trained_count_ += parameter.count();
  }
  parameters_.push_back(std::move(parameter));
  return parameters_.size() - 1;
}

std::size_t ParameterStore::find(const std::string& name) const {
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    if (parameters_[index].name == name) return index;
  }
  LONGWAVE_CHECK(false, "no parameter is called {}", name);
  return 0;
}

std::int64_t ParameterStore::logical_count(bool frozen_too) const {
  std::int64_t sum = 0;
  for (const Parameter& parameter : parameters_) {
    if (frozen_too || !parameter.frozen) sum += parameter.global_shape.count();
  }
  return sum;
}

void ParameterStore::attach(Tensor values, Tensor gradients, void* frozen) {
  LONGWAVE_CHECK(values.count() == trained_count_);
  LONGWAVE_CHECK(!gradients || gradients.count() == trained_count_);
  values_ = values;
  gradients_ = gradients;
  frozen_ = frozen;
}

Tensor ParameterStore::value(std::size_t index) const {
  const Parameter& parameter = parameters_[index];
  if (!parameter.frozen) return values_.rows(parameter.offset, parameter.offset + parameter.count()).view(parameter.shape);
  return {static_cast<char*>(frozen_) + parameter.offset, parameter.dtype, parameter.shape};
}

Tensor ParameterStore::gradient(std::size_t index) const {
  const Parameter& parameter = parameters_[index];
  LONGWAVE_CHECK(!parameter.frozen && gradients_, "{} has no gradient", parameter.name);
  return gradients_.rows(parameter.offset, parameter.offset + parameter.count()).view(parameter.shape);
}

namespace {

Tensor fuse(const std::vector<Parameter>& parameters, std::size_t first, std::size_t parts, Tensor flat) {
  std::int64_t rows = 0;
  std::int64_t end = parameters[first].offset;
  const std::int64_t columns = parameters[first].shape[1];
  for (std::size_t part = first; part < first + parts; ++part) {
    LONGWAVE_CHECK(parameters[part].offset == end && parameters[part].shape[1] == columns, "{} is not adjacent",
                   parameters[part].name);
    rows += parameters[part].shape[0];
    end += parameters[part].count();
  }
  return flat.rows(parameters[first].offset, end).view({rows, columns});
}

}  // namespace

Tensor ParameterStore::fused_value(std::size_t first, std::size_t parts) const { return fuse(parameters_, first, parts, values_); }

Tensor ParameterStore::fused_gradient(std::size_t first, std::size_t parts) const {
  return fuse(parameters_, first, parts, gradients_);
}

std::vector<float> initial_values(const Parameter& parameter, std::uint64_t seed) {
  const float fill = parameter.initialisation == Initialisation::ones ? 1.0f : 0.0f;
  std::vector<float> values(static_cast<std::size_t>(parameter.count()), fill);
  if (parameter.initialisation != Initialisation::truncated_normal) return values;

  LONGWAVE_CHECK(parameter.shape.rank == 2, "{}: only matrices are drawn", parameter.name);
  const RandomKey key(seed, "init", parameter.name);
  const std::int64_t global_rows = parameter.global_shape[0];
  const std::int64_t global_columns = parameter.global_shape[1];
  const std::int64_t first_row = parameter.split == Split::rows ? parameter.begin : 0;
  const std::int64_t first_column = parameter.split == Split::columns ? parameter.begin : 0;
  for (std::int64_t row = 0; row < parameter.shape[0]; ++row) {
    const std::int64_t global_row = first_row + row;
    if (global_row >= global_rows) break;  // vocabulary padding stays zero
    for (std::int64_t column = 0; column < parameter.shape[1]; ++column) {
      const auto index = static_cast<std::uint64_t>(global_row * global_columns + first_column + column);
      values[static_cast<std::size_t>(row * parameter.shape[1] + column)] =
          static_cast<float>(parameter.std * key.truncated_normal(3.0, index));
    }
  }
  return values;
}

}  // namespace longwave
