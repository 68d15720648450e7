#include <algorithm>
#include <numeric>

#include "tests/random/random_graph.h"

namespace llmc::testing {
namespace {

using onnx::TensorProto;

std::optional<RandomValue> some(RandomGraph& g, std::int64_t least_rank = 1) {
  return g.find([&](const RandomValue& v) {
    return v.rank() >= least_rank && v.rank() <= 4 && v.count() <= 1024;
  });
}

/// Constant indices below `size`, now and then counted from the end.
RandomValue indices(RandomGraph& g, const Dims& dims, std::int64_t size) {
  RandomValue shape{{}, TensorProto::INT64, dims, true, 0, 1};
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < shape.count(); ++i)
    numbers.push_back(static_cast<double>(g.random.integer(-size, size - 1)));
  return g.constant(TensorProto::INT64, dims, numbers);
}

bool gather(RandomGraph& g) {
  const auto x = some(g);
  if (!x) return false;
  const std::int64_t axis = g.random.integer(0, x->rank() - 1);
  const Dims picked = g.small_dims(g.random.integer(0, 2));
  const RandomValue at = indices(g, picked, x->dims[static_cast<std::size_t>(axis)]);
  RandomValue r = *x;
  r.dims.erase(r.dims.begin() + axis);
  r.dims.insert(r.dims.begin() + axis, picked.begin(), picked.end());
  g.node("Gather", {x->name, at.name}, r, {{"axis", axis}});
  return true;
}

/// Indices that the graph gets at run time.
bool gather_computed(RandomGraph& g) {
  const auto x = some(g);
  if (!x) return false;
  const std::int64_t size = x->dims[0];
  const RandomValue at = g.fresh(TensorProto::INT64, g.small_dims(1), 0, size - 1);
  RandomValue r = *x;
  r.dims[0] = at.dims[0];
  g.node("Gather", {x->name, at.name}, r, {{"axis", std::int64_t{0}}});
  return true;
}

bool gather_elements(RandomGraph& g) {
  const auto x = some(g);
  if (!x) return false;
  const std::int64_t axis = g.random.integer(0, x->rank() - 1);
  Dims dims = x->dims;
  for (auto& d : dims) d = g.random.integer(1, d);
  dims[static_cast<std::size_t>(axis)] = g.random.integer(1, 4);
  const RandomValue at = indices(g, dims, x->dims[static_cast<std::size_t>(axis)]);
  RandomValue r = *x;
  r.dims = dims;
  g.node("GatherElements", {x->name, at.name}, r, {{"axis", axis}});
  return true;
}

/// i64[n, depth] of places in the first `depth` dims, all different.
RandomValue places(RandomGraph& g, const Dims& dims, std::int64_t depth, std::int64_t most) {
  std::int64_t count = 1;
  for (std::int64_t i = 0; i < depth; ++i) count *= dims[static_cast<std::size_t>(i)];
  std::vector<std::int64_t> flat(static_cast<std::size_t>(count));
  std::iota(flat.begin(), flat.end(), 0);
  for (std::size_t i = flat.size(); i > 1; --i)
    std::swap(
        flat[i - 1],
        flat[static_cast<std::size_t>(g.random.integer(0, static_cast<std::int64_t>(i) - 1))]);
  const std::int64_t n = g.random.integer(1, std::min(most, count));
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < n; ++i) {
    std::vector<std::int64_t> place(static_cast<std::size_t>(depth));
    std::int64_t rest = flat[static_cast<std::size_t>(i)];
    for (std::int64_t d = depth; d-- > 0; rest /= dims[static_cast<std::size_t>(d)])
      place[static_cast<std::size_t>(d)] = rest % dims[static_cast<std::size_t>(d)];
    numbers.insert(numbers.end(), place.begin(), place.end());
  }
  return g.constant(TensorProto::INT64, {n, depth}, numbers);
}

bool gather_nd(RandomGraph& g) {
  const auto x = some(g);
  if (!x) return false;
  const std::int64_t depth = g.random.integer(1, x->rank());
  const RandomValue at = places(g, x->dims, depth, 5);
  RandomValue r = *x;
  r.dims.erase(r.dims.begin(), r.dims.begin() + depth);
  r.dims.insert(r.dims.begin(), at.dims[0]);
  g.node("GatherND", {x->name, at.name}, r);
  return true;
}

bool scatter_nd(RandomGraph& g) {
  const auto x = some(g);
  if (!x || x->element == TensorProto::BOOL) return false;
  const std::int64_t depth = g.random.integer(1, x->rank());
  const RandomValue at = places(g, x->dims, depth, 5);
  Dims dims(x->dims.begin() + depth, x->dims.end());
  dims.insert(dims.begin(), at.dims[0]);
  const RandomValue updates = g.fresh(x->element, dims);
  RandomValue r = *x;
  r.exact = x->exact && updates.exact;
  r.grain = std::min(x->grain, updates.grain);
  r.bound = std::max(x->bound, updates.bound);
  g.node("ScatterND", {x->name, at.name, updates.name}, r);
  return true;
}

