// One table is the truth about parameters. Initialisation, optimizer, gradient norm, checkpoint and export are loops over
// it; nothing else keeps a list of weights.
//
// Names are Hugging Face Llama names. A parameter is one logical matrix; this shard holds rows or columns [begin, end) of
// it. Fused matrices exist only in memory: q, k and v (gate and up) stand behind each other without gaps, so one view
// covers them. All trained parameters of a shard form one flat range, in the order of the forward pass; values, gradients
// and optimizer state share its offsets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor/tensor.h"

namespace longwave {

enum class Split { none, rows, columns };  // along which axis of the logical matrix the tensor axis cuts

enum class Initialisation { zeros, ones, truncated_normal, given };

struct Parameter {
  std::string name;
  Shape global_shape;          // as the world sees it: unpadded, unsplit
  Split split = Split::none;
  std::int64_t begin = 0;      // this shard's range along the split axis, in the logical matrix
  std::int64_t end = 0;        // may be past the logical extent: those rows are padding, always zero
  bool decayed = false;        // weight decay applies
  bool frozen = false;         // not trained: no gradient, no moments, not in the gradient norm
  bool partial_gradient = false;  // replicated over the tensor axis, but each shard sees part of its gradient: sum over shards
  std::int64_t replicas = 1;   // how many shards of the tensor axis hold these same values
  Initialisation initialisation = Initialisation::zeros;
  double std = 0;              // of truncated_normal, cut at 3 std

  DType dtype = DType::f32;    // of `value`: the compute type; fp32 for frozen coefficients, fp64 for kept frequencies
  Shape shape;                 // local, padding included
  std::int64_t offset = 0;     // elements, into the flat trained range, or into the frozen one

  std::int64_t count() const { return shape.count(); }
};

class ParameterStore {
 public:
  // Appends a parameter; `align` false puts it right behind the previous one (fused matrices).
  std::size_t add(Parameter parameter, bool align = true);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const Parameter& operator[](std::size_t index) const { return parameters_[index]; }
  std::size_t find(const std::string& name) const;  // LONGWAVE_CHECK: the name exists

  // Elements of the flat trained range, padding and alignment gaps included (gaps are zero and stay zero).
  std::int64_t trained_count() const { return trained_count_; }
  std::size_t frozen_bytes() const { return frozen_bytes_; }
  // Parameters as published, by the logical shapes.
  std::int64_t logical_count(bool frozen_too) const;

  // Memory given by the owner: values in the compute type [trained_count], gradients fp32 [trained_count], frozen bytes.
  void attach(Tensor values, Tensor gradients, void* frozen);
  Tensor values() const { return values_; }
  Tensor gradients() const { return gradients_; }

  Tensor value(std::size_t index) const;
  Tensor gradient(std::size_t index) const;
  // One view over `parts` adjacent parameters of equal column count: [sum of rows, columns].
  Tensor fused_value(std::size_t first, std::size_t parts) const;
  Tensor fused_gradient(std::size_t first, std::size_t parts) const;

 private:
  std::vector<Parameter> parameters_;
  std::int64_t trained_count_ = 0;
  std::size_t frozen_bytes_ = 0;
  Tensor values_, gradients_;
  void* frozen_ = nullptr;
};

// Initial values of a trained parameter's local range as fp32, from (seed, name, global element index) only.
std::vector<float> initial_values(const Parameter& parameter, std::uint64_t seed);

}  // namespace longwave
