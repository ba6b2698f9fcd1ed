// The model: embedding, blocks, final norm, head and loss, forward and backward by hand. Llama-shaped: pre-norm RMSNorm,
// SwiGLU, grouped KV heads, no biases. One object is one shard of the tensor axis on one device.
#pragma once

#include <cstdint>
#include <memory>

#include "core/backend/backend.h"
#include "core/model/model_config.h"
#include "core/model/parameter_store.h"
#include "core/model/tensor_group.h"
#include "core/position/position.h"

namespace longwave {

struct TransformerOptions {
  DType compute = DType::f32;
  std::uint64_t seed = 1;
  std::int64_t logits_chunk_rows = 0;  // rows whose logits exist at a time; 0 chooses so that they stay in cache
};

// Sums over a micro-batch, to be reduced over micro-batches and ranks and divided once.
struct LossTotals {
  double weighted_loss = 0;
  double weight = 0;
};

// Seconds of the device in the passes since zero_gradients. The head, which computes loss and gradient together, belongs to the
// backward.
struct PassTimes {
  double forward = 0;
  double backward = 0;
};

struct MemoryPlan {
  std::size_t parameters = 0;   // compute values and frozen coefficients
  std::size_t gradients = 0;
  std::size_t activations = 0;  // saved for the backward, and working buffers
  std::size_t tables = 0;       // position tables
};

class Transformer {
 public:
  // With `backend` null the object only plans: no memory is taken and nothing can be computed.
  Transformer(const ModelConfig& model, const PositionConfig& position, const TransformerOptions& options, Backend* backend,
              TensorGroup& group);
  ~Transformer();
  Transformer(const Transformer&) = delete;
  Transformer& operator=(const Transformer&) = delete;

  const ModelConfig& config() const;
  const PositionConfig& position() const;
  ParameterStore& parameters();
  const ParameterStore& parameters() const;

  // Initial weights and coefficients, the same on every mesh.
  void initialise();

  // Takes the memory for training micro-batches of `batch` sequences of `length` tokens; gradients too. Once, before step 0.
  void prepare_training(std::int64_t batch, std::int64_t length);
  // Takes (or grows) the memory for evaluating up to `batch` sequences of `length` tokens at a time, and builds the position
  // tables of that length. Training memory is untouched.
  void prepare_evaluation(std::int64_t batch, std::int64_t length);
  MemoryPlan plan_training(std::int64_t batch, std::int64_t length) const;

  // One micro-batch: host pointers tokens, targets int32 [batch * length] (a negative target has no loss) and weights fp32
  // of the same count (null: all 1). Gradients of the weighted *sum* of losses are added to the store's, its sums to totals().
  // Returns before it is done: memory of the backend's allocate_host must stay as it is until the backend is synchronized.
  // What it queues depends on the pointers alone, but for tables that are not built yet: those of parameters_loaded, once.
  // When gradients of the parameters from flat offset `begin` on are complete, `ready(begin)` is called, descending, so
  // that their reduction can start while the backward goes on. Null: not called. Only for the last micro-batch of a step.
  using GradientsReady = void (*)(void* context, std::int64_t begin);
  void accumulate(const std::int32_t* tokens, const std::int32_t* targets, const float* weights, GradientsReady ready = nullptr,
                  void* context = nullptr);
  // Device memory fp64 [2]: the sums of LossTotals, of all micro-batches since zero_gradients.
  Tensor totals() const;
  // accumulate, and the wait for this micro-batch's own sums, which are added to `totals`.
  void forward_backward(const std::int32_t* tokens, const std::int32_t* targets, const float* weights, LossTotals& totals,
                        GradientsReady ready = nullptr, void* context = nullptr);
  PassTimes pass_times() const;  // after the backend was synchronized
  void zero_gradients();
  // After a step changed the trained values (learnable tables are rebuilt), or after values were loaded (all are).
  void parameters_changed();
  void parameters_loaded();

  // Forward only, with bounded memory: one layer's activations. At most the batch and length prepared. losses fp32 and argmax
  // int32 (the most likely next token), host [batch * length]; either may be null. `targets` may be null without losses.
  void evaluate(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t batch, std::int64_t length,
                float* losses, std::int32_t* argmax);
  // Logits of the last token of one sequence, host fp32 [vocabulary], and of all its tokens, host fp32 [length, vocabulary].
  void next_token_logits(const std::int32_t* tokens, std::int64_t length, float* logits);
  void sequence_logits(const std::int32_t* tokens, std::int64_t length, float* logits);
  // Position scaling from the next prepare_evaluation on (PI, NTK, YaRN).
  void set_scaling(PositionScaling scaling, double factor);

  // Matrix-product and attention operations of one forward pass, counted as multiply and add; causal attention counts the
  // pairs j <= i only; the backward is twice that. Per token, for sequences of `length`.
  double forward_operations_per_token(std::int64_t length) const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> impl_;
};

}  // namespace longwave
