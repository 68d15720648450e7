#include "tests/reference/op_cases.h"

namespace llmc::reference::testing {

std::vector<OpCase> index_cases() {
  return {
      {"gather_elements", R"(graph @g() {
  %x = constant f32[3, 3] {1, 2, 3, 4, 5, 6, 7, 8, 9}
  %i = constant i64[2, 3] {1, 2, 0, 2, 0, -3}
  %y = gather_elements %x, %i {axis = 0}
  %e = constant f32[2, 3] {4, 8, 3, 7, 2, 3}
  %j = constant i32[2, 1] {-1, 0}
  %z = gather_elements %x, %j {axis = -1}
  %z_e = constant f32[2, 1] {3, 4}
  return %y, %e, %z, %z_e
})"},
      {"gather_nd", R"(graph @g() {
  %x = constant i32[2, 2, 2] {0, 1, 2, 3, 4, 5, 6, 7}
  %i = constant i64[2, 2] {0, 1, 1, -2}
  %y = gather_nd %x, %i
  %e = constant i32[2, 2] {2, 3, 4, 5}
  %j = constant i64[2, 1] {1, 0}
  %b = gather_nd %x, %j {batch_dims = 1}
  %b_e = constant i32[2, 2] {2, 3, 4, 5}
  %k = constant i64[1, 3] {1, 1, 0}
  %s = gather_nd %x, %k
  %s_e = constant i32[1] {6}
  %n = constant i64[1, 0] {}
  %w = gather_nd %x, %n
  %w_e = constant i32[1, 2, 2, 2] {0, 1, 2, 3, 4, 5, 6, 7}
  return %y, %e, %b, %b_e, %s, %s_e, %w, %w_e
})"},
      {"scatter_elements", R"(graph @g() {
  %x = constant f32[1, 5] {1, 2, 3, 4, 5}
  %i = constant i64[1, 3] {1, 3, 1}
  %u = constant f32[1, 3] {1.5, 2.5, 8}
  %y = scatter_elements %x, %i, %u {axis = 1}
  %e = constant f32[1, 5] {1, 8, 3, 2.5, 5}
  %a = scatter_elements %x, %i, %u {axis = -1, reduction = add}
  %a_e = constant f32[1, 5] {1, 11.5, 3, 6.5, 5}
  %m = scatter_elements %x, %i, %u {axis = 1, reduction = mul}
  %m_e = constant f32[1, 5] {1, 24, 3, 10, 5}
  %l = scatter_elements %x, %i, %u {axis = 1, reduction = min}
  %l_e = constant f32[1, 5] {1, 1.5, 3, 2.5, 5}
  %h = scatter_elements %x, %i, %u {axis = 1, reduction = max}
  %h_e = constant f32[1, 5] {1, 8, 3, 4, 5}
  return %y, %e, %a, %a_e, %m, %m_e, %l, %l_e, %h, %h_e
})"},
      {"scatter_nd", R"(graph @g() {
  %x = constant i64[4, 2] {1, 2, 3, 4, 5, 6, 7, 8}
  %i = constant i64[2, 1] {0, -1}
  %u = constant i64[2, 2] {10, 20, 30, 40}
  %y = scatter_nd %x, %i, %u
  %e = constant i64[4, 2] {10, 20, 3, 4, 5, 6, 30, 40}
  %j = constant i64[2, 2] {1, 1, 1, 1}
  %v = constant i64[2] {10, 5}
  %a = scatter_nd %x, %j, %v {reduction = add}
  %a_e = constant i64[4, 2] {1, 2, 3, 19, 5, 6, 7, 8}
  return %y, %e, %a, %a_e
})"},
      {"pad", R"(graph @g() {
  %x = constant f32[2, 3] {1, 2, 3, 4, 5, 6}
  %p = constant i64[4] {0, 2, 1, 1}
  %v = constant f32[] {9}
  %y = pad %x, %p, %v
  %e = constant f32[3, 6] {9, 9, 1, 2, 3, 9, 9, 9, 4, 5, 6, 9, 9, 9, 9, 9, 9, 9}
  %q = constant i64[4] {0, 2, 0, 1}
  %r = pad %x, %q {mode = reflect}
  %r_e = constant f32[2, 6] {3, 2, 1, 2, 3, 2, 6, 5, 4, 5, 6, 5}
  %d = pad %x, %q {mode = edge}
  %d_e = constant f32[2, 6] {1, 1, 1, 2, 3, 3, 4, 4, 4, 5, 6, 6}
  %w = pad %x, %q {mode = wrap}
  %w_e = constant f32[2, 6] {2, 3, 1, 2, 3, 1, 5, 6, 4, 5, 6, 4}
  %c = constant i64[4] {-1, 0, 0, -2}
  %cut = pad %x, %c
  %cut_e = constant f32[1, 1] {4}
  return %y, %e, %r, %r_e, %d, %d_e, %w, %w_e, %cut, %cut_e
})"},
      {"top_k", R"(graph @g() {
  %x = constant f32[2, 4] {0, 3, 3, 1, nan, 5, -inf, 7}
  %k = constant i64[1] {3}
  %v, %i = top_k %x, %k {axis = 1}
  %v_e = constant f32[2, 3] {3, 3, 1, nan, 7, 5}
  %i_e = constant i64[2, 3] {1, 2, 3, 0, 3, 1}
  %one = constant i64[] {1}
  %lv, %li = top_k %x, %one {axis = 0, largest = false}
  %lv_e = constant f32[1, 4] {0, 3, -inf, 1}
  %li_e = constant i64[1, 4] {0, 0, 1, 0}
  return %v, %v_e, %i, %i_e, %lv, %lv_e, %li, %li_e
})"},
      {"non_zero", R"(graph @g() {
  %x = constant f32[2, 3] {0, 1, -2, nan, 0, -0}
  %y = non_zero %x
  %e = constant i64[2, 3] {0, 0, 1, 1, 2, 0}
  %b = constant bool[3] {false, true, true}
  %z = non_zero %b
  %z_e = constant i64[1, 2] {1, 2}
  return %y, %e, %z, %z_e
})"},
      {"cum_sum", R"(graph @g() {
  %x = constant f32[2, 3] {1, 2, 3, 4, 5, 6}
  %y = cum_sum %x {axis = 1}
  %e = constant f32[2, 3] {1, 3, 6, 4, 9, 15}
  %r = cum_sum %x {axis = -1, exclusive = true, reverse = true}
  %r_e = constant f32[2, 3] {5, 3, 0, 11, 6, 0}
  %z = cum_sum %x {axis = 0}
  %z_e = constant f32[2, 3] {1, 2, 3, 5, 7, 9}
  %b = constant u8[3] {200, 100, 1}
  %w = cum_sum %b {axis = 0}
  %w_e = constant u8[3] {200, 44, 45}
  return %y, %e, %r, %r_e, %z, %z_e, %w, %w_e
})"},
      {"arg_max", R"(graph @g() {
  %x = constant i32[2, 4] {1, 5, 5, 1, -2, -2, -9, -9}
  %y = arg_max %x {axis = 1, keep_dims = false, last = true}
  %y_e = constant i64[2] {2, 1}
  %m = arg_max %x {axis = 1, minimum = true}
  %m_e = constant i64[2, 1] {0, 2}
  %l = arg_max %x {axis = 1, keep_dims = false, minimum = true, last = true}
  %l_e = constant i64[2] {3, 3}
  return %y, %y_e, %m, %m_e, %l, %l_e
})"},
  };
}

