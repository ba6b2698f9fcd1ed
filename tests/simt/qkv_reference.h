// QKV split by its definition, in fp64 on the host, forward and backward: what the kernels are held against.
#pragma once

#include "tests/unit/backend/device_tensor.h"

namespace longwave {

struct QkvInputs {
  AttentionShape shape;
  Values qkv;                        // [B T, (H + 2G) D]
  Values dq, dk, dv;                 // [B, H or G, T, D]
  Values query_gain, key_gain;       // [D]; empty: no norm
  double epsilon = 0;
  std::int64_t table_heads = 0;      // 0: no rotation
  std::int64_t positions = 0, columns = 0;
  Values cosine, sine;               // [table_heads, positions, columns]
  double tail_cosine = 1, tail_sine = 0;
};

// Gradients start from zero.
struct QkvResults {
  Values q, k, v;                    // [B, H or G, T, D]
  Values rstd;                       // [B, H + G, T], with norm
  Values dqkv;
  Values dquery_gain, dkey_gain;     // [D], with norm
  Values dcosine, dsine;             // as the table
};

QkvResults qkv_reference(const QkvInputs& inputs);

}  // namespace longwave
