#include "compiler/ir/index_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <numeric>
#include <random>

#include "compiler/reference/interpreter.h"

namespace llmc::ir {
namespace {

using reference::Tensor;
using Sizes = std::vector<std::int64_t>;

/// One view operator on tensors whose elements say where they are from: operand * kOperand +
/// row-major position.
class ViewCase {
 public:
  static constexpr std::int64_t kOperand = 1'000'000;

  ViewCase(Op op, std::vector<Sizes> data, std::vector<Tensor> integers = {}) {
    node_.op = std::move(op);
    for (std::size_t i = 0; i < data.size(); ++i) {
      Tensor tensor = reference::zeros(ElementType::kI64, data[i]);
      for (std::size_t e = 0; e < tensor.integers.size(); ++e)
        tensor.integers[e] = static_cast<std::int64_t>(i) * kOperand + static_cast<std::int64_t>(e);
      add_operand(std::move(tensor));
    }
    for (Tensor& tensor : integers) add_operand(std::move(tensor));
    std::vector<const Tensor*> operands;
    for (const Tensor& tensor : operands_) operands.push_back(&tensor);
    auto results = reference::evaluate_node(node_, operands);
    EXPECT_TRUE(results.ok());
    if (!results.ok()) return;
    results_ = std::move(results).value();
    for (const Tensor& result : results_) node_.outputs.push_back(add_value(result));
  }

  std::size_t results() const { return results_.size(); }
  const Tensor& result(std::size_t slot) const { return results_[slot]; }
  const Tensor& operand(std::size_t i) const { return operands_[i]; }

  std::vector<IndexMap> maps(std::size_t slot) const {
    IndexOperands operands;
    operands.elements = [&](ValueId value) -> std::optional<std::vector<Dim>> {
      const auto& elements = operands_[value.index].integers;
      return std::vector<Dim>(elements.begin(), elements.end());
    };
    return index_maps(graph_, node_, slot, operands);
  }
  std::vector<Sizes> operand_dims(const std::vector<IndexMap>& maps) const {
    std::vector<Sizes> dims;
    for (const IndexMap& map : maps) dims.push_back(operands_[map.operand].dims);
    return dims;
  }

 private:
  ValueId add_value(const Tensor& tensor) {
    return graph_.add_value({"", {tensor.element, {tensor.dims.begin(), tensor.dims.end()}}});
  }
  void add_operand(Tensor tensor) {
    node_.inputs.push_back(add_value(tensor));
    operands_.push_back(std::move(tensor));
  }

  Graph graph_;
  Node node_;
  std::vector<Tensor> operands_, results_;
};

/// f(result index, position) for each element.
template <class F>
void for_each_index(const Sizes& dims, F f) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) count *= dim;
  for (std::int64_t flat = 0; flat < count; ++flat) {
    Sizes at(dims.size());
    for (std::size_t k = dims.size(); k-- > 0;) {
      std::int64_t inner = 1;
      for (std::size_t j = k + 1; j < dims.size(); ++j) inner *= dims[j];
      at[k] = flat / inner % dims[k];
    }
    f(at, static_cast<std::size_t>(flat));
  }
}

std::int64_t value_at(const AffineIndex& x, const Sizes& at) {
  std::int64_t value = *x.start.constant();
  for (std::size_t a = 0; a < at.size(); ++a) value += *x.steps[a].constant() * at[a];
  return value;
}

/// compose() of the operand's row-major position and of one axis gives what the map reads.
void expect_composes(const ViewCase& view, std::size_t slot, const IndexMap& map) {
  const Sizes& dims = view.result(slot).dims;
  const Sizes& from = view.operand(map.operand).dims;
  std::vector<AffineIndex> functions{{7, std::vector<Dim>(from.size(), 0)}};
  std::int64_t stride = 1;
  for (std::size_t a = from.size(); a-- > 0; stride *= from[a]) {
    functions[0].steps[a] = stride;
    functions.push_back({1, std::vector<Dim>(from.size(), 0)});
    functions.back().steps[a] = 5;
  }
  for (const AffineIndex& function : functions) {
    const auto composed = compose(function, map, dims.size());
    if (!composed) continue;
    for_each_index(dims, [&](const Sizes& at, std::size_t flat) {
      const std::int64_t source = view.result(slot).integers[flat] -
                                  static_cast<std::int64_t>(map.operand) * ViewCase::kOperand;
      if (source < 0 || source >= view.operand(map.operand).count()) return;  // another's range
      for_each_index(from, [&](const Sizes& i, std::size_t position) {
        if (static_cast<std::int64_t>(position) == source)
          EXPECT_EQ(value_at(*composed, at), value_at(function, i));
      });
    });
  }
}

