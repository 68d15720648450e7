#include "compiler/plan/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/index_map.h"

namespace llmc::plan {
namespace {

using ir::Dim;
using Integers = std::vector<std::int64_t>;

std::vector<Dim> as_dims(const Integers& sizes) {
  return {sizes.begin(), sizes.end()};
}

/// Returns the offset of each element of the view, row-major.
Integers offsets(const View& view) {
  Integers result{view.offset.bound()};
  for (std::size_t axis = 0; axis < view.dims.size(); ++axis) {
    Integers longer;
    for (const std::int64_t begin : result)
      for (std::int64_t i = 0; i < view.dims[axis].bound(); ++i)
        longer.push_back(begin + i * view.strides[axis].bound());
    result = std::move(longer);
  }
  return result;
}

/// Returns which element of an operand with dims `from` each element of the result is, by the map.
Integers elements(const ir::IndexMap& map, const Integers& from, const Integers& to) {
  const auto sources = ir::element_sources({map}, {from}, to);
  Integers result;
  EXPECT_TRUE(sources.has_value());
  if (sources)
    for (const ir::ElementSource& source : *sources) result.push_back(source.element);
  return result;
}

View dense(const Integers& dims) {
  return View::dense(0, Sizes(dims.begin(), dims.end()));
}

/// Views have strides in place of index maps: both must select the same elements.
TEST(Views, SelectTheElementsOfIndexMaps) {
  const Integers from{2, 3, 4};
  for (const Integers& perm : {Integers{0, 2, 1}, Integers{2, 0, 1}, Integers{}}) {
    const View view = transposed(dense(from), perm);
    Integers to;
    for (const Size& size : view.dims) to.push_back(size.bound());
    EXPECT_EQ(offsets(view), elements(ir::transpose_map(perm, 3), from, to));
  }
  for (const Integers& to : {Integers{2, 12}, Integers{2, 3, 2, 2}, Integers{1, 6, 1, 4}}) {
    const auto map = ir::reshape_map(as_dims(from), as_dims(to));
    ASSERT_TRUE(map.has_value());
    EXPECT_EQ(offsets(*reshaped(dense(from), Sizes(to.begin(), to.end()))),
              elements(*map, from, to));
  }
  const Integers column{3, 1}, wide{2, 3, 5};
  EXPECT_EQ(offsets(broadcast(dense(column), Sizes(wide.begin(), wide.end()))),
            elements(ir::expand_map(as_dims(column), as_dims(wide)), column, wide));
}

TEST(Views, OfSlicesBeginAndStep) {
  const View every_second = sliced(dense({2, 6}), 1, 1, 2, 3);
  EXPECT_EQ(offsets(every_second), (Integers{1, 3, 5, 7, 9, 11}));
  const View reversed = sliced(dense({2, 3}), 1, 2, -1, 3);
  EXPECT_EQ(offsets(reversed), (Integers{2, 1, 0, 5, 4, 3}));
}

TEST(Views, OfTransposedRowsCannotBeOneRow) {
  EXPECT_FALSE(reshaped(transposed(dense({2, 3}), {}), Sizes{6}).has_value());
  EXPECT_TRUE(reshaped(transposed(dense({2, 3}), {}), Sizes{3, 1, 2}).has_value());
}

}  // namespace
}  // namespace llmc::plan
