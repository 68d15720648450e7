#include <cmath>
#include <numbers>

#include "compiler/reference/eval.h"
#include "compiler/reference/functions.h"

/// Evaluates elementwise operators with numpy broadcasting.
namespace llmc::reference {
namespace {

using ir::BinaryKind;
using ir::UnaryKind;

std::int64_t apply(UnaryKind kind, std::int64_t x, bool is_unsigned) {
  // Unsigned integers have no sign, so these functions return x.
  if (is_unsigned && (kind == UnaryKind::kAbs || kind == UnaryKind::kRelu)) return x;
  if (is_unsigned && kind == UnaryKind::kSign) return x != 0;
  switch (kind) {
    case UnaryKind::kNeg:
      return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(x));
    case UnaryKind::kAbs:
      return x < 0 ? static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(x)) : x;
    case UnaryKind::kRelu:
      return x > 0 ? x : 0;
    case UnaryKind::kNot:
      return x == 0;
    case UnaryKind::kSign:
      return (x > 0) - (x < 0);
    default:
      return x;
  }
}

bool is_comparison(BinaryKind kind) {
  return kind >= BinaryKind::kEqual && kind <= BinaryKind::kGreaterOrEqual;
}

template <class T>
bool compare(BinaryKind kind, T a, T b) {
  switch (kind) {
    case BinaryKind::kEqual:
      return a == b;
    case BinaryKind::kLess:
      return a < b;
    case BinaryKind::kLessOrEqual:
      return a <= b;
    case BinaryKind::kGreater:
      return a > b;
    default:
      return a >= b;
  }
}

template <class Float>
Float apply_floats(BinaryKind kind, Float a, Float b) {
  switch (kind) {
    case BinaryKind::kAdd:
      return a + b;
    case BinaryKind::kSub:
      return a - b;
    case BinaryKind::kMul:
      return a * b;
    case BinaryKind::kDiv:
      return a / b;
    case BinaryKind::kPow:
      return static_cast<Float>(std::pow(static_cast<double>(a), static_cast<double>(b)));
    case BinaryKind::kMin:
      return std::isnan(a) || a < b ? a : b;
    case BinaryKind::kMax:
      return std::isnan(a) || a > b ? a : b;
    default:
      return std::fmod(a, b);
  }
}

std::int64_t integer_power(std::int64_t base, std::int64_t exponent, bool is_u64) {
  if (exponent < 0 && !is_u64)
    return base == 1 ? 1 : (base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0);
  std::uint64_t result = 1, square = static_cast<std::uint64_t>(base);
  for (auto e = static_cast<std::uint64_t>(exponent); e > 0; e >>= 1, square *= square)
    if (e & 1) result *= square;
  return static_cast<std::int64_t>(result);
}

std::int64_t apply_integers(BinaryKind kind, std::int64_t a, std::int64_t b, bool is_u64) {
  const auto ua = static_cast<std::uint64_t>(a), ub = static_cast<std::uint64_t>(b);
  const bool less = is_u64 ? ua < ub : a < b;
  switch (kind) {
    case BinaryKind::kAdd:
      return static_cast<std::int64_t>(ua + ub);
    case BinaryKind::kSub:
      return static_cast<std::int64_t>(ua - ub);
    case BinaryKind::kMul:
      return static_cast<std::int64_t>(ua * ub);
    case BinaryKind::kDiv:
      if (is_u64) return static_cast<std::int64_t>(ua / ub);
      return b == -1 ? static_cast<std::int64_t>(0 - ua) : a / b;
    case BinaryKind::kMod: {
      if (is_u64) return static_cast<std::int64_t>(ua % ub);
      if (b == -1) return 0;
      const std::int64_t rest = a % b;
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
    case BinaryKind::kPow:
      return integer_power(a, b, is_u64);
    case BinaryKind::kMin:
      return less ? a : b;
    case BinaryKind::kMax:
      return less ? b : a;
    case BinaryKind::kAnd:
      return a != 0 && b != 0;
    case BinaryKind::kXor:
      return (a != 0) != (b != 0);
    default:
      return a != 0 || b != 0;
  }
}

/// Computes out[i] = f(a[i], b[i]) with broadcasting.
template <class Out, class A, class B, class F>
void zip(const std::vector<std::int64_t>& dims, std::vector<Out>& out, const Tensor& a,
         const std::vector<A>& av, const Tensor& b, const std::vector<B>& bv, F&& f) {
  for_each_run<3>(
      dims, {strides_of(dims), broadcast_strides(a.dims, dims), broadcast_strides(b.dims, dims)},
      [&](const auto& at, std::int64_t n, const auto& step) {
        for (std::int64_t i = 0; i < n; ++i)
          out[index(at[0] + i)] = f(av[index(at[1] + i * step[1])], bv[index(at[2] + i * step[2])]);
      });
}

}  // namespace

