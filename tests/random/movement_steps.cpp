#include <algorithm>
#include <numeric>

#include "tests/random/random_graph.h"

/// Operators that move elements and compute nothing: what is known of the operand stays known.
namespace llmc::testing {
namespace {

using onnx::TensorProto;

std::optional<RandomValue> any_value(RandomGraph& g, std::int64_t least_rank = 0,
                                     std::int64_t most = 2048, bool empty_too = false) {
  return g.find(
      [&](const RandomValue& v) {
        return v.rank() >= least_rank && v.rank() <= 5 && v.count() <= most;
      },
      empty_too);
}

/// `axis` as it may be written: from the front or from the back.
std::int64_t spelled(RandomGraph& g, std::int64_t axis, std::int64_t rank) {
  return g.random.chance(0.5) ? axis - rank : axis;
}

bool transpose(RandomGraph& g) {
  const auto x = any_value(g, 1, 2048, true);
  if (!x) return false;
  std::vector<std::int64_t> perm(x->dims.size());
  std::iota(perm.begin(), perm.end(), 0);
  for (std::size_t i = perm.size(); i > 1; --i)
    std::swap(
        perm[i - 1],
        perm[static_cast<std::size_t>(g.random.integer(0, static_cast<std::int64_t>(i) - 1))]);
  RandomValue r = *x;
  for (std::size_t i = 0; i < perm.size(); ++i)
    r.dims[i] = x->dims[static_cast<std::size_t>(perm[i])];
  g.node("Transpose", {x->name}, r, {{"perm", perm}});
  return true;
}

bool reshape(RandomGraph& g) {
  const auto x = any_value(g);
  if (!x) return false;
  // Factors of the count, dealt out to a random number of dims.
  Dims dims(static_cast<std::size_t>(g.random.integer(1, 4)), 1);
  std::int64_t rest = x->count();
  for (std::int64_t f = 2; rest > 1;)
    if (rest % f == 0) {
      dims[static_cast<std::size_t>(
          g.random.integer(0, static_cast<std::int64_t>(dims.size()) - 1))] *= f;
      rest /= f;
    } else {
      ++f;
    }
  std::vector<std::int64_t> spec(dims);
  if (g.random.chance(0.4))
    spec[static_cast<std::size_t>(
        g.random.integer(0, static_cast<std::int64_t>(spec.size()) - 1))] = -1;
  for (std::size_t i = 0; i < std::min(spec.size(), x->dims.size()); ++i)
    if (spec[i] == x->dims[i] && g.random.chance(0.3)) spec[i] = 0;
  RandomValue r = *x;
  r.dims = dims;
  g.node("Reshape", {x->name, g.integers(spec)}, r);
  return true;
}

bool flatten(RandomGraph& g) {
  const auto x = any_value(g, 1);
  if (!x) return false;
  const std::int64_t axis = g.random.integer(0, x->rank());
  RandomValue r = *x;
  r.dims = {1, 1};
  for (std::int64_t i = 0; i < x->rank(); ++i)
    r.dims[i < axis ? 0 : 1] *= x->dims[static_cast<std::size_t>(i)];
  g.node("Flatten", {x->name}, r, {{"axis", axis}});
  return true;
}

bool unsqueeze(RandomGraph& g) {
  const auto x = any_value(g, 0, 2048, true);
  if (!x || x->rank() > 3) return false;
  const std::int64_t axis = g.random.integer(0, x->rank());
  RandomValue r = *x;
  r.dims.insert(r.dims.begin() + axis, 1);
  g.node("Unsqueeze", {x->name, g.integers({spelled(g, axis, r.rank())})}, r);
  return true;
}

bool squeeze(RandomGraph& g) {
  const auto x = g.find([](const RandomValue& v) { return std::ranges::count(v.dims, 1) > 0; });
  if (!x) return false;
  const auto axis = std::ranges::find(x->dims, 1) - x->dims.begin();
  RandomValue r = *x;
  r.dims.erase(r.dims.begin() + axis);
  g.node("Squeeze", {x->name, g.integers({spelled(g, axis, x->rank())})}, r);
  return true;
}

bool concat(RandomGraph& g) {
  const auto x = any_value(g, 1, 512);
  if (!x) return false;
  const std::int64_t axis = g.random.integer(0, x->rank() - 1);
  const auto at = static_cast<std::size_t>(axis);
  Dims dims = x->dims;
  dims[at] = g.random.integer(1, 4);
  const auto other = g.find([&](const RandomValue& v) {
    Dims same = v.dims;
    if (v.element != x->element || v.rank() != x->rank()) return false;
    same[at] = x->dims[at];
    return same == x->dims;
  });
  const RandomValue y = other && g.random.chance(0.5) ? *other : g.fresh(x->element, dims);
  RandomValue r = *x;
  r.dims[at] += y.dims[at];
  r.exact = x->exact && y.exact;
  r.bound = std::max(x->bound, y.bound);
  r.grain = std::min(x->grain, y.grain);
  g.node("Concat", {x->name, y.name}, r, {{"axis", spelled(g, axis, x->rank())}});
  return true;
}

bool split(RandomGraph& g) {
  const auto x = g.find([](const RandomValue& v) {
    return v.rank() > 0 && std::ranges::any_of(v.dims, [](auto d) { return d > 1; });
  });
  if (!x) return false;
  const auto at = static_cast<std::size_t>(
      std::ranges::find_if(x->dims, [](auto d) { return d > 1; }) - x->dims.begin());
  const std::int64_t first = g.random.integer(1, x->dims[at] - 1);
  RandomValue a = *x, b = *x;
  a.dims[at] = first;
  b.dims[at] -= first;
  g.nodes("Split", {x->name, g.integers({first, b.dims[at]})}, {a, b},
          {{"axis", static_cast<std::int64_t>(at)}});
  return true;
}

bool slice(RandomGraph& g) {
  const auto x = any_value(g, 1);
  if (!x) return false;
  RandomValue r = *x;
  std::vector<std::int64_t> starts, ends, axes, steps;
  for (std::int64_t axis = 0; axis < x->rank(); ++axis) {
    if (g.random.chance(0.5)) continue;
    auto& dim = r.dims[static_cast<std::size_t>(axis)];
    const std::int64_t size = dim;
    const std::int64_t step = g.random.pick<std::int64_t>({1, 1, 2, -1, -2});
    const std::int64_t low = g.random.integer(0, size - 1), high = g.random.integer(low, size - 1);
    dim = (high - low) / std::abs(step) + 1;
    axes.push_back(spelled(g, axis, x->rank()));
    steps.push_back(step);
    starts.push_back(step > 0 ? (g.random.chance(0.3) ? low - size : low) : high);
    if (step > 0)
      ends.push_back(high + 1 == size && g.random.chance(0.3) ? INT64_MAX : high + 1);
    else
      ends.push_back(low == 0 ? INT64_MIN : low - 1);
  }
  if (axes.empty()) return false;
  g.node("Slice",
         {x->name, g.integers(starts), g.integers(ends), g.integers(axes), g.integers(steps)}, r);
  return true;
}

bool expand(RandomGraph& g) {
  const auto x = any_value(g, 0, 256);
  if (!x) return false;
  RandomValue r = *x;
  for (auto& d : r.dims)
    if (d == 1) d = g.random.integer(1, 4);
  if (r.rank() < 4 && g.random.chance(0.4)) r.dims.insert(r.dims.begin(), g.random.integer(1, 3));
  g.node("Expand", {x->name, g.integers(r.dims)}, r);
  return true;
}

bool tile(RandomGraph& g) {
  const auto x = any_value(g, 1, 128);
  if (!x) return false;
  RandomValue r = *x;
  std::vector<std::int64_t> repeats;
  for (auto& d : r.dims) {
    repeats.push_back(g.random.integer(1, 3));
    d *= repeats.back();
  }
  g.node("Tile", {x->name, g.integers(repeats)}, r);
  return true;
}

bool pad(RandomGraph& g) {
  const auto x = g.find([](const RandomValue& v) {
    return v.rank() > 0 && v.rank() <= 4 && v.count() <= 512 && is_float_type(v.element);
  });
  if (!x) return false;
  const std::string mode = g.random.pick<std::string>({"constant", "constant", "edge", "reflect"});
  RandomValue r = *x;
  std::vector<std::int64_t> before, after;
  for (auto& d : r.dims) {
    const std::int64_t most = mode == "reflect" ? std::min<std::int64_t>(d - 1, 2) : 2;
    before.push_back(g.random.integer(0, most));
    after.push_back(g.random.integer(0, most));
    // Cropping is padding by a negative number.
    if (mode == "constant" && d > 2 && g.random.chance(0.2)) before.back() = -1;
    d += before.back() + after.back();
  }
  before.insert(before.end(), after.begin(), after.end());
  g.node("Pad", {x->name, g.integers(before)}, r, {{"mode", mode}});
  return true;
}

bool triangle(RandomGraph& g) {
  const auto x = g.find([](const RandomValue& v) {
    return v.rank() >= 2 && (v.element == TensorProto::FLOAT || v.element == TensorProto::INT64);
  });
  if (!x || g.opset < 14) return false;
  const RandomValue k =
      g.constant(TensorProto::INT64, {}, {static_cast<double>(g.random.integer(-2, 2))});
  g.node("Trilu", {x->name, k.name}, *x, {{"upper", g.random.integer(0, 1)}});
  return true;
}

}  // namespace

std::vector<RandomStep> movement_steps() {
  return {transpose, reshape, flatten, unsqueeze, squeeze, concat,
          split,     slice,   expand,  tile,      pad,     triangle};
}

}  // namespace llmc::testing
