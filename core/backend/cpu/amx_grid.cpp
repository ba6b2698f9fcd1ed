#include "core/backend/cpu/amx_grid.h"

namespace longwave {

AmxRange amx_part(std::int64_t count, std::int64_t parts, std::int64_t index) {
  const std::int64_t blocks = divide_up(count, amx_block);
  const auto bound = [&](std::int64_t part) { return std::min(count, part * blocks / parts * amx_block); };
  return {bound(index), bound(index + 1)};
}

// The rates are rough: they only weigh one against the other.
AmxGrid choose_amx_grid(std::int64_t threads, std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  constexpr double operations_a_second = 1.5e12, elements_a_second = 5e9;
  AmxGrid best;
  double best_seconds = 0;
  for (std::int64_t row_parts = 1; row_parts <= threads; ++row_parts) {
    if (threads % row_parts != 0) continue;
    const std::int64_t column_parts = threads / row_parts;
    const auto own_rows = static_cast<double>(round_up(divide_up(rows, row_parts), amx_block));
    const auto own_columns = static_cast<double>(round_up(divide_up(columns, column_parts), amx_block));
    const auto length = static_cast<double>(depth);
    const double seconds = 2 * own_rows * own_columns * length / operations_a_second +
                           (own_rows + own_columns) * length / elements_a_second;
    if (row_parts == 1 || seconds < best_seconds) {
      best = {row_parts, column_parts};
      best_seconds = seconds;
    }
  }
  return best;
}

}  // namespace longwave