template <class T>
T apply_binary(BinaryKind kind, T a, T b, bool is_u64) {
  if constexpr (std::is_same_v<T, std::int64_t>) {
    return apply_integers(kind, a, b, is_u64);
  } else {
    return apply_floats(kind, a, b);
  }
}
template float apply_binary(BinaryKind, float, float, bool);
template double apply_binary(BinaryKind, double, double, bool);
template std::int64_t apply_binary(BinaryKind, std::int64_t, std::int64_t, bool);

double apply_unary(UnaryKind kind, double x) {
  switch (kind) {
    case UnaryKind::kNeg:
      return -x;
    case UnaryKind::kAbs:
      return std::fabs(x);
    case UnaryKind::kSqrt:
      return std::sqrt(x);
    case UnaryKind::kReciprocal:
      return 1.0 / x;
    case UnaryKind::kExp:
      return exact_exp(x);
    case UnaryKind::kLog:
      return std::log(x);
    case UnaryKind::kSin:
      return exact_sin(x);
    case UnaryKind::kCos:
      return exact_cos(x);
    case UnaryKind::kTanh:
      return exact_tanh(x);
    case UnaryKind::kSigmoid:
      return 1.0 / (1.0 + exact_exp(-x));
    case UnaryKind::kErf:
      return exact_erf(x);
    case UnaryKind::kRelu:
      return x > 0 || std::isnan(x) ? x : 0.0;
    case UnaryKind::kGelu:
      return 0.5 * x * (1.0 + exact_erf(x * std::numbers::sqrt2 / 2));
    case UnaryKind::kGeluTanh:
      return 0.5 * x *
             (1.0 + exact_tanh(std::numbers::sqrt2 * std::numbers::inv_sqrtpi *
                               (x + 0.044715 * x * x * x)));
    case UnaryKind::kSilu:
      return x / (1.0 + exact_exp(-x));
    case UnaryKind::kFloor:
      return std::floor(x);
    case UnaryKind::kCeil:
      return std::ceil(x);
    case UnaryKind::kRound:
      return std::nearbyint(x);  // the default rounding mode: half to even
    case UnaryKind::kSign:
      return std::isnan(x) ? x : static_cast<double>((x > 0) - (x < 0));
    case UnaryKind::kIdentity:
    case UnaryKind::kNot:
    case UnaryKind::kIsNan:
    case UnaryKind::kIsInf:
      break;
  }
  return x;
}

