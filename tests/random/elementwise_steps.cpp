#include <algorithm>
#include <cmath>

#include "tests/random/random_graph.h"

namespace llmc::testing {
namespace {

using onnx::TensorProto;

constexpr double kLargest =
    4096;  // floats stay below, so that nothing overflows or loses all digits

bool exact_enough(double bound, double grain) {
  return bound / grain < 0x1p22;
}

/// Elements computed from `a` that may round: below `bound`.
RandomValue rounded(const RandomValue& a, double bound) {
  RandomValue r = a;
  r.exact = false;
  r.bound = bound;
  return r;
}

std::optional<RandomValue> some_float(RandomGraph& g, double bound = kLargest) {
  return g.find([&](const RandomValue& v) { return is_float_type(v.element) && v.bound <= bound; },
                true);
}
std::optional<RandomValue> some_exact(RandomGraph& g) {
  return g.find([](const RandomValue& v) { return v.exact && v.element != TensorProto::BOOL; },
                true);
}

/// A value whose dims broadcast with those of `a`, of the same type, made when there is none.
RandomValue partner(RandomGraph& g, const RandomValue& a, bool exact = false) {
  if (g.random.chance(0.5)) {
    const auto there = g.find(
        [&](const RandomValue& v) {
          if (v.element != a.element || (exact && !v.exact)) return false;
          for (std::size_t i = 0; i < std::min(v.dims.size(), a.dims.size()); ++i) {
            const auto x = v.dims[v.dims.size() - 1 - i], y = a.dims[a.dims.size() - 1 - i];
            if (x != y && x != 1 && y != 1) return false;
          }
          return v.count() * a.count() < 4096;
        },
        true);
    if (there) return *there;
  }
  Dims dims = a.dims;
  for (auto& d : dims)
    if (g.random.chance(0.2)) d = 1;
  if (!dims.empty() && g.random.chance(0.3))
    dims.erase(dims.begin(), dims.begin() + g.random.integer(1, a.rank()));
  return g.fresh(a.element, dims, -6, 6);
}

Dims broadcast(const Dims& a, const Dims& b) {
  Dims dims(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const auto x = i < a.size() ? a[a.size() - 1 - i] : 1,
               y = i < b.size() ? b[b.size() - 1 - i] : 1;
    dims[dims.size() - 1 - i] = x == 1 ? y : x;
  }
  return dims;
}

RandomValue joined(const RandomValue& a, const RandomValue& b, double bound, double grain) {
  RandomValue r = a;
  r.dims = broadcast(a.dims, b.dims);
  r.bound = bound;
  r.grain = grain;
  r.exact = !is_float_type(a.element) || (a.exact && b.exact && exact_enough(bound, grain));
  return r;
}

/// |x| + c, away from zero.
RandomValue positive(RandomGraph& g, const RandomValue& x, double c) {
  RandomValue magnitude = x;
  magnitude = g.node("Abs", {x.name}, magnitude);
  const RandomValue one = g.constant(x.element, {}, {c});
  return g.node("Add", {magnitude.name, one.name},
                joined(x, one, x.bound + c, std::min(x.grain, 0.25)));
}

bool smooth_unary(RandomGraph& g) {
  struct Kind {
    const char* op;
    double largest, bound;  // of the operand, of the result
  };
  static const std::vector<Kind> kinds{{"Tanh", kLargest, 1},
                                       {"Sigmoid", kLargest, 1},
                                       {"Exp", 4, 55},
                                       {"Erf", kLargest, 1},
                                       {"Sin", 256, 1},
                                       {"Cos", 256, 1},
                                       {"Identity", kLargest, kLargest}};
  const Kind& kind = g.random.pick(kinds);
  const auto x = some_float(g, kind.largest);
  // The interpreter rounds the angle's f32 once; a rounded large angle would be another angle.
  if (!x || (!x->exact && x->bound > 16)) return false;
  g.node(kind.op, {x->name},
         rounded(*x,
                 std::min(kind.bound, kind.op == std::string("Identity") ? x->bound : kind.bound)));
  return true;
}

bool guarded_unary(RandomGraph& g) {
  const auto x = some_float(g, 512);
  if (!x) return false;
  const RandomValue p = positive(g, *x, 0.5);
  const std::string op = g.random.pick<std::string>({"Sqrt", "Log", "Reciprocal"});
  g.node(op, {p.name}, rounded(p, op == "Reciprocal" ? 2 : std::max(1.0, p.bound)));
  return true;
}

bool exact_unary(RandomGraph& g) {
  const auto x = g.find([](const RandomValue& v) {
    return v.element != TensorProto::BOOL && v.element != TensorProto::UINT8 &&
           (v.element != TensorProto::INT8 || v.bound < 100);
  });
  if (!x) return false;
  const std::string op = g.random.pick<std::string>({"Neg", "Abs", "Relu"});
  if (op == "Relu" && !is_float_type(x->element)) return false;
  g.node(op, {x->name}, *x);
  return true;
}

bool rounding(RandomGraph& g) {
  const auto x = g.find([](const RandomValue& v) { return v.exact && is_float_type(v.element); });
  if (!x) return false;
  RandomValue r = *x;
  r.bound = std::ceil(r.bound);
  r.grain = 1;
  g.node(g.random.pick<std::string>({"Floor", "Ceil", "Round"}), {x->name}, r);
  return true;
}

bool arithmetic(RandomGraph& g) {
  const auto a = g.find([](const RandomValue& v) {
    return v.element != TensorProto::BOOL && (!is_float_type(v.element) || v.bound <= kLargest);
  });
  if (!a) return false;
  const RandomValue b = partner(g, *a);
  const std::string op = g.random.pick<std::string>({"Add", "Sub", "Mul", "Min", "Max"});
  if ((op == "Min" || op == "Max") && is_float_type(a->element)) {
    g.node(op, {a->name, b.name},
           joined(*a, b, std::max(a->bound, b.bound), std::min(a->grain, b.grain)));
    return true;
  }
  const double bound = op == "Mul" ? a->bound * b.bound : a->bound + b.bound;
  if (is_float_type(a->element) && bound > kLargest) return false;
  // Integers wrap; what they wrap to is not bounded by the operands.
  const double reach = is_float_type(a->element) ? bound : 0x1p63;
  g.node(op, {a->name, b.name},
         joined(*a, b, reach, op == "Mul" ? a->grain * b.grain : std::min(a->grain, b.grain)));
  return true;
}

bool division(RandomGraph& g) {
  const auto a = some_float(g, 512);
  if (!a) return false;
  const RandomValue b = positive(g, partner(g, *a), 1);
  RandomValue r = joined(*a, b, a->bound, 1);
  r.exact = false;
  g.node("Div", {a->name, b.name}, r);
  return true;
}

bool integer_division(RandomGraph& g) {
  const auto a = g.find([](const RandomValue& v) {
    return v.element == TensorProto::INT32 || v.element == TensorProto::INT64;
  });
  if (!a) return false;
  const RandomValue b = g.fresh(a->element, {}, 1, 7);
  const bool modulo = g.random.chance(0.5);
  g.node(modulo ? "Mod" : "Div", {a->name, b.name}, joined(*a, b, modulo ? b.bound : a->bound, 1));
  return true;
}

bool power(RandomGraph& g) {
  const auto a = some_float(g, 12);
  if (!a) return false;
  const RandomValue p = positive(g, *a, 0.5);
  const double exponent = g.random.pick<double>({2, 0.5, 3, -1, 1.5});
  const RandomValue e = g.constant(a->element, {}, {exponent});
  g.node("Pow", {p.name, e.name}, rounded(p, std::pow(std::max(2.0, p.bound), std::abs(exponent))));
  return true;
}

bool comparison(RandomGraph& g) {
  const auto a = some_exact(g);
  if (!a) return false;
  const RandomValue b = partner(g, *a, true);
  if (!b.exact) return false;
  RandomValue r = joined(*a, b, 1, 1);
  r.element = TensorProto::BOOL;
  r.exact = true;
  g.node(g.random.pick<std::string>({"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}),
         {a->name, b.name}, r);
  return true;
}

bool logic(RandomGraph& g) {
  const auto a = g.find([](const RandomValue& v) { return v.element == TensorProto::BOOL; });
  if (!a) return false;
  if (g.random.chance(0.3)) {
    g.node("Not", {a->name}, *a);
    return true;
  }
  const RandomValue b = partner(g, *a);
  RandomValue r = joined(*a, b, 1, 1);
  g.node(g.random.pick<std::string>({"And", "Or", "Xor"}), {a->name, b.name}, r);
  return true;
}

bool where(RandomGraph& g) {
  const auto condition =
      g.find([](const RandomValue& v) { return v.element == TensorProto::BOOL; });
  if (!condition) return false;
  RandomValue a = *condition;
  a.element = g.random.pick<int>({TensorProto::FLOAT, TensorProto::INT64, TensorProto::DOUBLE});
  const RandomValue yes = partner(g, a);
  const RandomValue no = partner(g, yes);
  const Dims dims = broadcast(condition->dims, broadcast(yes.dims, no.dims));
  for (const auto& [x, y] : {std::pair(condition->dims, no.dims)})
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      const auto p = x[x.size() - 1 - i], q = y[y.size() - 1 - i];
      if (p != q && p != 1 && q != 1) return false;
    }
  RandomValue r = joined(yes, no, std::max(yes.bound, no.bound), std::min(yes.grain, no.grain));
  r.dims = dims;
  g.node("Where", {condition->name, yes.name, no.name}, r);
  return true;
}

bool cast(RandomGraph& g) {
  const auto x = g.find([](const RandomValue& v) { return v.exact && v.bound <= 100; });
  if (!x) return false;
  const int to = g.random.pick<int>({TensorProto::FLOAT, TensorProto::DOUBLE, TensorProto::INT32,
                                     TensorProto::INT64, TensorProto::BOOL, TensorProto::INT16});
  RandomValue r = *x;
  r.element = to;
  if (!is_float_type(to)) r.grain = 1;
  if (to == TensorProto::BOOL) r.bound = 1;
  g.node("Cast", {x->name}, r, {{"to", static_cast<std::int64_t>(to)}});
  return true;
}

bool clip(RandomGraph& g) {
  const auto x = g.find([](const RandomValue& v) { return v.element == TensorProto::FLOAT; });
  if (!x) return false;
  const RandomValue low = g.constant(TensorProto::FLOAT, {}, {-1.5});
  const RandomValue high = g.constant(TensorProto::FLOAT, {}, {2.25});
  RandomValue r = *x;
  r.bound = std::min(r.bound, 2.25);
  r.grain = std::min(r.grain, 0.25);
  g.node("Clip", {x->name, low.name, high.name}, r);
  return true;
}

}  // namespace

std::vector<RandomStep> elementwise_steps() {
  return {smooth_unary,     guarded_unary, exact_unary, rounding, arithmetic, arithmetic, division,
          integer_division, power,         comparison,  logic,    where,      cast,       clip};
}

}  // namespace llmc::testing
