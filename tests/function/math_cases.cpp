#include "tests/function/cases.h"

namespace llmc::function_test {
namespace {

constexpr Case kMathCases[] = {
    {"matmul_constant", R"(graph @g(%x: f32[2, 7, 300]) {
  %w = constant f32[300, 37] random(7, 0.5)
  %y = matmul %x, %w
  return %y
})"},
    {"matmul_of_constants", R"(graph @g(%x: f32[5, 15]) {
  %a = constant f32[5, 2] random(7, 0.5)
  %w = constant f32[2, 15] random(8, 0.5)
  %y = matmul %a, %w
  %z = add %y, %x
  return %z
})"},
    {"matmul_variable",
     R"(graph @g(%x: f32[2, 1, 7, 33], %w: f32[3, 33, 37], %v: f32[37], %u: f32[33]) {
  %y = matmul %x, %w
  %a = matmul %y, %v
  %b = matmul %u, %w
  %c = matmul %v, %v
  return %y, %a, %b, %c
})"},
    // Columns beside whole vectors, of batches of few and many rows.
    {"matmul_of_all_widths",
     R"(graph @g(%x: f32[3, 20, 9], %a: f32[3, 9, 1], %b: f32[3, 9, 8], %c: f32[3, 9, 15], %d: f32[3, 9, 27], %z: f32[3, 3, 9]) {
  %e = matmul %x, %a
  %f = matmul %x, %b
  %g = matmul %x, %c
  %h = matmul %x, %d
  %i = matmul %z, %a
  %j = matmul %z, %b
  %k = matmul %z, %c
  %l = matmul %z, %d
  return %e, %f, %g, %h, %i, %j, %k, %l
})"},
    {"matmul_of_many_rows",
     R"(graph @g(%x: f32[2, 2, 130, 40], %y: f32[2, 2, 50, 40], %w: f32[40, 33]) {
  %t = transpose %y {perm = [0, 1, 3, 2]}
  %a = matmul %x, %t
  %b = matmul %x, %w
  %s = transpose %x {perm = [0, 2, 1, 3]}
  %c = matmul %s, %w
  return %a, %b, %c
})"},
    {"matmul_of_single_rows",
     R"(graph @g(%x: f32[3, 1, 9], %w: f32[1, 9, 5], %u: f64[3, 1, 9], %v: f64[1, 9, 5]) {
  %y = matmul %x, %w
  %z = matmul %u, %v
  return %y, %z
})"},
    {"scores", R"(graph @g(%q: f32[1, 5, 4, 8], %k: f32[1, 20, 4, 8]) {
  %a = transpose %q {perm = [0, 2, 1, 3]}
  %b = transpose %k {perm = [0, 2, 3, 1]}
  %s = matmul %a, %b
  %p = softmax %s {axis = -1}
  return %p
})"},
    {"attention_with_bias",
     R"(graph @g(%q: f32[2, 70, 4, 8], %k: f32[2, 20, 4, 8], %v: f32[2, 4, 20, 24], %b: f32[2, 1, 1, 20]) {
  %a = transpose %q {perm = [0, 2, 1, 3]}
  %kt = transpose %k {perm = [0, 2, 3, 1]}
  %s = matmul %a, %kt
  %c = constant f32[] {2.5}
  %d = div %s, %c
  %e = add %d, %b
  %p = softmax %e {axis = -1}
  %y = matmul %p, %v
  return %y
})"},
    {"attention_with_mask",
     R"(graph @g(%q: f32[3, 5, 8], %k: f32[3, 8, 9], %v: f32[1, 9, 16], %m: bool[5, 9]) {
  %s = matmul %q, %k
  %f = constant f32[] {-3.4028234663852886e38}
  %e = where %m, %s, %f
  %p = softmax %e {axis = 2}
  %y = matmul %p, %v
  %t = matmul %q, %k
  %u = softmax %t {axis = 2}
  %w = matmul %u, %v
  return %y, %w
})"},
    // A softcap, then a bias, then a mask.
    {"attention_with_softcap",
     R"(graph @g(%q: f32[3, 5, 8], %k: f32[3, 8, 21], %v: f32[1, 21, 16], %b: f32[5, 21], %m: bool[5, 21]) {
  %s = matmul %q, %k
  %c = constant f32[] {1.5}
  %d = div %s, %c
  %t = tanh %d
  %u = mul %t, %c
  %w = add %u, %b
  %f = constant f32[] {-3.4028234663852886e38}
  %e = where %m, %w, %f
  %p = softmax %e {axis = 2}
  %y = matmul %p, %v
  return %y
})"},
    // A bias of each head, a mask of all, and views between them.
    {"attention_with_bias_and_mask",
     R"(graph @g(%q: f32[4, 45, 16], %k: f32[4, 70, 16], %v: f32[4, 70, 24], %b: f32[4, 45, 70], %m: i64[1, 70], %n: i64[45, 1]) {
  %kt = transpose %k {perm = [0, 2, 1]}
  %c = constant f32[] {4}
  %d = div %kt, %c
  %s = matmul %q, %d
  %t = add %s, %b
  %four = constant i64[4] {1, 4, 45, 70}
  %w = reshape %t, %four
  %o = mul %m, %n
  %i = cast %o {to = bool}
  %j = not %i
  %f = constant f32[] {-3.4028234663852886e38}
  %e = where %j, %f, %w
  %p = softmax %e {axis = 3}
  %three = constant i64[3] {4, 45, 70}
  %r = reshape %p, %three
  %y = matmul %r, %v
  return %y
})"},
    // Rows without a key are 0.
    {"attention_with_guard",
     R"(graph @g(%q: f32[2, 40, 8], %k: f32[2, 8, 50], %v: f32[2, 50, 72], %m: i64[40, 50], %n: i64[40, 1]) {
  %h = constant f32[] {0.5}
  %a = mul %q, %h
  %c = mul %k, %h
  %s = matmul %a, %c
  %zero = constant f32[1] {0}
  %low = constant f32[1] {-inf}
  %o = mul %m, %n
  %i = cast %o {to = bool}
  %b = where %i, %zero, %low
  %e = add %s, %b
  %p = softmax %e {axis = 2}
  %x = is_nan %p
  %g = where %x, %zero, %p
  %y = matmul %g, %v
  return %y
})"},
    {"attention_of_specials_with_guard",
     R"(graph @g(%q: f32[9, 8], %k: f32[8, 12]) {
  %v = constant f32[12, 16] random(2, 0.5)
  %zero = constant f32[] {0}
  %s = matmul %q, %k
  %p = softmax %s {axis = 1}
  %x = is_nan %p
  %g = where %x, %zero, %p
  %y = matmul %g, %v
  return %y
})",
     true},
    {"attention_of_capped_specials",
     R"(graph @g(%q: f32[9, 8], %k: f32[8, 12]) {
  %v = constant f32[12, 16] random(2, 0.5)
  %c = constant f32[] {2}
  %zero = constant f32[] {0}
  %s = matmul %q, %k
  %d = div %s, %c
  %t = tanh %d
  %u = mul %t, %c
  %p = softmax %u {axis = 1}
  %x = is_nan %p
  %g = where %x, %zero, %p
  %y = matmul %g, %v
  return %y
})",
     true},
    // What a mask hides leaves no trace, whatever it is; an empty sum is 0.
    {"attention_of_hidden_specials",
     R"(graph @g(%k: f32[12, 8]) {
  %q = constant f32[5, 8] random(1, 0.5)
  %v = constant f32[12, 16] random(2, 0.5)
  %kt = transpose %k {perm = [1, 0]}
  %s = matmul %q, %kt
  %i = constant i64[12] {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
  %n = constant i64[] {2}
  %m = less %i, %n
  %f = constant f32[] {-1e4}
  %e = where %m, %f, %s
  %p = softmax %e {axis = 1}
  %y = matmul %p, %v
  return %y
})",
     true},
    // The scores of the second are the first.
    {"attention_of_attention",
     R"(graph @g(%q: f32[3, 4], %k: f32[4, 5], %v: f32[5, 6], %w: f32[6, 2], %b: f32[3, 6]) {
  %s = matmul %q, %k
  %p = softmax %s {axis = 1}
  %o = matmul %p, %v
  %h = constant f32[] {0.5}
  %g = mul %o, %h
  %e = add %g, %b
  %r = softmax %e {axis = 1}
  %y = matmul %r, %w
  return %y
})"},
    {"attention_of_spread_scores",
     R"(graph @g(%q: f32[3, 4], %k: f32[4, 1], %v: f32[5, 2], %m: bool[3, 5]) {
  %s = matmul %q, %k
  %f = constant f32[] {-1e38}
  %e = where %m, %f, %s
  %p = softmax %e {axis = 1}
  %y = matmul %p, %v
  return %y
})"},
    {"attention_of_nothing",
     R"(graph @g(%q: f32[3, 4], %k: f32[4, 0], %v: f32[0, 6], %u: f32[3, 0], %l: f32[0, 5], %w: f32[5, 6]) {
  %s = matmul %q, %k
  %p = softmax %s {axis = 1}
  %y = matmul %p, %v
  %t = matmul %u, %l
  %r = softmax %t {axis = 1}
  %z = matmul %r, %w
  return %y, %z
})"},
    {"products_with_empty_constants", R"(graph @g(%x: f32[2, 0], %c: f32[3]) {
  %w = constant f32[0, 3] {}
  %y = matmul %x, %w
  %z = gemm %x, %w, %c {alpha = 0.5, beta = 2, trans_a = false, trans_b = false}
  return %y, %z
})"},
    {"products_of_all_types",
     R"(graph @g(%a: f64[3, 9], %b: f64[9, 5], %c: i32[3, 9], %d: i32[9, 5], %e: u8[2, 3], %f: u8[3, 2]) {
  %x = matmul %a, %b
  %y = matmul %c, %d
  %z = matmul %e, %f
  return %x, %y, %z
})"},
    {"conv_1d", R"(graph @g(%x: f32[2, 40, 150]) {
  %w = constant f32[35, 40, 7] random(7, 0.5)
  %y = conv %x, %w {strides = [1], dilations = [1]}
  %z = conv %x, %w {strides = [2], dilations = [3]}
  return %y, %z
})"},
    {"conv_2d_with_padding",
     R"(graph @g(%x: f32[2, 3, 13, 21], %w: f32[8, 3, 3, 5], %b: f32[8, 1, 1]) {
  %p = constant i64[8] {0, 0, 1, 2, 0, 0, 1, 2}
  %q = pad %x, %p
  %y = conv %q, %w {strides = [1, 1], dilations = [1, 1]}
  %z = add %y, %b
  %r = relu %z
  return %r
})"},
    {"conv_of_groups", R"(graph @g(%x: f32[1, 12, 19]) {
  %u = constant f32[18, 4, 3] random(1, 0.5)
  %v = constant f32[12, 1, 5] random(2, 0.5)
  %w = constant f32[8, 3, 1] random(3, 0.5)
  %a = conv %x, %u {strides = [1], dilations = [2], groups = 3}
  %b = conv %x, %v {strides = [2], dilations = [1], groups = 12}
  %c = conv %x, %w {strides = [1], dilations = [1], groups = 4}
  return %a, %b, %c
})"},
    {"conv_by_channel", R"(graph @g(%x: f32[2, 3, 20, 45]) {
  %w = constant f32[6, 1, 7, 7] random(1, 0.5)
  %y = conv %x, %w {strides = [1, 1], dilations = [1, 1], groups = 3}
  %z = conv %x, %w {strides = [2, 3], dilations = [2, 1], groups = 3}
  return %y, %z
})"},
    // Rows of positions that do not fill a vector, or more than one; the last ones end with x.
    {"conv_by_channel_of_narrow_rows",
     R"(graph @g(%x: f32[1, 5, 13, 13], %z: f32[2, 3, 18, 6], %u: f32[1, 3, 9, 7]) {
  %w = constant f32[5, 1, 7, 7] random(1, 0.5)
  %a = conv %x, %w {strides = [1, 1], dilations = [1, 1], groups = 5}
  %v = constant f32[3, 1, 2, 1] random(2, 0.5)
  %b = conv %z, %v {strides = [1, 1], dilations = [1, 1], groups = 3}
  %t = transpose %u {perm = [0, 1, 3, 2]}
  %c = conv %t, %v {strides = [1, 1], dilations = [2, 1], groups = 3}
  %s = constant f32[3, 3, 1, 4] random(3, 0.5)
  %d = conv %u, %s {strides = [1, 1], dilations = [1, 1]}
  return %a, %b, %c, %d
})"},
    // Few positions of many rows, from channels that are last in memory.
    {"conv_of_channels_last", R"(graph @g(%x: f32[1, 6, 5, 30], %s: f32[1, 3, 4, 4, 5]) {
  %t = transpose %x {perm = [0, 3, 1, 2]}
  %w = constant f32[200, 30, 3, 3] random(1, 0.5)
  %y = conv %t, %w {strides = [1, 1], dilations = [1, 1]}
  %v = constant f32[5, 3, 2, 3, 2] random(2, 0.5)
  %z = conv %s, %v {strides = [1, 1, 2], dilations = [2, 1, 1]}
  return %y, %z
})"},
    // More channels than a block, a rest of one vector, and channels that are not adjacent in
    // memory.
    {"depthwise_conv",
     R"(graph @g(%x: f32[2, 9, 13, 85], %z: f32[3, 40, 24], %t: f32[1, 11, 7, 5]) {
  %w = constant f32[3, 3, 85] random(1, 0.5)
  %a = depthwise_conv %x, %w {strides = [1, 1], dilations = [1, 1]}
  %b = depthwise_conv %x, %w {strides = [2, 3], dilations = [2, 1]}
  %v = constant f32[5, 24] random(2, 0.5)
  %c = depthwise_conv %z, %v {strides = [1], dilations = [3]}
  %u = transpose %t {perm = [0, 2, 3, 1]}
  %s = constant f32[2, 1, 11] random(3, 0.5)
  %d = depthwise_conv %u, %s {strides = [1, 1], dilations = [1, 1]}
  return %a, %b, %c, %d
})"},
    // Rows that strides express, that are copied, and the windows of an expression.
    {"unfolds", R"(graph @g(%x: f32[2, 30, 3], %s: f32[1, 7, 9, 4], %i: i32[2, 5, 1]) {
  %a = unfold %x {kernel = [4], strides = [3], dilations = [1]}
  %b = unfold %x {kernel = [3], strides = [1], dilations = [5]}
  %e = exp %s
  %c = unfold %e {kernel = [3, 2], strides = [2, 1], dilations = [1, 3]}
  %d = unfold %i {kernel = [1], strides = [2], dilations = [1]}
  return %a, %b, %c, %d
})"},
    {"gemms", R"(graph @g(%a: f32[4, 18], %b: f32[18, 20], %c: f32[20]) {
  %w = constant f32[20, 18] random(3, 0.5)
  %x = gemm %a, %w, %c {alpha = 0.5, beta = 2, trans_a = false, trans_b = true}
  %y = gemm %a, %b {alpha = 1, beta = 1, trans_a = false, trans_b = false}
  %t = transpose %a {perm = [1, 0]}
  %z = gemm %t, %b, %c {alpha = 1, beta = 1, trans_a = true, trans_b = false}
  return %x, %y, %z
})"},
    {"reductions", R"(graph @g(%x: f32[3, 19, 5], %i: i32[3, 4]) {
  %a = reduce_sum %x {axes = [1], keep_dims = true}
  %b = reduce_mean %x {axes = [2], keep_dims = false}
  %c = reduce_max %x {axes = [0, 2], keep_dims = false}
  %d = reduce_min %x {axes = [], keep_dims = false}
  %e = reduce_prod %x {axes = [1, 2], keep_dims = true}
  %f = reduce_sum %i {axes = [1], keep_dims = true}
  %h = reduce_mean %i {axes = [0], keep_dims = true}
  %j = reduce_max %i {axes = [1], keep_dims = false}
  return %a, %b, %c, %d, %e, %f, %h, %j
})"},
    {"softmaxes", R"(graph @g(%x: f32[3, 19, 5]) {
  %a = softmax %x {axis = 2}
  %b = softmax %x {axis = 1}
  return %a, %b
})"},
    {"norms", R"(graph @g(%x: f32[3, 19], %s: f32[19], %b: f32[19]) {
  %a = layer_norm %x, %s {epsilon = 1e-05}
  %c = layer_norm %x, %s, %b {epsilon = 1e-05}
  %d = rms_norm %x, %s {epsilon = 1e-06}
  return %a, %c, %d
})"},
    {"order", R"(graph @g(%x: f32[3, 19, 2], %k: i64[]) {
  %a = arg_max %x {axis = 1, keep_dims = true, minimum = false, last = false}
  %b = arg_max %x {axis = 2, keep_dims = false, minimum = true, last = true}
  %three = constant i64[] {3}
  %v, %i = top_k %x, %three {axis = 1, largest = true}
  %w, %j = top_k %x, %three {axis = 1, largest = false}
  %c = cum_sum %x {axis = 1, exclusive = false, reverse = false}
  %d = cum_sum %x {axis = 1, exclusive = true, reverse = true}
  return %a, %b, %v, %i, %w, %j, %c, %d
})"},
};

}  // namespace

std::span<const Case> math_cases() {
  return kMathCases;
}

}  // namespace llmc::function_test
