#include "tests/function/cases.h"

namespace llmc::function_test {
namespace {

constexpr Case kDataCases[] = {
    {"views_of_a_loop", R"(graph @g(%x: f32[4, 6]) {
  %e = exp %x
  %s1 = constant i64[2] {2, 12}
  %r = reshape %e, %s1
  %starts = constant i64[1] {-1}
  %ends = constant i64[1] {-9223372036854775808}
  %axes = constant i64[1] {1}
  %steps = constant i64[1] {-2}
  %s = slice %r, %starts, %ends, %axes, %steps
  %t = transpose %s {perm = [1, 0]}
  %u = unsqueeze %t {axes = [1]}
  return %u
})"},
    {"reshape_of_a_transpose", R"(graph @g(%x: f32[4, 6]) {
  %t = transpose %x {perm = [1, 0]}
  %shape = constant i64[2] {8, 3}
  %r = reshape %t, %shape
  return %r
})"},
    {"concat_split_expand_tile", R"(graph @g(%x: i32[2, 3], %z: i32[2, 1]) {
  %c = concat %x, %z, %x {axis = 1}
  %a, %b = split %c {axis = 1, sizes = [5, 2]}
  %shape = constant i64[3] {3, 2, 3}
  %e = expand %z, %shape
  %repeats = constant i64[2] {2, 3}
  %t = tile %x, %repeats
  return %c, %a, %b, %e, %t
})"},
    {"pads", R"(graph @g(%x: f32[3, 4], %v: f32[]) {
  %p = constant i64[4] {1, -1, 2, 3}
  %q = constant i64[4] {2, 1, 0, 3}
  %a = pad %x, %p, %v {mode = constant}
  %b = pad %x, %q {mode = reflect}
  %c = pad %x, %q {mode = edge}
  %d = pad %x, %q {mode = wrap}
  return %a, %b, %c, %d
})"},
    {"gathers", R"(graph @g(%x: f32[5, 4], %i: i64[3, 2] , %j: i32[2, 4]) {
  %three = constant i64[] {3}
  %five = constant i64[] {5}
  %m = mod %i, %five
  %a = gather %x, %m {axis = 0}
  %b = gather %x, %three {axis = 1}
  %five32 = constant i32[] {5}
  %k = mod %j, %five32
  %c = gather_elements %x, %k {axis = 0}
  %four = constant i64[] {4}
  %n = mod %i, %four
  %d = gather_nd %x, %n
  return %a, %b, %c, %d
})"},
    // Indices of one head for all heads, in transposed data, and some that count from the end.
    {"gather_elements_of_views", R"(graph @g(%x: f32[3, 90, 20], %i: i64[90, 18]) {
  %twenty = constant i64[] {20}
  %m = mod %i, %twenty
  %seven = constant i64[] {7}
  %k = sub %m, %seven
  %heads = constant i64[3] {3, 90, 18}
  %all = expand %k, %heads
  %a = gather_elements %x, %all {axis = 2}
  %xt = transpose %x {perm = [0, 2, 1]}
  %kt = transpose %k {perm = [1, 0]}
  %turned = constant i64[3] {3, 18, 90}
  %allt = expand %kt, %turned
  %b = gather_elements %xt, %allt {axis = 1}
  %first = constant i64[] {0}
  %row = gather %k, %first {axis = 1}
  %line = gather %x, %first {axis = 1}
  %flat = constant i64[1] {60}
  %lines = reshape %line, %flat
  %c = gather_elements %lines, %row {axis = 0}
  return %a, %b, %c
})"},
    // Operands of which two dims are in another order, in tiles that are cut off.
    // More transposed operands than a worker copies tiles of; one is read twice.
    {"many_transposed_operands",
     R"(graph @g(%a: f64[33, 40], %b: f64[33, 40], %c: f64[33, 40], %d: f64[33, 40], %e: f64[33, 40]) {
  %at = transpose %a {perm = [1, 0]}
  %bt = transpose %b {perm = [1, 0]}
  %ct = transpose %c {perm = [1, 0]}
  %dt = transpose %d {perm = [1, 0]}
  %et = transpose %e {perm = [1, 0]}
  %ab = add %at, %bt
  %cd = mul %ct, %dt
  %abe = sub %ab, %et
  %all = add %abe, %cd
  %y = mul %all, %at
  return %y
})"},
    {"transposed_operands",
     R"(graph @g(%x: f32[3, 37, 45], %y: f32[3, 45, 37], %h: f16[45, 37], %b: bool[45, 37]) {
  %t = transpose %y {perm = [0, 2, 1]}
  %a = add %x, %t
  %square = mul %t, %t
  %ht = transpose %h {perm = [1, 0]}
  %bt = transpose %b {perm = [1, 0]}
  %c = where %bt, %ht, %ht
  %f = cast %ht {to = f32}
  %g = where %bt, %f, %a
  %u = transpose %x {perm = [2, 0, 1]}
  %e = exp %u
  return %a, %square, %c, %g, %e
})"},
    {"scatters",
     R"(graph @g(%x: f32[5, 4], %i: i64[2, 4], %u: f32[2, 4], %t: i64[3, 1], %w: f32[3, 4]) {
  %five = constant i64[] {5}
  %m = mod %i, %five
  %a = scatter_elements %x, %m, %u {axis = 0, reduction = none}
  %b = scatter_elements %x, %m, %u {axis = 0, reduction = add}
  %n = mod %t, %five
  %c = scatter_nd %x, %n, %w {reduction = max}
  return %a, %b, %c
})"},
    {"triangles", R"(graph @g(%x: f32[2, 4, 5], %k: i64[]) {
  %zero = constant i64[] {0}
  %z = mul %k, %zero
  %one = constant i64[] {1}
  %k1 = add %z, %one
  %a = trilu %x {upper = true}
  %b = trilu %x, %k1 {upper = false}
  return %a, %b
})"},
    {"makers", R"(graph @g(%x: f32[2, 3]) {
  %a = constant f32[] {0.5}
  %b = constant f32[] {4}
  %c = constant f32[] {0.75}
  %r = range %a, %b, %c
  %s = shape %x
  %f = constant_of_shape %s {value = i64[1] {7}}
  return %r, %s, %f
})"},
};

}  // namespace

std::span<const Case> data_cases() {
  return kDataCases;
}

}  // namespace llmc::function_test
