#include "parallel/checkpoint/rectangle.h"

#include <algorithm>

#include "core/base/error.h"

namespace longwave {

Rectangle whole_of(const std::vector<std::int64_t>& shape) {
  Rectangle whole{0, 1, 0, 1};
  for (std::size_t axis = 0; axis < shape.size(); ++axis) (axis == 0 ? whole.row_end : whole.column_end) *= shape[axis];
  return whole;
}

std::optional<Rectangle> intersection(const Rectangle& a, const Rectangle& b) {
  const Rectangle both{std::max(a.row_begin, b.row_begin), std::min(a.row_end, b.row_end),
                       std::max(a.column_begin, b.column_begin), std::min(a.column_end, b.column_end)};
  if (both.rows() <= 0 || both.columns() <= 0) return std::nullopt;
  return both;
}

std::vector<std::int64_t> extents(const Shape& shape) { return {shape.extent.begin(), shape.extent.begin() + shape.rank}; }

std::vector<RunPiece> pieces_of_run(const Parameter& parameter, std::int64_t begin, std::int64_t count) {
  const Rectangle local = whole_of(extents(parameter.shape));
  const Rectangle global = whole_of(extents(parameter.global_shape));
  const std::int64_t columns = local.columns();
  const std::int64_t row_shift = parameter.split == Split::rows ? parameter.begin : 0;
  const std::int64_t column_shift = parameter.split == Split::columns ? parameter.begin : 0;
  LONGWAVE_CHECK(column_shift + columns <= global.columns(), "{}: only rows are padded", parameter.name);
  LONGWAVE_CHECK(begin >= 0 && count >= 0 && begin + count <= local.count(), "{}: [{}, +{})", parameter.name, begin, count);

  std::vector<RunPiece> pieces;
  const auto add = [&](Rectangle part, std::int64_t offset) {
    part.row_begin += row_shift;
    part.row_end = std::min(part.row_end + row_shift, global.row_end);
    part.column_begin += column_shift;
    part.column_end += column_shift;
    if (part.rows() > 0 && part.columns() > 0) pieces.push_back({part, offset});
  };
  const std::int64_t end = begin + count;
  std::int64_t at = begin;
  if (at % columns != 0) {  // the rest of a row
    const std::int64_t row_end = std::min(end, (at / columns + 1) * columns);
    add({at / columns, at / columns + 1, at % columns, at % columns + row_end - at}, 0);
    at = row_end;
  }
  if (const std::int64_t rows = (end - at) / columns; rows > 0) {
    add({at / columns, at / columns + rows, 0, columns}, at - begin);
    at += rows * columns;
  }
  if (at < end) add({at / columns, at / columns + 1, 0, end - at}, at - begin);
  return pieces;
}

}  // namespace longwave
