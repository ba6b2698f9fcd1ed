// The model's position tables: registers the frequencies and FoPE coefficients as parameters, builds cosine and sine tables
// of a length on the device, and returns the gradient of learnable coefficients. The frequencies in the store are the truth:
// a loaded model keeps those of its training, they are never computed again from an evaluation length.
#pragma once

#include <vector>

#include "core/model/parameter_store.h"
#include "core/model/shard.h"
#include "core/position/position.h"

namespace longwave {

// The tables of one length, or the series in their place, and the buffers they are built with.
struct TableSet {
  std::int64_t length = 0;
  std::vector<PositionTable> tables;  // one a layer, or one for all
  bool in_memory = true;              // false: too large for the device, which gets the series
  Tensor frequencies;                 // fp64 [D]: after scaling
  Tensor cosine_coefficients;         // fp32 [G, D, d]: copies of trained coefficients kept in another type
  Tensor sine_coefficients;

  const PositionTable& of_layer(std::int64_t layer) const {
    return tables.size() == 1 ? tables.front() : tables[static_cast<std::size_t>(layer)];
  }
};

class PositionTables {
 public:
  // `shard.model().context` is the training length.
  PositionTables(const Shard& shard, const PositionConfig& config);

  // Parameters stand in the store in this order: the model's (frequencies, shared coefficients), then each layer's.
  void add_model_parameters(ParameterStore& store);
  void add_layer_parameters(ParameterStore& store, std::int64_t layer);
  // Writes the drawn coefficients and the planned frequencies to the store.
  void initialise(ParameterStore& store, std::uint64_t seed) const;

  TableSet plan(Arena& arena, std::int64_t length) const;
  // Fills the tables from the store. `evaluating` applies the evaluation-time scaling for the set's length.
  void build(const ParameterStore& store, TableSet& set, bool evaluating) const;

  // Learnable coefficients: the table gradient is an accumulator shaped like the layer's table.
  bool learnable() const { return plan_.has_coefficients && config_.learnable; }
  PositionTable plan_gradient(Arena& arena, std::int64_t length) const;
  void backward(ParameterStore& store, std::int64_t layer, const PositionTable& dtable) const;

  void set_scaling(PositionScaling scaling, double factor);
  const PositionPlan& position_plan() const { return plan_; }
  const PositionConfig& config() const { return config_; }

 private:
  struct Coefficients {
    std::size_t cosine = 0;
    std::size_t sine = 0;
  };

  bool per_layer() const { return plan_.has_coefficients && config_.share == PositionShare::layer; }
  Coefficients add_coefficients(ParameterStore& store, const std::string& prefix) const;
  const Coefficients& coefficients_of(std::int64_t layer) const { return coefficients_[per_layer() ? static_cast<std::size_t>(layer) : 0]; }
  Tensor as_fp32(Tensor value, Tensor scratch) const;
  // Without an arena: shapes alone.
  PositionTable plan_table(Arena* arena, std::int64_t length) const;

  const Shard& shard_;
  PositionConfig config_;
  PositionPlan plan_;
  std::size_t frequencies_ = 0;          // set when the plan is active
  std::vector<Coefficients> coefficients_;  // one, or one per layer
};

}  // namespace longwave
