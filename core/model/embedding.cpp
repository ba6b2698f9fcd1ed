#include "core/model/embedding.h"

#include "core/model/projection.h"

namespace longwave {

Embedding::Embedding(const Shard& shard, ParameterStore& store) : shard_(shard), store_(store) {
  table_ = add_projection(store, shard, "model.embed_tokens.weight", {shard.model().vocabulary, shard.model().width}, Split::rows,
                          shard.first_token(), shard.vocabulary());
}

void Embedding::forward(const Rows& rows, Tensor ids, Tensor partial, Tensor out) const {
  shard_.backend().embedding_forward(ids, store_.value(table_), shard_.first_token(), partial.rows(0, rows.count));
  shard_.sum_rows(partial, rows, out);
}

void Embedding::backward(const Rows& rows, Tensor ids, Tensor dout) const {
  shard_.backend().embedding_backward(ids, dout.rows(0, rows.count), shard_.first_token(), store_.gradient(table_));
}

}  // namespace longwave
