#include "tests/reference/op_cases.h"

namespace llmc::reference::testing {

std::vector<OpCase> data_cases() {
  return {
      {"constant", R"(graph @g() {
  %y = constant f16[3] {0.1, 65504, -0}
  %e = constant f16[3] {0.0999755859375, 65504, -0}
  return %y, %e
})"},
      {"cast", R"(graph @g() {
  %f = constant f32[6] {1.9, -1.9, 300, nan, 1e30, -1e30}
  %i = cast %f {to = i64}
  %i_e = constant i64[6] {1, -1, 300, 0, 9223372036854775807, -9223372036854775808}
  %b = cast %f {to = bool}
  %b_e = constant bool[6] {true, true, true, true, true, true}
  %g = constant f32[3] {0.1, 70000, 3.3895314e+38}
  %h = cast %g {to = f16}
  %h_e = constant f16[3] {0.0999755859375, inf, inf}
  %bf = cast %g {to = bf16}
  %bf_e = constant bf16[3] {0.10009765625, 70144, 3.3895314e+38}
  %n = constant i64[4] {200, -129, 65536, 1}
  %n8 = cast %n {to = i8}
  %n8_e = constant i8[4] {-56, 127, 0, 1}
  %back = cast %n8 {to = f32}
  %back_e = constant f32[4] {-56, 127, 0, 1}
  return %i, %i_e, %b, %b_e, %h, %h_e, %bf, %bf_e, %n8, %n8_e, %back, %back_e
})"},
      {"reshape", R"(graph @g() {
  %x = constant f32[2, 3] {1, 2, 3, 4, 5, 6}
  %s = constant i64[2] {-1, 2}
  %y = reshape %x, %s
  %e = constant f32[3, 2] {1, 2, 3, 4, 5, 6}
  %copy = constant i64[3] {0, 1, -1}
  %z = reshape %x, %copy
  %z_e = constant f32[2, 1, 3] {1, 2, 3, 4, 5, 6}
  %one = constant f32[1] {7}
  %none = constant i64[0] {}
  %scalar = reshape %one, %none
  %scalar_e = constant f32[] {7}
  %past = constant f32[2, 1, 0, 4] {}
  %flat = constant i64[3] {0, 0, -1}
  %empty = reshape %past, %flat
  %empty_e = constant f32[2, 1, 0] {}
  %keep = constant i64[3] {0, -1, 0}
  %tail = constant f32[2, 4, 0] {}
  %tail_y = reshape %tail, %keep
  %tail_e = constant f32[2, 4, 0] {}
  %zero = constant i64[2] {5, 0}
  %allowed = reshape %tail, %zero {allow_zero = true}
  %allowed_e = constant f32[5, 0] {}
  return %y, %e, %z, %z_e, %scalar, %scalar_e, %empty, %empty_e, %tail_y, %tail_e, %allowed, %allowed_e
})"},
      {"transpose", R"(graph @g() {
  %x = constant f32[1, 2, 3] {1, 2, 3, 4, 5, 6}
  %y = transpose %x {perm = [2, 0, 1]}
  %e = constant f32[3, 1, 2] {1, 4, 2, 5, 3, 6}
  %r = transpose %x {perm = []}
  %r_e = constant f32[3, 2, 1] {1, 4, 2, 5, 3, 6}
  %s = constant f32[] {3}
  %t = transpose %s {perm = []}
  return %y, %e, %r, %r_e, %t, %s
})"},
      {"concat", R"(graph @g() {
  %a = constant i64[2, 1] {1, 2}
  %b = constant i64[2, 2] {3, 4, 5, 6}
  %y = concat %a, %b, %a {axis = -1}
  %e = constant i64[2, 4] {1, 3, 4, 1, 2, 5, 6, 2}
  %none = constant i64[2, 0] {}
  %z = concat %none, %a {axis = 1}
  return %y, %e, %z, %a
})"},
      {"split", R"(graph @g() {
  %x = constant f32[2, 3] {1, 2, 3, 4, 5, 6}
  %a, %b, %c = split %x {axis = 1, sizes = [1, 0, 2]}
  %a_e = constant f32[2, 1] {1, 4}
  %b_e = constant f32[2, 0] {}
  %c_e = constant f32[2, 2] {2, 3, 5, 6}
  return %a, %a_e, %b, %b_e, %c, %c_e
})"},
      {"slice", R"(graph @g() {
  %x = constant f32[2, 4] {1, 2, 3, 4, 5, 6, 7, 8}
  %s0 = constant i64[1] {-2}
  %max = constant i64[1] {9223372036854775807}
  %min = constant i64[1] {-9223372036854775808}
  %ax = constant i64[1] {-1}
  %y = slice %x, %s0, %max, %ax
  %e = constant f32[2, 2] {3, 4, 7, 8}
  %minus = constant i64[1] {-1}
  %r = slice %x, %minus, %min, %ax, %minus
  %r_e = constant f32[2, 4] {4, 3, 2, 1, 8, 7, 6, 5}
  %two = constant i64[2] {0, 1}
  %ends = constant i64[2] {9223372036854775807, 9223372036854775807}
  %steps = constant i64[2] {1, 2}
  %t = slice %x, %two, %ends, _, %steps
  %t_e = constant f32[2, 2] {2, 4, 6, 8}
  %z = slice %x, %max, %max, %ax
  %z_e = constant f32[2, 0] {}
  %one = constant i64[1] {1}
  %big = slice %x, %one, %max, %ax, %max
  %big_e = constant f32[2, 1] {2, 6}
  return %y, %e, %r, %r_e, %t, %t_e, %z, %z_e, %big, %big_e
})"},
      {"squeeze", R"(graph @g() {
  %x = constant f32[1, 2, 1] {1, 2}
  %y = squeeze %x {axes = [0, -1]}
  %e = constant f32[2] {1, 2}
  return %y, %e
})"},
      {"unsqueeze", R"(graph @g() {
  %x = constant f32[2] {1, 2}
  %y = unsqueeze %x {axes = [0, -1]}
  %e = constant f32[1, 2, 1] {1, 2}
  %s = constant i64[] {5}
  %z = unsqueeze %s {axes = [0]}
  %z_e = constant i64[1] {5}
  return %y, %e, %z, %z_e
})"},
      {"gather", R"(graph @g() {
  %x = constant f32[2, 3] {1, 2, 3, 4, 5, 6}
  %i = constant i64[2, 2] {0, -1, 2, 1}
  %y = gather %x, %i {axis = 1}
  %e = constant f32[2, 2, 2] {1, 3, 3, 2, 4, 6, 6, 5}
  %s = constant i64[] {-1}
  %row = gather %x, %s {axis = 0}
  %row_e = constant f32[3] {4, 5, 6}
  %none = constant i64[0] {}
  %z = gather %x, %none {axis = 0}
  %z_e = constant f32[0, 3] {}
  return %y, %e, %row, %row_e, %z, %z_e
})"},
      {"expand", R"(graph @g() {
  %x = constant f32[2, 1] {1, 2}
  %s = constant i64[3] {2, 1, 3}
  %y = expand %x, %s
  %e = constant f32[2, 2, 3] {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}
  %one = constant i64[1] {1}
  %z = expand %x, %one
  %n = constant i64[2] {2, 0}
  %empty = expand %x, %n
  %empty_e = constant f32[2, 0] {}
  return %y, %e, %z, %x, %empty, %empty_e
})"},
      {"tile", R"(graph @g() {
  %x = constant i64[2, 2] {1, 2, 3, 4}
  %r = constant i64[2] {2, 3}
  %y = tile %x, %r
  %e = constant i64[4, 6] {1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4, 1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4}
  %n = constant i64[2] {0, 1}
  %z = tile %x, %n
  %z_e = constant i64[0, 2] {}
  return %y, %e, %z, %z_e
})"},
      {"shape", R"(graph @g() {
  %x = constant f32[2, 0, 5] {}
  %y = shape %x
  %e = constant i64[3] {2, 0, 5}
  %l = shape %x {begin = -1}
  %l_e = constant i64[1] {5}
  %m = shape %x {begin = 1, end = -1}
  %m_e = constant i64[1] {0}
  %s = constant f32[] {1}
  %z = shape %s
  %z_e = constant i64[0] {}
  return %y, %e, %l, %l_e, %m, %m_e, %z, %z_e
})"},
      {"constant_of_shape", R"(graph @g() {
  %s = constant i64[2] {2, 2}
  %y = constant_of_shape %s {value = f32[1] {-inf}}
  %e = constant f32[2, 2] {-inf, -inf, -inf, -inf}
  %none = constant i64[0] {}
  %z = constant_of_shape %none {value = i64[1] {4}}
  %z_e = constant i64[] {4}
  return %y, %e, %z, %z_e
})"},
      {"range", R"(graph @g() {
  %a = constant i64[] {2}
  %l = constant i64[] {9}
  %d = constant i64[] {3}
  %y = range %a, %l, %d
  %e = constant i64[3] {2, 5, 8}
  %m = constant i64[] {-4}
  %down = range %l, %a, %m
  %down_e = constant i64[2] {9, 5}
  %none = range %l, %a, %d
  %none_e = constant i64[0] {}
  %fa = constant f32[] {0}
  %fl = constant f32[] {1}
  %fd = constant f32[] {0.4}
  %f = range %fa, %fl, %fd
  %f_e = constant f32[3] {0, 0.4, 0.8}
  return %y, %e, %down, %down_e, %none, %none_e, %f, %f_e
})"},
      {"trilu", R"(graph @g() {
  %x = constant f32[2, 3] {1, 2, 3, 4, 5, 6}
  %u = trilu %x {upper = true}
  %u_e = constant f32[2, 3] {1, 2, 3, 0, 5, 6}
  %k = constant i64[] {1}
  %u1 = trilu %x, %k {upper = true}
  %u1_e = constant f32[2, 3] {0, 2, 3, 0, 0, 6}
  %l = trilu %x {upper = false}
  %l_e = constant f32[2, 3] {1, 0, 0, 4, 5, 0}
  %far = constant i64[] {9223372036854775807}
  %z = trilu %x, %far {upper = true}
  %z_e = constant f32[2, 3] splat(0)
  %b = constant bool[1, 2, 2] splat(true)
  %bl = trilu %b {upper = false}
  %bl_e = constant bool[1, 2, 2] {true, false, true, true}
  return %u, %u_e, %u1, %u1_e, %l, %l_e, %z, %z_e, %bl, %bl_e
})"},
      {"where", R"(graph @g() {
  %c = constant bool[2, 1] {true, false}
  %a = constant f32[3] {1, 2, 3}
  %b = constant f32[] {-inf}
  %y = where %c, %a, %b
  %e = constant f32[2, 3] {1, 2, 3, -inf, -inf, -inf}
  return %y, %e
})"},
  };
}

}  // namespace llmc::reference::testing
