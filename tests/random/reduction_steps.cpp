#include <algorithm>
#include <cmath>

#include "tests/random/random_graph.h"

/// Operators that sum: products, reductions, norms, softmax.
namespace llmc::testing {
namespace {

using onnx::TensorProto;

std::optional<RandomValue> some_float(RandomGraph& g, std::int64_t least_rank, double bound) {
  return g.find([&](const RandomValue& v) {
    return is_float_type(v.element) && v.rank() >= least_rank && v.rank() <= 4 &&
           v.bound <= bound && v.count() <= 2048;
  });
}

/// A sum of `n` terms below `term`, multiples of `grain` when the operands are exact.
void note_sum(RandomValue& r, bool exact, double term, std::int64_t n, double grain) {
  r.bound = term * static_cast<double>(n);
  r.grain = grain;
  r.exact = exact && r.bound / grain < 0x1p22;
}

bool reduce(RandomGraph& g) {
  const auto x = some_float(g, 1, 256);
  if (!x) return false;
  const std::string op = g.random.pick<std::string>(
      {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSumSquare"});
  std::vector<std::int64_t> axes;
  for (std::int64_t i = 0; i < x->rank(); ++i)
    if (g.random.chance(0.5)) axes.push_back(g.random.chance(0.5) ? i - x->rank() : i);
  if (axes.empty()) axes.push_back(-1);
  const bool keep = g.random.chance(0.5);
  RandomValue r = *x;
  std::int64_t n = 1;
  r.dims.clear();
  for (std::int64_t i = 0; i < x->rank(); ++i) {
    const auto d = x->dims[static_cast<std::size_t>(i)];
    const bool gone =
        std::ranges::any_of(axes, [&](auto a) { return a == i || a + x->rank() == i; });
    if (gone) n *= d;
    if (!gone)
      r.dims.push_back(d);
    else if (keep)
      r.dims.push_back(1);
  }
  if (op == "ReduceSum") note_sum(r, x->exact, x->bound, n, x->grain);
  if (op == "ReduceMean" || op == "ReduceL2") {
    r.exact = false;
    if (op == "ReduceL2") r.bound = x->bound * std::sqrt(static_cast<double>(n));
  }
  if (op == "ReduceSumSquare") note_sum(r, x->exact, x->bound * x->bound, n, x->grain * x->grain);
  if (r.bound > 4096) return false;
  const Attribute keep_dims{"keepdims", std::int64_t{keep}};
  if (op == "ReduceSum" || g.opset >= 18)
    g.node(op, {x->name, g.integers(axes)}, r, {keep_dims});
  else
    g.node(op, {x->name}, r, {{"axes", axes}, keep_dims});
  return true;
}

bool arg_max(RandomGraph& g) {
  const auto x = g.find([](const RandomValue& v) {
    return v.exact && v.rank() > 0 && v.rank() <= 4 && v.element == TensorProto::FLOAT;
  });
  if (!x) return false;
  const std::int64_t axis = g.random.integer(0, x->rank() - 1);
  RandomValue r = *x;
  r.element = TensorProto::INT64;
  r.grain = 1;
  r.bound = static_cast<double>(x->dims[static_cast<std::size_t>(axis)]);
  r.dims.erase(r.dims.begin() + axis);
  g.node(g.random.pick<std::string>({"ArgMax", "ArgMin"}), {x->name}, r,
         {{"axis", axis},
          {"keepdims", std::int64_t{0}},
          {"select_last_index", g.random.integer(0, 1)}});
  return true;
}

bool softmax(RandomGraph& g) {
  const auto x = some_float(g, 1, 64);
  if (!x) return false;
  RandomValue r = *x;
  r.exact = false;
  r.bound = 1;
  g.node("Softmax", {x->name}, r, {{"axis", g.random.integer(-x->rank(), x->rank() - 1)}});
  return true;
}

bool layer_norm(RandomGraph& g) {
  const auto x = some_float(g, 1, 64);
  // Of one element the deviation is 0 or what rounding left: nothing to compare.
  if (!x || g.opset < 17 || x->element != TensorProto::FLOAT || x->dims.back() < 2) return false;
  const RandomValue scale = g.fresh(TensorProto::FLOAT, {x->dims.back()});
  const RandomValue bias = g.fresh(TensorProto::FLOAT, {x->dims.back()});
  RandomValue r = *x;
  r.exact = false;
  r.bound = 16;
  // A large epsilon keeps rows of nearly equal elements from blowing up what rounding left.
  g.node("LayerNormalization", {x->name, scale.name, bias.name}, r,
         {{"axis", std::int64_t{-1}}, {"epsilon", 0.25f}});
  return true;
}

bool rms_norm(RandomGraph& g) {
  const auto x = some_float(g, 1, 64);
  if (!x || x->element != TensorProto::FLOAT) return false;
  RandomValue r = *x;
  r.exact = false;
  r.bound = 16;
  const RandomValue weight = g.fresh(TensorProto::FLOAT, {x->dims.back()});
  // As exporters spell it: x / sqrt(mean(x^2) + epsilon) * weight.
  const RandomValue two = g.constant(TensorProto::FLOAT, {}, {2});
  const RandomValue epsilon = g.constant(TensorProto::FLOAT, {}, {0.25});
  RandomValue square = r, mean = r;
  square.bound = x->bound * x->bound;
  square = g.node("Pow", {x->name, two.name}, square);
  mean.dims.back() = 1;
  mean.bound = square.bound;
  const Attribute keep{"keepdims", std::int64_t{1}};
  mean = g.opset >= 18 ? g.node("ReduceMean", {square.name, g.integers({-1})}, mean, {keep})
                       : g.node("ReduceMean", {square.name}, mean,
                                {{"axes", std::vector<std::int64_t>{-1}}, keep});
  const RandomValue shifted = g.node("Add", {mean.name, epsilon.name}, mean);
  const RandomValue root = g.node("Sqrt", {shifted.name}, shifted);
  const RandomValue scaled = g.node("Div", {x->name, root.name}, r);
  if (g.random.chance(0.5))
    g.node("Mul", {scaled.name, weight.name}, r);
  else
    g.node("Mul", {weight.name, scaled.name}, r);
  return true;
}

bool matmul(RandomGraph& g) {
  const auto a = g.find(
      [](const RandomValue& v) {
        return v.rank() >= 2 && v.rank() <= 4 && v.bound <= 64 && v.count() <= 1024 &&
               (is_float_type(v.element) || v.element == TensorProto::INT32);
      },
      true);
  if (!a) return false;
  Dims dims(a->dims.begin(), a->dims.end() - 2);
  if (g.random.chance(0.5)) dims.clear();
  for (auto& d : dims)
    if (g.random.chance(0.3)) d = 1;
  dims.push_back(a->dims.back());
  dims.push_back(g.random.integer(1, 20));
  const RandomValue b = g.fresh(a->element, dims);
  RandomValue r = *a;
  r.dims.back() = dims.back();
  note_sum(r, a->exact && b.exact, a->bound * b.bound, a->dims.back(), a->grain * b.grain);
  if (!is_float_type(a->element)) r.exact = true;
  if (r.bound > 4096) return false;
  g.node("MatMul", {a->name, b.name}, r);
  return true;
}

/// softmax(q k, scaled, biased or masked) v, with any number of keys; q may be such a result
/// itself.
bool attention(RandomGraph& g) {
  const auto q = g.find(
      [](const RandomValue& v) {
        return v.rank() >= 2 && v.rank() <= 3 && v.bound <= 16 && v.count() <= 256 &&
               v.element == TensorProto::FLOAT;
      },
      true);
  if (!q) return false;
  const std::int64_t depth = q->dims.back(), width = g.random.integer(1, 5);
  const std::int64_t keys = g.random.chance(0.2) ? g.random.integer(0, 1) : g.random.integer(2, 6);
  RandomValue s = *q;
  s.dims.back() = keys;
  s.exact = false;
  s.bound = q->bound * static_cast<double>(depth) + 32;
  if (s.bound > 512) return false;
  const RandomValue k = g.fresh(TensorProto::FLOAT, {depth, keys}, -4, 4);
  const RandomValue v = g.fresh(TensorProto::FLOAT, {keys, width});
  s = g.node("MatMul", {q->name, k.name}, s);
  const Dims rows{g.random.chance(0.5) ? 1 : q->dims[q->dims.size() - 2], keys};
  const auto kind = g.random.integer(0, 3);
  if (kind == 1) {
    s = g.node("Mul", {s.name, g.constant(TensorProto::FLOAT, {}, {0.5}).name}, s);
  } else if (kind == 2) {
    s = g.node("Add", {g.fresh(TensorProto::FLOAT, rows).name, s.name}, s);
  } else if (kind == 3) {
    const std::string mask = g.fresh(TensorProto::BOOL, rows).name;
    const std::string fill = g.constant(TensorProto::FLOAT, {}, {-30}).name;
    const bool kept = g.random.chance(0.5);
    s = g.node("Where", {mask, kept ? s.name : fill, kept ? fill : s.name}, s);
  }
  RandomValue p = s;
  p.bound = 1;
  p = g.node("Softmax", {s.name}, p, {{"axis", std::int64_t{-1}}});
  RandomValue y = p;
  y.dims.back() = width;
  y.bound = v.bound;
  g.node("MatMul", {p.name, v.name}, y);
  return true;
}

bool gemm(RandomGraph& g) {
  const auto a = g.find([](const RandomValue& v) {
    return v.rank() == 2 && v.bound <= 32 && v.element == TensorProto::FLOAT;
  });
  if (!a) return false;
  const bool turn_a = g.random.chance(0.3), turn_b = g.random.chance(0.5);
  const std::int64_t m = a->dims[turn_a ? 1 : 0], k = a->dims[turn_a ? 0 : 1];
  const std::int64_t n = g.random.integer(1, 20);
  const RandomValue b = g.fresh(TensorProto::FLOAT, turn_b ? Dims{n, k} : Dims{k, n});
  const RandomValue c = g.fresh(TensorProto::FLOAT, g.random.pick<Dims>({{n}, {1, n}, {m, 1}, {}}));
  RandomValue r = *a;
  r.dims = {m, n};
  r.exact = false;
  r.bound = a->bound * b.bound * static_cast<double>(k) + c.bound;
  if (r.bound > 4096) return false;
  std::vector<Attribute> attributes{{"transA", std::int64_t{turn_a}},
                                    {"transB", std::int64_t{turn_b}}};
  if (g.random.chance(0.3)) attributes.push_back({"alpha", 0.75f});
  if (g.random.chance(0.3)) attributes.push_back({"beta", 0.5f});
  g.node("Gemm", {a->name, b.name, c.name}, r, attributes);
  return true;
}

bool einsum(RandomGraph& g) {
  const auto a = some_float(g, 3, 32);
  if (!a || a->rank() != 3) return false;
  const RandomValue b = g.fresh(a->element, {a->dims[0], g.random.integer(1, 6), a->dims[2]});
  RandomValue r = *a;
  r.exact = false;
  r.bound = a->bound * b.bound * static_cast<double>(a->dims[2]);
  if (r.bound > 4096) return false;
  r.dims = {a->dims[0], a->dims[1], b.dims[1]};
  g.node("Einsum", {a->name, b.name}, r, {{"equation", std::string("bij,bkj->bik")}});
  return true;
}

}  // namespace

std::vector<RandomStep> reduction_steps() {
  return {reduce, reduce, arg_max,   softmax, layer_norm, rms_norm,
          matmul, matmul, attention, gemm,    einsum};
}

}  // namespace llmc::testing
