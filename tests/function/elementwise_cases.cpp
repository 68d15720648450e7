#include "tests/function/cases.h"

namespace llmc::function_test {
namespace {

constexpr Case kElementwiseCases[] = {
    {"chain", R"(graph @g(%x: f32[2, 3, 64], %b: f32[64]) {
  %s = add %x, %b
  %t = tanh %s
  %g = sigmoid %s
  %p = mul %t, %g
  %y = transpose %p {perm = [1, 0, 2]}
  return %y, %p
})"},
    {"every_unary", R"(graph @g(%x: f32[37]) {
  %a = neg %x
  %b = abs %x
  %c = sqrt %b
  %d = reciprocal %x
  %e = exp %x
  %f = log %b
  %h = sin %x
  %i = cos %x
  %j = tanh %x
  %k = sigmoid %x
  %l = erf %x
  %m = relu %x
  %n = floor %x
  %o = ceil %x
  %p = gelu %x
  %q = gelu_tanh %x
  %r = silu %x
  %s = round %x
  %t = sign %x
  %u = is_inf %d
  %v = is_nan %f
  return %a, %b, %c, %d, %e, %f, %h, %i, %j, %k, %l, %m, %n, %o, %p, %q, %r, %s, %t, %u, %v
})",
     true},
    {"every_unary_f64", R"(graph @g(%x: f64[37]) {
  %b = abs %x
  %c = sqrt %b
  %e = exp %x
  %f = log %b
  %h = sin %x
  %i = cos %x
  %j = tanh %x
  %k = sigmoid %x
  %l = erf %x
  %n = floor %x
  %o = ceil %x
  %s = round %x
  return %c, %e, %f, %h, %i, %j, %k, %l, %n, %o, %s
})",
     true},
    {"every_binary", R"(graph @g(%x: f32[3, 5], %z: f32[5]) {
  %a = add %x, %z
  %b = sub %x, %z
  %c = mul %x, %z
  %d = div %x, %z
  %p = abs %x
  %e = pow %p, %z
  %f = min %x, %z
  %h = max %x, %z
  %i = mod %x, %z
  %j = equal %x, %z
  %k = less %x, %z
  %l = less_or_equal %x, %z
  %m = greater %x, %z
  %n = greater_or_equal %x, %z
  %o = and %k, %m
  %q = or %k, %m
  %r = xor %k, %q
  %s = not %r
  return %a, %b, %c, %d, %e, %f, %h, %i, %j, %k, %l, %m, %n, %o, %q, %r, %s
})",
     true},
    {"integers_wrap", R"(graph @g(%x: i8[4, 1], %z: i8[7], %u: u8[7], %l: i64[7], %w: u64[7]) {
  %a = add %x, %z
  %b = mul %x, %z
  %c = sub %x, %z
  %d = neg %x
  %e = abs %x
  %f = add %u, %u
  %h = mul %l, %l
  %i = sub %w, %w
  %j = max %u, %u
  %k = cast %u {to = i32}
  %m = cast %x {to = f32}
  %n = sign %x
  return %a, %b, %c, %d, %e, %f, %h, %i, %j, %k, %m, %n
})"},
    {"where_and_casts", R"(graph @g(%c: bool[4, 1], %x: f32[4, 6], %i: i32[6]) {
  %f = cast %i {to = f32}
  %w = where %c, %x, %f
  %h = cast %w {to = f16}
  %b = cast %w {to = bf16}
  %s = cast %w {to = i8}
  %t = cast %w {to = bool}
  %u = cast %h {to = f32}
  %d = cast %i {to = f64}
  return %w, %h, %b, %s, %t, %u, %d
})"},
    {"halves", R"(graph @g(%x: f16[3, 9], %z: bf16[9]) {
  %a = cast %x {to = f32}
  %b = cast %z {to = f32}
  %s = add %a, %b
  %y = cast %s {to = f16}
  %w = transpose %x {perm = [1, 0]}
  return %y, %w
})"},
    {"scalars", R"(graph @g(%x: f32[], %k: i64[]) {
  %one = constant f32[] {1.5}
  %a = add %x, %one
  %b = cast %k {to = f32}
  %c = mul %a, %b
  return %c, %x, %one
})"},
    {"empty", R"(graph @g(%x: f32[0, 4], %z: f32[1, 4]) {
  %a = exp %x
  %c = concat %x, %z {axis = 0}
  %r = reduce_sum %x {axes = [0], keep_dims = false}
  return %a, %c, %r
})"},
    {"gated", R"(graph @g(%x: f32[2, 16]) {
  %a, %b = split %x {axis = 1, sizes = [8, 8]}
  %y = gated_activation %a, %b {fn = silu}
  return %y
})"},
    {"squares", R"(graph @g(%x: f32[2, 16]) {
  %two = constant f32[] {2}
  %a = pow %x, %two
  return %a
})"},
};

}  // namespace

std::span<const Case> elementwise_cases() {
  return kElementwiseCases;
}

}  // namespace llmc::function_test
