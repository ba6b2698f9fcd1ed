// Embedding rows of a vocabulary shard; arguments as in core/backend/backend.h.
#pragma once

#include <cstdint>

#include "core/tensor/tensor.h"

namespace longwave {

void embedding_forward_cpu(Tensor ids, Tensor table, std::int64_t first, Tensor out);
void embedding_backward_cpu(Tensor ids, Tensor dout, std::int64_t first, Tensor dtable);

}  // namespace longwave