/// f64 is computed in f64, and u64 as unsigned: what float and int64 would get wrong.
std::vector<OpCase> wide_cases() {
  return {
      {"add", R"(graph @g() {
  %a = constant f64[2] {1, 1e300}
  %b = constant f64[2] {1e-16, 1e300}
  %c = constant f64[2] {0.1, 0.2}
  %y = add %c, %c
  %e = constant f64[2] {0.2, 0.4}
  %s = sub %a, %b
  %s_e = constant f64[2] {0.9999999999999999, 0}
  %q = equal %a, %b
  %q_e = constant bool[2] {false, true}
  %p = pow %c, %c
  %p_e = constant f64[2] {0.7943282347242815, 0.7247796636776955}
  %x = exp %c
  %x_e = constant f64[2] {1.1051709180756477, 1.2214027581601699}
  %one = constant f64[1] {1}
  %z = constant f64[1] {1e-9}
  %sum = concat %one, %z {axis = 0}
  %r = reduce_sum %sum {axes = [0], keep_dims = false}
  %r_e = constant f64[] {1.000000001}
  return %y, %e, %s, %s_e, %q, %q_e, %p, %p_e, %x, %x_e, %r, %r_e
})"},
      {"matmul", R"(graph @g() {
  %a = constant f64[2, 2] {1, 1e-9, 0.1, 0}
  %b = constant f64[2, 1] {1, 1}
  %y = matmul %a, %b
  %e = constant f64[2, 1] {1.000000001, 0.1}
  %g = gemm %a, %a, %b {trans_a = true, trans_b = true, alpha = 2}
  %g_e = constant f64[2, 2] {3.0000000002, 1.2, 1.000000002, 1.0000000002}
  return %y, %e, %g, %g_e
})"},
      {"cast", R"(graph @g() {
  %x = constant f64[3] {0.1, 16777217, -1}
  %f = cast %x {to = f32}
  %f_e = constant f32[3] {0.1, 16777216, -1}
  %i = cast %x {to = i64}
  %i_e = constant i64[3] {0, 16777217, -1}
  %u = constant u64[2] {18446744073709551615, 3}
  %d = cast %u {to = f64}
  %d_e = constant f64[2] {18446744073709551616, 3}
  %b = constant f64[1] {9.5e18}
  %n = cast %b {to = u64}
  %n_e = constant u64[1] {9500000000000000000}
  %back = cast %i {to = f64}
  %back_e = constant f64[3] {0, 16777217, -1}
  return %f, %f_e, %i, %i_e, %d, %d_e, %n, %n_e, %back, %back_e
})"},
      {"div", R"(graph @g() {
  %a = constant u64[3] {18446744073709551615, 7, 9223372036854775808}
  %b = constant u64[3] {2, 9223372036854775808, 3}
  %q = div %a, %b
  %q_e = constant u64[3] {9223372036854775807, 0, 3074457345618258602}
  %m = mod %a, %b
  %m_e = constant u64[3] {1, 7, 2}
  %l = less %a, %b
  %l_e = constant bool[3] {false, true, false}
  %x = max %a, %b
  %x_e = constant u64[3] {18446744073709551615, 9223372036854775808, 9223372036854775808}
  %r = reduce_max %a {axes = [0]}
  %r_e = constant u64[1] {18446744073709551615}
  %n = reduce_min %a {axes = [0]}
  %n_e = constant u64[1] {7}
  %k = arg_max %a {axis = 0}
  %k_e = constant i64[1] {0}
  return %q, %q_e, %m, %m_e, %l, %l_e, %x, %x_e, %r, %r_e, %n, %n_e, %k, %k_e
})"},
      {"softmax", R"(graph @g() {
  %x = constant f64[2] {0, 1}
  %y = softmax %x {axis = 0}
  %e = constant f64[2] {0.2689414213699951, 0.7310585786300049}
  %c = constant bool[2] {true, false}
  %w = where %c, %x, %y
  %w_e = constant f64[2] {0, 0.7310585786300049}
  return %y, %e, %w, %w_e
})"},
  };
}

}  // namespace llmc::reference::testing