bool scatter_elements(RandomGraph& g) {
  const auto x = some(g);
  if (!x || x->element == TensorProto::BOOL || g.opset < 16) return false;
  // One update for each row of the last axis but one place, so that no two meet.
  const std::int64_t axis = x->rank() - 1;
  Dims dims = x->dims;
  dims.back() = 1;
  const RandomValue at = indices(g, dims, x->dims.back());
  const RandomValue updates = g.fresh(x->element, dims);
  RandomValue r = *x;
  r.exact = x->exact && updates.exact;
  r.grain = std::min(x->grain, updates.grain);
  r.bound = x->bound + updates.bound;
  if (is_float_type(x->element) && r.bound / r.grain > 0x1p22) r.exact = false;
  g.node("ScatterElements", {x->name, at.name, updates.name}, r,
         {{"axis", axis}, {"reduction", g.random.pick<std::string>({"none", "add"})}});
  return true;
}

bool one_hot(RandomGraph& g) {
  const std::int64_t depth = g.random.integer(2, 6);
  const RandomValue at =
      g.fresh(TensorProto::INT64, g.small_dims(g.random.integer(1, 2)), -depth, depth);
  const RandomValue d = g.constant(TensorProto::INT64, {}, {static_cast<double>(depth)});
  const RandomValue pair = g.constant(TensorProto::FLOAT, {2}, {-1, 2});
  RandomValue r{{}, TensorProto::FLOAT, at.dims, true, 2, 1};
  const std::int64_t axis = g.random.integer(0, at.rank());
  r.dims.insert(r.dims.begin() + axis, depth);
  g.node("OneHot", {at.name, d.name, pair.name}, r, {{"axis", axis == at.rank() ? -1 : axis}});
  return true;
}

bool range(RandomGraph& g) {
  const std::int64_t start = g.random.integer(-3, 3), n = g.random.integer(1, 7);
  const std::int64_t step = g.random.pick<std::int64_t>({1, 2, -1});
  const auto scalar = [&](std::int64_t v) {
    return g.constant(TensorProto::INT64, {}, {static_cast<double>(v)}).name;
  };
  RandomValue r{{}, TensorProto::INT64, {n}, true, 20, 1};
  g.node("Range", {scalar(start), scalar(start + n * step), scalar(step)}, r);
  return true;
}

bool shape_of(RandomGraph& g) {
  const auto x = some(g);
  if (!x) return false;
  g.node("Shape", {x->name}, {{}, TensorProto::INT64, {x->rank()}, true, 1024, 1});
  return true;
}

bool cumulative_sum(RandomGraph& g) {
  const auto x = g.find([](const RandomValue& v) {
    return v.rank() > 0 && v.rank() <= 4 && v.bound <= 64 &&
           (is_float_type(v.element) || v.element == TensorProto::INT32 ||
            v.element == TensorProto::INT64);
  });
  if (!x) return false;
  const std::int64_t axis = g.random.integer(0, x->rank() - 1);
  RandomValue r = *x;
  r.bound = x->bound * static_cast<double>(x->dims[static_cast<std::size_t>(axis)]);
  if (is_float_type(x->element) && r.bound / r.grain > 0x1p22) r.exact = false;
  const RandomValue at = g.constant(TensorProto::INT64, {}, {static_cast<double>(axis)});
  g.node("CumSum", {x->name, at.name}, r,
         {{"exclusive", g.random.integer(0, 1)}, {"reverse", g.random.integer(0, 1)}});
  return true;
}

bool top_k(RandomGraph& g) {
  const auto x = g.find([](const RandomValue& v) {
    return v.exact && v.rank() > 0 && v.rank() <= 4 &&
           (v.element == TensorProto::FLOAT || v.element == TensorProto::INT64);
  });
  if (!x) return false;
  const std::int64_t axis = g.random.integer(0, x->rank() - 1);
  auto best = *x;
  best.dims[static_cast<std::size_t>(axis)] =
      g.random.integer(1, x->dims[static_cast<std::size_t>(axis)]);
  RandomValue at = best;
  at.element = TensorProto::INT64;
  at.grain = 1;
  at.bound = static_cast<double>(x->dims[static_cast<std::size_t>(axis)]);
  g.nodes("TopK", {x->name, g.integers({best.dims[static_cast<std::size_t>(axis)]})}, {best, at},
          {{"axis", axis}, {"largest", g.random.integer(0, 1)}});
  return true;
}

}  // namespace

std::vector<RandomStep> indexing_steps() {
  return {gather,  gather_computed, gather_elements, gather_nd,      scatter_nd, scatter_elements,
          one_hot, range,           shape_of,        cumulative_sum, top_k};
}

}  // namespace llmc::testing
