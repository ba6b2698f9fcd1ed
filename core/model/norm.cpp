#include "core/model/norm.h"

namespace longwave {

Norm::Norm(const Shard& shard, ParameterStore& store, const std::string& name) : shard_(shard), store_(store) {
  Parameter gain;
  gain.name = name;
  gain.global_shape = gain.shape = {shard.model().width};
  gain.decayed = true;  // the paper decays everything that is trained
  gain.partial_gradient = shard.group().sequence_parallel();
  gain.replicas = shard.group().size();
  gain.initialisation = Initialisation::ones;
  gain.dtype = shard.compute();
  gain_ = store.add(std::move(gain));
}

void Norm::forward(const NormActivations& saved) const {
  shard_.backend().rmsnorm_forward(saved.input, store_.value(gain_), static_cast<float>(shard_.model().norm_epsilon), saved.output,
                                   saved.rstd);
}

void Norm::add_forward(Tensor residual, const NormActivations& saved) const {
  shard_.backend().add_rmsnorm_forward(saved.input, residual, store_.value(gain_),
                                       static_cast<float>(shard_.model().norm_epsilon), saved.output, saved.rstd);
}

void Norm::backward(Tensor doutput, const NormActivations& saved, Tensor gradient) const {
  shard_.backend().rmsnorm_backward(doutput, saved.input, store_.value(gain_), saved.rstd, gradient, store_.gradient(gain_));
}

}  // namespace longwave