/// inner_axes() reads, inside each slice of the result, the same places of a slice of the operand.
void expect_inner_axes(const ViewCase& view, std::size_t slot, const IndexMap& map) {
  const Sizes& dims = view.result(slot).dims;
  const Sizes& from = view.operand(map.operand).dims;
  for (std::size_t lead = 0; lead <= dims.size(); ++lead)
    for (std::size_t operand_lead = 0; operand_lead <= from.size(); ++operand_lead) {
      const auto inner = inner_axes(map, operand_lead, lead);
      if (!inner || inner->range) continue;
      const Sizes inner_from(from.begin() + static_cast<std::ptrdiff_t>(operand_lead), from.end());
      const Sizes inner_dims(dims.begin() + static_cast<std::ptrdiff_t>(lead), dims.end());
      const auto sources = element_sources({*inner}, {inner_from}, inner_dims);
      ASSERT_TRUE(sources);
      std::int64_t slice = 1;
      for (const std::int64_t dim : inner_from) slice *= dim;
      for_each_index(dims, [&](const Sizes&, std::size_t flat) {
        EXPECT_EQ((*sources)[flat % sources->size()].element,
                  view.result(slot).integers[flat] % slice);
      });
    }
}

void expect_matches(const ViewCase& view, const std::string& what) {
  SCOPED_TRACE(what);
  ASSERT_GT(view.results(), 0u);
  for (std::size_t slot = 0; slot < view.results(); ++slot) {
    const auto maps = view.maps(slot);
    ASSERT_FALSE(maps.empty());
    const auto sources = element_sources(maps, view.operand_dims(maps), view.result(slot).dims);
    ASSERT_TRUE(sources);
    std::vector<std::int64_t> elements;
    for (const ElementSource& source : *sources)
      elements.push_back(static_cast<std::int64_t>(source.operand) * ViewCase::kOperand +
                         source.element);
    EXPECT_EQ(elements, view.result(slot).integers);
    for (const IndexMap& map : maps) {
      expect_composes(view, slot, map);
      if (maps.size() == 1) expect_inner_axes(view, slot, map);
    }
  }
}

class IndexMaps : public ::testing::Test {
 protected:
  static constexpr int kRounds = 40;

  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  std::size_t pick_axis(const Sizes& dims) {
    return static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(dims.size()) - 1));
  }
  Sizes shape(std::int64_t low_rank = 1) {
    Sizes dims(static_cast<std::size_t>(pick(low_rank, 4)));
    for (std::int64_t& dim : dims) dim = pick(1, 4);
    return dims;
  }
  static Tensor list(Sizes values) {
    return reference::i64_tensor({static_cast<std::int64_t>(values.size())}, values);
  }

  std::mt19937 random_{17};
};

TEST_F(IndexMaps, Identity) {
  for (int i = 0; i < kRounds; ++i) expect_matches({Unary{}, {shape(0)}}, "identity");
}

TEST_F(IndexMaps, Transpose) {
  for (int i = 0; i < kRounds; ++i) {
    const Sizes dims = shape();
    std::vector<std::int64_t> perm(dims.size());
    std::iota(perm.begin(), perm.end(), 0);
    std::ranges::shuffle(perm, random_);
    if (i == 0) perm.clear();  // reversed
    expect_matches({Transpose{perm}, {dims}}, ::testing::PrintToString(perm));
  }
}

TEST_F(IndexMaps, SqueezeAndUnsqueeze) {
  for (int i = 0; i < kRounds; ++i) {
    Sizes dims = shape();
    std::vector<std::int64_t> axes;
    for (std::size_t a = 0; a < dims.size(); ++a)
      if (pick(0, 1)) axes.push_back(static_cast<std::int64_t>(a));
    for (const std::int64_t axis : axes) dims[static_cast<std::size_t>(axis)] = 1;
    expect_matches({Squeeze{axes}, {dims}}, "squeeze " + ::testing::PrintToString(axes));
    Sizes kept;
    for (std::size_t a = 0; a < dims.size(); ++a)
      if (std::ranges::find(axes, static_cast<std::int64_t>(a)) == axes.end())
        kept.push_back(pick(1, 4));
    expect_matches({Unsqueeze{axes}, {kept}}, "unsqueeze " + ::testing::PrintToString(axes));
  }
}

