#include "parallel/checkpoint/rectangle.h"

#include <gtest/gtest.h>

namespace longwave {
namespace {

Parameter matrix(Shape global, Shape local, Split split, std::int64_t begin) {
  Parameter parameter;
  parameter.name = "matrix";
  parameter.global_shape = global;
  parameter.shape = local;
  parameter.split = split;
  parameter.begin = begin;
  return parameter;
}

// Numbers every local element by its global index and places the pieces of the runs between `cuts`.
std::vector<std::int64_t> placed(const Parameter& parameter, const std::vector<std::int64_t>& cuts) {
  const Rectangle global = whole_of(extents(parameter.global_shape));
  std::vector<std::int64_t> whole(static_cast<std::size_t>(global.count()), -1);
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    for (const RunPiece& piece : pieces_of_run(parameter, cuts[i], cuts[i + 1] - cuts[i])) {
      std::int64_t local = cuts[i] + piece.offset;
      for (std::int64_t row = piece.rectangle.row_begin; row < piece.rectangle.row_end; ++row) {
        for (std::int64_t column = piece.rectangle.column_begin; column < piece.rectangle.column_end; ++column) {
          std::int64_t& place = whole[static_cast<std::size_t>(row * global.columns() + column)];
          EXPECT_EQ(place, -1) << "written twice";
          place = local++;
        }
      }
    }
  }
  return whole;
}

TEST(Rectangle, SeesATensorAsItsFirstAxisByTheRest) {
  EXPECT_EQ(whole_of({}), (Rectangle{0, 1, 0, 1}));
  EXPECT_EQ(whole_of({7}), (Rectangle{0, 7, 0, 1}));
  EXPECT_EQ(whole_of({2, 3, 5}), (Rectangle{0, 2, 0, 15}));
}

TEST(Rectangle, IntersectsOnlyWhereBothAre) {
  EXPECT_EQ(intersection({0, 4, 2, 9}, {3, 8, 0, 5}), (Rectangle{3, 4, 2, 5}));
  EXPECT_FALSE(intersection({0, 4, 0, 2}, {4, 5, 0, 2}));
  EXPECT_FALSE(intersection({0, 4, 0, 2}, {0, 4, 2, 3}));
}

TEST(PiecesOfRun, PlaceEveryElementOnceHoweverTheRunIsCut) {
  const Parameter parameter = matrix({10, 6}, {5, 6}, Split::rows, 5);
  for (std::int64_t first = 0; first <= 30; ++first) {
    for (std::int64_t second = first; second <= 30; ++second) {
      const std::vector<std::int64_t> whole = placed(parameter, {0, first, second, 30});
      for (std::int64_t i = 0; i < 60; ++i) ASSERT_EQ(whole[static_cast<std::size_t>(i)], i < 30 ? -1 : i - 30);
    }
  }
}

TEST(PiecesOfRun, OfAColumnSplitMatrixLieInItsColumns) {
  const Parameter parameter = matrix({3, 8}, {3, 4}, Split::columns, 4);
  for (std::int64_t cut = 0; cut <= 12; ++cut) {
    const std::vector<std::int64_t> whole = placed(parameter, {0, cut, 12});
    for (std::int64_t i = 0; i < 24; ++i) {
      ASSERT_EQ(whole[static_cast<std::size_t>(i)], i % 8 < 4 ? -1 : i / 8 * 4 + i % 8 - 4) << cut;
    }
  }
}

TEST(PiecesOfRun, LeaveOutPaddingRows) {
  const Parameter parameter = matrix({5, 2}, {4, 2}, Split::rows, 4);  // rows 4 to 7, of which 5 to 7 do not exist
  const std::vector<RunPiece> pieces = pieces_of_run(parameter, 1, 7);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].rectangle, (Rectangle{4, 5, 1, 2}));
  EXPECT_EQ(pieces[0].offset, 0);
  EXPECT_TRUE(pieces_of_run(parameter, 2, 6).empty());
}

TEST(PiecesOfRun, AreAtMostThree) {
  EXPECT_EQ(pieces_of_run(matrix({9, 9}, {9, 9}, Split::none, 0), 4, 70).size(), 3u);
  EXPECT_EQ(pieces_of_run(matrix({100}, {100}, Split::none, 0), 4, 70).size(), 1u);
}

}  // namespace
}  // namespace longwave