Result<Tensors> eval_op(EvalContext& c, const ir::Unary& op) {
  const Tensor& x = c.operand(0);
  if (op.kind == UnaryKind::kIsNan || op.kind == UnaryKind::kIsInf) {
    LLMC_RETURN_IF_ERROR(c.want_float(0));
    LLMC_TRY(Tensor out, c.make(ir::ElementType::kBool, x.dims));
    const auto test = [&](const auto& values) {
      for (std::size_t i = 0; i < values.size(); ++i)
        out.integers[i] =
            op.kind == UnaryKind::kIsNan ? std::isnan(values[i]) : std::isinf(values[i]);
    };
    x.element == ir::ElementType::kF64 ? test(x.doubles) : test(x.floats);
    return Tensors{std::move(out)};
  }
  const bool for_integers = op.kind == UnaryKind::kIdentity || op.kind == UnaryKind::kNeg ||
                            op.kind == UnaryKind::kAbs || op.kind == UnaryKind::kRelu ||
                            op.kind == UnaryKind::kSign || op.kind == UnaryKind::kNot;
  if (!x.is_float() && !for_integers) return c.error("takes floats, got " + type_text(x));
  if (op.kind == UnaryKind::kNot && x.element != ir::ElementType::kBool)
    return c.error("takes bools, got " + type_text(x));
  LLMC_TRY(Tensor out, c.make(x.element, x.dims));
  for (std::size_t i = 0; i < x.floats.size(); ++i)
    out.floats[i] = static_cast<float>(apply_unary(op.kind, static_cast<double>(x.floats[i])));
  for (std::size_t i = 0; i < x.doubles.size(); ++i)
    out.doubles[i] = apply_unary(op.kind, x.doubles[i]);
  const bool is_unsigned = x.element == ir::ElementType::kU64;
  for (std::size_t i = 0; i < x.integers.size(); ++i)
    out.integers[i] = apply(op.kind, x.integers[i], is_unsigned);
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::Binary& op) {
  const Tensor &a = c.operand(0), &b = c.operand(1);
  const BinaryKind kind = op.kind;
  const bool is_u64 = a.element == ir::ElementType::kU64;
  if (a.element != b.element && kind != BinaryKind::kPow)
    return c.error("operands differ: " + type_text(a) + " against " + type_text(b));
  LLMC_TRY(const auto dims, broadcast_dims(c, a.dims, b.dims));
  LLMC_TRY(Tensor out, c.make(is_comparison(kind) ? ir::ElementType::kBool : a.element, dims));
  if (is_comparison(kind)) {
    with_data(a.element, [&](auto data) {
      zip(dims, out.integers, a, a.*data, b, b.*data, [&](auto x, auto y) -> std::int64_t {
        if constexpr (std::is_same_v<decltype(x), std::int64_t>)
          if (is_u64)
            return compare(kind, static_cast<std::uint64_t>(x), static_cast<std::uint64_t>(y));
        return compare(kind, x, y);
      });
    });
    return Tensors{std::move(out)};
  }
  const bool logical =
      kind == BinaryKind::kAnd || kind == BinaryKind::kOr || kind == BinaryKind::kXor;
  if (logical && a.is_float()) return c.error("takes bools, got " + type_text(a));
  if (!a.is_float() && (kind == BinaryKind::kDiv || kind == BinaryKind::kMod))
    for (const std::int64_t divisor : b.integers)
      if (divisor == 0 && out.count() > 0) return c.error("division by zero");
  with_data(a.element, [&](auto first) {
    with_data(b.element, [&](auto second) {
      zip(dims, out.*first, a, a.*first, b, b.*second, [&](auto x, auto y) {
        using X = decltype(x);
        if constexpr (std::is_integral_v<X> && !std::is_integral_v<decltype(y)>) {
          const double p = std::pow(static_cast<double>(x), static_cast<double>(y));
          return std::fabs(p) < 0x1p63 ? static_cast<X>(p) : X{0};
        } else {
          return apply_binary(kind, x, static_cast<X>(y), is_u64);
        }
      });
    });
  });
  return Tensors{std::move(out)};
}

Result<Tensors> eval_op(EvalContext& c, const ir::Where&) {
  const Tensor &condition = c.operand(0), &a = c.operand(1), &b = c.operand(2);
  if (condition.element != ir::ElementType::kBool || a.element != b.element)
    return c.error("takes a bool condition and two operands of one type");
  LLMC_TRY(const auto branches, broadcast_dims(c, a.dims, b.dims));
  LLMC_TRY(const auto dims, broadcast_dims(c, condition.dims, branches));
  LLMC_TRY(Tensor out, c.make(a.element, dims));
  const auto choose = [&](auto& to, const auto& x, const auto& y) {
    for_each_run<4>(dims,
                    {strides_of(dims), broadcast_strides(condition.dims, dims),
                     broadcast_strides(a.dims, dims), broadcast_strides(b.dims, dims)},
                    [&](const auto& at, std::int64_t n, const auto& step) {
                      for (std::int64_t i = 0; i < n; ++i) {
                        const auto place = [&](std::size_t k) {
                          return index(at[k] + i * step[k]);
                        };
                        to[place(0)] = condition.integers[place(1)] ? x[place(2)] : y[place(3)];
                      }
                    });
  };
  with_data(a.element, [&](auto data) { choose(out.*data, a.*data, b.*data); });
  return Tensors{std::move(out)};
}

}  // namespace llmc::reference