TEST_F(IndexMaps, ExpandAndTile) {
  for (int i = 0; i < kRounds; ++i) {
    const Sizes to = shape();
    Sizes from(to.begin() + pick(0, static_cast<std::int64_t>(to.size())), to.end());
    for (std::int64_t& dim : from)
      if (pick(0, 1)) dim = 1;
    expect_matches({Expand{}, {from}, {list(to)}}, "expand " + ::testing::PrintToString(from));
    expect_matches({Tile{}, {to}, {list(Sizes(to.size(), pick(1, 3)))}},
                   "tile " + ::testing::PrintToString(to));
  }
}

TEST_F(IndexMaps, SliceWithAnyStartAndStep) {
  for (int i = 0; i < kRounds; ++i) {
    const Sizes dims = shape();
    const std::size_t axis = pick_axis(dims);
    const std::int64_t step =
        std::array<std::int64_t, 5>{1, 1, 2, -1, -3}[static_cast<std::size_t>(i) % 5];
    const Sizes starts{pick(-6, 6)}, ends{pick(0, 1) ? INT64_MAX : pick(-6, 6)};
    const std::int64_t back =
        static_cast<std::int64_t>(axis) - pick(0, 1) * static_cast<std::int64_t>(dims.size());
    expect_matches({Slice{}, {dims}, {list(starts), list(ends), list({back}), list({step})}},
                   ::testing::PrintToString(dims) + " " + std::to_string(starts[0]) + ":" +
                       std::to_string(ends[0]) + ":" + std::to_string(step));
  }
}

TEST_F(IndexMaps, SplitAndConcat) {
  for (int i = 0; i < kRounds; ++i) {
    Sizes dims = shape();
    const std::size_t axis = pick_axis(dims);
    std::vector<std::int64_t> sizes;
    std::vector<Sizes> parts;
    dims[axis] = 0;
    for (std::int64_t n = pick(1, 4); n > 0; --n) {
      sizes.push_back(pick(0, 3));
      parts.push_back(dims);
      parts.back()[axis] = sizes.back();
    }
    for (const std::int64_t size : sizes) dims[axis] += size;
    const auto where = static_cast<std::int64_t>(axis);
    expect_matches({Split{where, sizes}, {dims}}, "split " + ::testing::PrintToString(sizes));
    expect_matches({Concat{where}, parts}, "concat " + ::testing::PrintToString(sizes));
  }
}

TEST_F(IndexMaps, Gather) {
  for (int i = 0; i < kRounds; ++i) {
    const Sizes dims = shape();
    const std::size_t axis = pick_axis(dims);
    Sizes index_dims(static_cast<std::size_t>(pick(0, 2)));
    for (std::int64_t& dim : index_dims) dim = pick(1, 3);
    Tensor indices = reference::zeros(ElementType::kI64, index_dims);
    const std::int64_t repeats = pick(1, 3);
    for (std::size_t e = 0; e < indices.integers.size(); ++e)
      indices.integers[e] = i % 2 ? pick(-dims[axis], dims[axis] - 1)
                                  : static_cast<std::int64_t>(e) / repeats % dims[axis];
    expect_matches({Gather{static_cast<std::int64_t>(axis)}, {dims}, {indices}},
                   ::testing::PrintToString(indices.integers));
  }
}

TEST_F(IndexMaps, ReshapeByCommonDigits) {
  for (int i = 0; i < kRounds; ++i) {
    // Digits, put together in two ways, with dims of 1 among them.
    const Sizes digits = shape(0);
    const auto joined = [&] {
      Sizes dims;
      for (const std::int64_t digit : digits) {
        if (pick(0, 3) == 0) dims.push_back(1);
        if (dims.empty() || pick(0, 1)) dims.push_back(1);
        dims.back() *= digit;
      }
      if (pick(0, 3) == 0) dims.push_back(1);
      return dims;
    };
    const Sizes from = joined(), to = joined();
    expect_matches({Reshape{}, {from}, {list(to)}},
                   ::testing::PrintToString(from) + " -> " + ::testing::PrintToString(to));
  }
}

