#include "core/model/projection.h"

namespace longwave {

std::size_t add_projection(ParameterStore& store, const Shard& shard, const std::string& name, Shape global, Split split,
                           std::int64_t first, std::int64_t count, std::int64_t replicas, bool align) {
  Parameter parameter;
  parameter.name = name;
  parameter.global_shape = parameter.shape = global;
  parameter.split = split;
  parameter.begin = first;
  parameter.end = first + count;
  parameter.shape.extent[split == Split::columns ? 1 : 0] = count;
  parameter.decayed = true;
  parameter.replicas = replicas;
  parameter.initialisation = Initialisation::truncated_normal;
  parameter.std = 0.02;
  parameter.dtype = shard.compute();
  return store.add(std::move(parameter), align);
}

}  // namespace longwave
