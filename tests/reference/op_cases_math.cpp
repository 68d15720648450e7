#include "tests/reference/op_cases.h"

namespace llmc::reference::testing {
namespace {

/// A unary operator on an f32 vector.
OpCase unary(const std::string& op, const std::string& x, const std::string& y,
             const std::string& type = "f32[3]") {
  return {op, "graph @g() {\n  %x = constant " + type + " {" + x + "}\n  %y = " + op +
                  " %x\n  %e = constant " + type + " {" + y + "}\n  return %y, %e\n}"};
}

OpCase binary(const std::string& op, const std::string& type, const std::string& a,
              const std::string& b, const std::string& y, const std::string& result = "") {
  return {op, "graph @g() {\n  %a = constant " + type + " {" + a + "}\n  %b = constant " + type +
                  " {" + b + "}\n  %y = " + op + " %a, %b\n  %e = constant " +
                  (result.empty() ? type : result) + " {" + y + "}\n  return %y, %e\n}"};
}

}  // namespace

std::vector<OpCase> math_cases() {
  return {
      unary("identity", "1, -0, nan", "1, -0, nan"),
      unary("neg", "1, -2, 0", "-1, 2, 0"),
      unary("neg", "1, -9223372036854775808", "-1, -9223372036854775808", "i64[2]"),
      unary("neg", "-128, 5", "-128, -5", "i8[2]"),
      unary("abs", "1, -2, -inf", "1, 2, inf"),
      unary("abs", "-3, 3", "3, 3", "i64[2]"),
      unary("sqrt", "4, 2, -1", "2, 1.4142135, nan"),
      unary("reciprocal", "4, -0.5, 0", "0.25, -2, inf"),
      unary("exp", "0, 1, -inf", "1, 2.7182817, 0"),
      unary("log", "1, 2.7182817, 0", "0, 1, -inf"),
      unary("sin", "0, 1, 100000", "0, 0.84147098, 0.035748798"),
      unary("cos", "0, 1, 100000", "1, 0.5403023, -0.99936077"),
      unary("tanh", "0, 1, -100", "0, 0.7615942, -1"),
      unary("sigmoid", "0, 2, -200", "0.5, 0.8807971, 0"),
      unary("gelu", "1, -2, 40", "0.84134475, -0.04550026, 40"),
      unary("gelu_tanh", "1, -2, 40", "0.84119199, -0.04540231, 40"),
      unary("silu", "1, -2, -200", "0.73105858, -0.23840584, 0"),
      unary("erf", "0, 1, -3", "0, 0.8427008, -0.99997792"),
      unary("relu", "1, -2, nan", "1, 0, nan"),
      unary("relu", "-7, 7", "0, 7", "i32[2]"),
      unary("floor", "1.5, -1.5, 2", "1, -2, 2"),
      unary("ceil", "1.5, -1.5, 2", "2, -1, 2"),
      unary("round", "0.5, 1.5, -2.5", "0, 2, -2"),
      unary("sign", "3, -0, nan", "1, 0, nan"),
      unary("sign", "-7, 7", "-1, 1", "i32[2]"),
      unary("sqrt", "2, 3", "1.4140625, 1.7324219", "f16[2]"),
      unary("not", "true, false", "false, true", "bool[2]"),
      // Two groups; of positions 0 and 2, taps 0 and 2.
      {"conv", R"(graph @g() {
  %x = constant f32[1, 2, 5] {1, 2, 3, 4, 5, 10, 20, 30, 40, 50}
  %w = constant f32[2, 1, 2] {1, 2, -1, 0.5}
  %y = conv %x, %w {strides = [2], dilations = [2], groups = 2}
  %e = constant f32[1, 2, 2] {7, 13, 5, -5}
  return %y, %e
})"},
      // The products of both channels and all taps are added.
      {"conv", R"(graph @g() {
  %x = constant f32[1, 2, 2, 3] {1, 2, 3, 4, 5, 6, 1, 0, 1, 0, 1, 0}
  %w = constant f32[1, 2, 2, 2] {1, 10, 100, 1000, 1, 1, 1, -1}
  %y = conv %x, %w {strides = [1, 1], dilations = [1, 1]}
  %e = constant f32[1, 1, 1, 2] {5421, 6534}
  return %y, %e
})"},
      // Two channels; of positions 0 and 2, taps 0 and 2.
      {"depthwise_conv", R"(graph @g() {
  %x = constant f32[1, 5, 2] {1, 10, 2, 20, 3, 30, 4, 40, 5, 50}
  %w = constant f32[2, 2] {1, -1, 2, 0.5}
  %y = depthwise_conv %x, %w {strides = [2], dilations = [2]}
  %e = constant f32[1, 2, 2] {7, 5, 13, -5}
  return %y, %e
})"},
      // Positions 0 and 2, taps 0 and 2 of two channels.
      {"unfold", R"(graph @g() {
  %x = constant f32[1, 5, 2] {1, 10, 2, 20, 3, 30, 4, 40, 5, 50}
  %y = unfold %x {kernel = [2], strides = [2], dilations = [2]}
  %e = constant f32[1, 2, 4] {1, 10, 3, 30, 3, 30, 5, 50}
  return %y, %e
})"},
      {"unfold", R"(graph @g() {
  %x = constant i32[1, 2, 3, 1] {1, 2, 3, 4, 5, 6}
  %y = unfold %x {kernel = [2, 2], strides = [1, 1], dilations = [1, 1]}
  %e = constant i32[1, 1, 2, 4] {1, 2, 4, 5, 2, 3, 5, 6}
  return %y, %e
})"},
      {"is_inf", R"(graph @g() {
  %x = constant f32[4] {1, nan, inf, -inf}
  %y = is_inf %x
  %e = constant bool[4] {false, false, true, true}
  return %y, %e
})"},
      {"is_nan", R"(graph @g() {
  %x = constant f32[3] {1, nan, inf}
  %y = is_nan %x
  %e = constant bool[3] {false, true, false}
  return %y, %e
})"},
      binary("add", "f32[2]", "1, 0.1", "2, 0.2", "3, 0.3"),
      binary("add", "i64[1]", "9223372036854775807", "1", "-9223372036854775808"),
      binary("add", "u8[1]", "200", "100", "44"),
      binary("sub", "f32[2]", "1, inf", "2, inf", "-1, nan"),
      binary("sub", "u32[1]", "0", "1", "4294967295"),
      binary("mul", "f32[2]", "1.5, 0", "2, inf", "3, nan"),
      binary("mul", "i32[1]", "65536", "65536", "0"),
      binary("div", "f32[3]", "1, 1, 0", "4, 0, 0", "0.25, inf, nan"),
      binary("div", "i64[3]", "7, -7, -9223372036854775808", "2, 2, -1",
             "3, -3, -9223372036854775808"),
      binary("pow", "f32[3]", "2, 9, -2", "10, 0.5, 3", "1024, 3, -8"),
      binary("pow", "i64[4]", "3, 2, -1, 2", "4, 64, -3, -1", "81, 0, -1, 0"),
      {"pow", R"(graph @g() {
  %x = constant f32[2] {3, -4}
  %two = constant i64[] {2}
  %y = pow %x, %two
  %e = constant f32[2] {9, 16}
  return %y, %e
})"},
      binary("min", "f32[3]", "1, nan, 5", "2, 1, nan", "1, nan, nan"),
      binary("max", "f32[3]", "1, nan, 5", "2, 1, nan", "2, nan, nan"),
      binary("min", "i64[2]", "-1, 4", "3, 3", "-1, 3"),
      binary("max", "i64[2]", "-1, 4", "3, 3", "3, 4"),
      binary("mod", "i64[5]", "7, -7, 7, -7, -9223372036854775808", "3, 3, -3, -3, -1",
             "1, 2, -2, -1, 0"),
      binary("mod", "f32[2]", "7.5, -7.5", "2, 2", "1.5, -1.5"),
      binary("equal", "f32[3]", "1, nan, 0", "1, nan, -0", "true, false, true", "bool[3]"),
      binary("equal", "bool[2]", "true, false", "true, true", "true, false", "bool[2]"),
      binary("less", "i64[3]", "1, 2, 3", "2, 2, 2", "true, false, false", "bool[3]"),
      binary("less_or_equal", "i64[3]", "1, 2, 3", "2, 2, 2", "true, true, false", "bool[3]"),
      binary("greater", "f32[3]", "1, 2, 3", "2, 2, 2", "false, false, true", "bool[3]"),
      binary("greater_or_equal", "f32[3]", "1, 2, nan", "2, 2, 2", "false, true, false", "bool[3]"),
      binary("and", "bool[4]", "true, true, false, false", "true, false, true, false",
             "true, false, false, false"),
      binary("or", "bool[4]", "true, true, false, false", "true, false, true, false",
             "true, true, true, false"),
      binary("xor", "bool[4]", "true, true, false, false", "true, false, true, false",
             "false, true, true, false"),
      {"add", R"(graph @g() {
  %a = constant f32[2, 1, 2] {1, 2, 3, 4}
  %b = constant f32[3, 1] {10, 20, 30}
  %y = add %a, %b
  %e = constant f32[2, 3, 2] {11, 12, 21, 22, 31, 32, 13, 14, 23, 24, 33, 34}
  %s = constant f32[] {1}
  %n = constant f32[0, 2] {}
  %z = add %n, %s
  return %y, %e, %z, %n
})"},
      {"matmul", R"(graph @g() {
  %a = constant f32[2, 3] {1, 2, 3, 4, 5, 6}
  %b = constant f32[3, 2] {7, 8, 9, 10, 11, 12}
  %y = matmul %a, %b
  %e = constant f32[2, 2] {58, 64, 139, 154}
  %v = constant f32[3] {1, 0, -1}
  %av = matmul %a, %v
  %av_e = constant f32[2] {-2, -2}
  %vb = matmul %v, %b
  %vb_e = constant f32[2] {-4, -4}
  %vv = matmul %v, %v
  %vv_e = constant f32[] {2}
  %ba = constant f32[2, 1, 1, 2] {1, 2, 3, 4}
  %bb = constant f32[3, 2, 1] {1, 1, 1, 0, 0, 1}
  %batch = matmul %ba, %bb
  %batch_e = constant f32[2, 3, 1, 1] {3, 1, 2, 7, 3, 4}
  %n = constant f32[2, 0] {}
  %m = constant f32[0, 2] {}
  %zero = matmul %n, %m
  %zero_e = constant f32[2, 2] {0, 0, 0, 0}
  %ia = constant i64[1, 2] {3, 4}
  %ib = constant i64[2, 1] {5, 6}
  %i = matmul %ia, %ib
  %i_e = constant i64[1, 1] {39}
  return %y, %e, %av, %av_e, %vb, %vb_e, %vv, %vv_e, %batch, %batch_e, %zero, %zero_e, %i, %i_e
})"},
      {"gemm", R"(graph @g() {
  %a = constant f32[3, 2] {1, 4, 2, 5, 3, 6}
  %b = constant f32[2, 3] {7, 9, 11, 8, 10, 12}
  %c = constant f32[2] {1, 2}
  %y = gemm %a, %b, %c {alpha = 0.5, beta = 2, trans_a = true, trans_b = true}
  %e = constant f32[2, 2] {31, 36, 71.5, 81}
  %d = constant f32[2, 1] {1, 2}
  %p = constant f32[2, 1] {3, 4}
  %q = constant f32[1, 2] {5, 6}
  %z = gemm %p, %q, %d
  %z_e = constant f32[2, 2] {16, 19, 22, 26}
  return %y, %e, %z, %z_e
})"},
      {"softmax", R"(graph @g() {
  %x = constant f32[2, 2] {0, 0.6931472, 1000, 1000}
  %y = softmax %x {axis = -1}
  %e = constant f32[2, 2] {0.33333334, 0.6666667, 0.5, 0.5}
  %t = transpose %x {perm = [1, 0]}
  %z = softmax %t {axis = 0}
  %z_e = transpose %y {perm = [1, 0]}
  %m = constant f32[2, 2] {-inf, 0, -inf, -inf}
  %w = softmax %m {axis = 1}
  %w_e = constant f32[2, 2] {0, 1, nan, nan}
  %n = constant f32[2, 0] {}
  %empty = softmax %n {axis = 1}
  return %y, %e, %z, %z_e, %w, %w_e, %empty, %n
})"},
      {"reduce_sum", R"(graph @g() {
  %x = constant f32[2, 3] {1, 2, 3, 4, 5, 6}
  %y = reduce_sum %x {axes = [-1]}
  %e = constant f32[2, 1] {6, 15}
  %a = reduce_sum %x {axes = [], keep_dims = false}
  %a_e = constant f32[] {21}
  %n = constant f32[2, 0] {}
  %z = reduce_sum %n {axes = [1], keep_dims = false}
  %z_e = constant f32[2] {0, 0}
  %i = constant i64[3] {1, 2, 4}
  %is = reduce_sum %i {axes = [0], keep_dims = false}
  %is_e = constant i64[] {7}
  return %y, %e, %a, %a_e, %z, %z_e, %is, %is_e
})"},
      {"reduce_mean", R"(graph @g() {
  %x = constant f32[2, 2, 2] {1, 2, 3, 4, 5, 6, 7, 8}
  %y = reduce_mean %x {axes = [0, 2], keep_dims = false}
  %e = constant f32[2] {3.5, 5.5}
  %n = constant f32[0] {}
  %z = reduce_mean %n {axes = [0]}
  %z_e = constant f32[1] {nan}
  return %y, %e, %z, %z_e
})"},
      {"reduce_max", R"(graph @g() {
  %x = constant f32[2, 3] {1, 5, 3, nan, 5, 6}
  %y = reduce_max %x {axes = [1]}
  %e = constant f32[2, 1] {5, nan}
  %i = constant i64[2] {-5, -3}
  %m = reduce_max %i {axes = [0]}
  %m_e = constant i64[1] {-3}
  return %y, %e, %m, %m_e
})"},
      {"reduce_min", R"(graph @g() {
  %x = constant f32[2, 2] {1, 5, -3, 4}
  %y = reduce_min %x {axes = [0]}
  %e = constant f32[1, 2] {-3, 4}
  return %y, %e
})"},
      {"reduce_prod", R"(graph @g() {
  %x = constant i64[3] {2, 3, -4}
  %y = reduce_prod %x {axes = [0], keep_dims = false}
  %e = constant i64[] {-24}
  %f = constant f32[2] {0.5, 3}
  %z = reduce_prod %f {axes = [0]}
  %z_e = constant f32[1] {1.5}
  return %y, %e, %z, %z_e
})"},
      {"arg_max", R"(graph @g() {
  %x = constant f32[2, 3] {1, 7, 7, 9, 5, 9}
  %y = arg_max %x {axis = 1}
  %e = constant i64[2, 1] {1, 0}
  %z = arg_max %x {axis = 0, keep_dims = false}
  %z_e = constant i64[3] {1, 0, 1}
  return %y, %e, %z, %z_e
})"},
  };
}

}  // namespace llmc::reference::testing