TEST_F(IndexMaps, AbsentWithoutCommonDigitsOrOutOfRange) {
  EXPECT_FALSE(reshape_map({4, 6}, {3, 8}));
  EXPECT_FALSE(reshape_map({6}, {4}));
  EXPECT_FALSE(reshape_map({4}, {6}));
  const ViewCase computes(Unary{UnaryKind::kNeg}, {{2}});
  EXPECT_TRUE(computes.maps(0).empty());
  // A map that reads past its operand has no sources.
  IndexMap map = identity_map(1);
  map.axes[0].start = 1;
  EXPECT_FALSE(element_sources({map}, {{2}}, {2}));
  EXPECT_TRUE(element_sources({map}, {{3}}, {2}));
  map.range = IndexMap::Range{0, 0, 1};  // and one that leaves a part undefined
  EXPECT_FALSE(element_sources({map}, {{3}}, {2}));
}

TEST_F(IndexMaps, ComposesWhatIsAffine) {
  // Joined dims are affine where their strides agree.
  const auto joined = *reshape_map({2, 3}, {6});
  EXPECT_EQ(compose({0, {3, 1}}, joined, 1), (AffineIndex{0, {1}}));
  EXPECT_FALSE(compose({0, {4, 1}}, joined, 1));
  EXPECT_FALSE(compose({0, {3, 0}}, joined, 1));
  EXPECT_EQ(compose({5, {0, 0}}, joined, 1), (AffineIndex{5, {0}}));
  EXPECT_EQ(compose({2, {7}}, *reshape_map({6}, {2, 3}), 2), (AffineIndex{2, {21, 7}}));
  EXPECT_EQ(compose({0, {8, 4, 1}}, *reshape_map({2, 2, 4}, {2, 8}), 2), (AffineIndex{0, {8, 1}}));
}

TEST_F(IndexMaps, FixedIndex) {
  const ViewCase row(Gather{0}, {{3, 2}}, {reference::i64_tensor({}, {-1})});
  const IndexMap map = row.maps(0).at(0);
  EXPECT_EQ(map.axes[0].fixed({2}), Dim(2));
  EXPECT_EQ(map.axes[1].fixed({2}), std::nullopt);
  EXPECT_EQ(map.axes[1].fixed({1}), Dim(0));
}

/// The map with each symbol replaced by its number.
IndexMap bind(IndexMap map, const std::map<std::string, std::int64_t>& sizes) {
  for (AxisIndex& axis : map.axes) {
    axis.start = *axis.start.evaluate(sizes);
    for (IndexTerm& term : axis.terms) {
      term.step = *term.step.evaluate(sizes);
      term.divisor = *term.divisor.evaluate(sizes);
      if (term.modulus) term.modulus = *term.modulus->evaluate(sizes);
    }
  }
  return map;
}

Sizes bind(const std::vector<Dim>& dims, const std::map<std::string, std::int64_t>& sizes) {
  Sizes out;
  for (const Dim& dim : dims) out.push_back(*dim.evaluate(sizes));
  return out;
}

TEST_F(IndexMaps, ReshapeOfSymbolicDims) {
  const Dim s = Dim::symbol("s"), t = Dim::symbol("t");
  const Dim s12 = *mul(s, 12), s3 = *mul(s, 3);
  const std::vector<std::pair<std::vector<Dim>, std::vector<Dim>>> cases{
      {{s, 12}, {s12}},         {{12, s}, {s12}},      {{s12}, {12, s}},
      {{1, s, 12}, {s, 3, 4}},  {{s, 3, 4}, {s12}},    {{s12, t}, {s3, 4, t}},
      {{3, s, 4, t}, {s12, t}}, {{4, s3}, {2, 2, s3}}, {{t, 1, s}, {t, s, 1}},
  };
  for (const auto& [from, to] : cases)
    for (const std::int64_t n : {1, 2, 5}) {
      const std::map<std::string, std::int64_t> sizes{{"s", n}, {"t", 3}};
      const auto map = reshape_map(from, to);
      ASSERT_TRUE(map);
      const auto sources =
          element_sources({bind(*map, sizes)}, {bind(from, sizes)}, bind(to, sizes));
      ASSERT_TRUE(sources);
      for (std::size_t i = 0; i < sources->size(); ++i)
        EXPECT_EQ((*sources)[i].element, static_cast<std::int64_t>(i));
    }
  EXPECT_FALSE(reshape_map({s, t}, {t, s}));
  EXPECT_FALSE(reshape_map({s, 2}, {t}));
}

}  // namespace
}  // namespace llmc::ir
