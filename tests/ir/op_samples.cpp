#include "tests/ir/op_samples.h"

#include "compiler/ir/op_info.h"

namespace llmc::ir::testing {
namespace {

/// A graph around one node line; %x is f32[2, seq, 8], %i i64[1, seq], %b bool[seq].
std::string around(const std::string& lines, const std::string& result = "%y") {
  return "graph @sample(%x: f32[2, seq, 8], %i: i64[1, seq], %b: bool[seq]) {\n" + lines +
         "\n  return " + result + "\n}\n";
}

std::map<std::string_view, std::string> make_samples() {
  std::map<std::string_view, std::string> samples{
      {"constant", around("  %y = constant f32[2, 2] {1, -2.5, nan, inf}")},
      {"cast", around("  %y = cast %x {to = bf16}")},
      {"reshape", around("  %s = constant i64[2] {-1, 8}\n"
                         "  %y = reshape %x, %s {allow_zero = true}")},
      {"transpose", around("  %y = transpose %x {perm = [2, 0, 1]}")},
      {"concat", around("  %y = concat %x, %x, %x {axis = 1}")},
      {"split", around("  %y, %z = split %x {axis = 2, sizes = [3, 5]}", "%y, %z")},
      {"slice", around("  %s = constant i64[1] {0}\n  %e = constant i64[1] {9223372036854775807}\n"
                       "  %t = constant i64[1] {2}\n  %y = slice %x, %s, %e, _, %t")},
      {"squeeze", around("  %y = squeeze %i {axes = [0]}")},
      {"unsqueeze", around("  %y = unsqueeze %x {axes = [0, 3]}")},
      {"gather", around("  %k = constant i64[] {-1}\n  %y = gather %x, %k {axis = 1}")},
      {"gather_elements", around("  %k = constant i64[1, 1, 2] {-1, 0}\n"
                                 "  %y = gather_elements %x, %k {axis = 2}")},
      {"gather_nd", around("  %k = constant i64[2, 1, 1] {1, 0}\n"
                           "  %y = gather_nd %x, %k {batch_dims = 1}")},
      {"scatter_elements",
       around("  %k = constant i64[1, 1, 2] {-1, 0}\n  %u = constant f32[1, 1, 2] {1, 2}\n"
              "  %y = scatter_elements %x, %k, %u {axis = 2, reduction = add}")},
      {"scatter_nd", around("  %k = constant i64[1, 2] {1, 0}\n  %u = constant f32[1, 8] splat(1)\n"
                            "  %y = scatter_nd %x, %k, %u {reduction = max}")},
      {"pad", around("  %p = constant i64[6] {0, 1, 0, 0, 2, -1}\n  %v = constant f32[] {0.5}\n"
                     "  %y = pad %x, %p, %v\n  %z = pad %x, %p {mode = reflect}",
                     "%y, %z")},
      {"expand", around("  %s = constant i64[4] {3, 1, 1, 1}\n  %y = expand %x, %s")},
      {"tile", around("  %s = constant i64[3] {1, 2, 1}\n  %y = tile %x, %s")},
      {"shape", around("  %y = shape %x {begin = 1, end = 2}")},
      {"constant_of_shape",
       around("  %s = shape %x\n  %y = constant_of_shape %s {value = f32[1] {0.5}}")},
      {"range", around("  %a = constant i64[] {0}\n  %l = constant i64[] {7}\n"
                       "  %d = constant i64[] {2}\n  %y = range %a, %l, %d")},
      {"trilu", around("  %k = constant i64[] {1}\n  %y = trilu %x, %k {upper = false}")},
      {"where", around("  %t = transpose %x {perm = [0, 2, 1]}\n  %y = where %b, %t, %t")},
      {"matmul", around("  %w = constant f32[8, 3] random(1, 0.5)\n  %y = matmul %x, %w")},
      {"gemm",
       around("  %a = constant f32[4, 3] splat(1)\n  %w = constant f32[5, 4] splat(-2)\n"
              "  %c = constant f32[5] {1, 2, 3, 4, 5}\n"
              "  %y = gemm %a, %w, %c {alpha = 0.5, beta = 2, trans_a = true, trans_b = true}")},
      {"conv",
       "graph @g(%x: f32[batch, 4, 3*seq + 5, 9]) {\n  %w = constant f32[6, 2, 3, 1] random(1, 1)\n"
       "  %y = conv %x, %w {strides = [3, 2], dilations = [2, 1], groups = 2}\n  return %y\n}\n"},
      {"depthwise_conv",
       "graph @g(%x: f32[batch, 3*seq + 5, 9, 4]) {\n  %w = constant f32[3, 2, 4] random(1, 1)\n"
       "  %y = depthwise_conv %x, %w {strides = [3, 2], dilations = [2, 1]}\n  return %y\n}\n"},
      {"unfold",
       "graph @g(%x: f32[batch, 3*seq + 5, 9, 4]) {\n"
       "  %y = unfold %x {kernel = [3, 2], strides = [3, 2], dilations = [2, 1]}\n  return "
       "%y\n}\n"},
      {"softmax", around("  %y = softmax %x {axis = -1}")},
      {"arg_max",
       around("  %y = arg_max %x {axis = 2, keep_dims = false, minimum = true, last = true}")},
      {"top_k", around("  %k = constant i64[] {3}\n"
                       "  %y, %z = top_k %x, %k {axis = -1, largest = false}",
                       "%y, %z")},
      {"non_zero", around("  %y = non_zero %x")},
      {"cum_sum", around("  %y = cum_sum %x {axis = 1, exclusive = true, reverse = true}")},
      {"layer_norm", around("  %w = constant f32[8] splat(1)\n  %c = constant f32[8] splat(0)\n"
                            "  %y = layer_norm %x, %w, %c {epsilon = 1e-05}")},
      {"rms_norm", around("  %w = constant f32[8] random(7, 0.5)\n"
                          "  %y = rms_norm %x, %w {epsilon = 1e-06}")},
      {"rope",
       "graph @g(%q: f32[1, 4, seq, 16], %p: i64[1, seq]) {\n"
       "  %t = constant f32[32, 8] random(3, 1)\n"
       "  %y = rope %q, %p, %t {rotary_dim = 8, interleaved = true, heads_first = true, "
       "table = true}\n  return %y\n}\n"},
      {"scaled_attention",
       "graph @g(%q: f32[2, n, 4], %k: f32[4, 3], %v: f32[2, 3, 5], %m: bool[n, 1]) {\n"
       "  %y = scaled_attention %q, %k, %v, _, %m {scale = 0.5, softcap = 30, fill = -10000, "
       "keeps = false}\n"
       "  return %y\n}\n"},
      {"attention",
       "graph @g(%q: f32[1, seq, 4, 16], %k: f32[1, seq, 2, 16], %v: f32[1, seq, 2, 16], "
       "%past: f32[2, 1, 2, past, 16]) {\n"
       "  %y, %present = attention %q, %k, %v, %past {heads = 4, kv_heads = 2, head_dim = 16, "
       "scale = 0.25, softcap = 50, window = 7, chunked = true, cache_layout = heads_first}\n  "
       "return %y, "
       "%present\n}\n"},
      {"cross_attention",
       "graph @g(%q: f32[1, seq, 4, 16], %s: f32[2, 2, source, 16]) {\n"
       "  %y = cross_attention %q, %s {heads = 4, kv_heads = 2, head_dim = 16, scale = 0.25, "
       "softcap = 50}\n"
       "  return %y\n}\n"},
      {"gated_activation", around("  %y = gated_activation %x, %x {fn = gelu_tanh}")},
      {"embedding", around("  %t = constant bf16[32, 8] splat(1)\n  %y = embedding %i, %t {role = "
                           "position_embedding, format = q8}")},
      {"linear",
       around("  %w = constant f32[16, 8] concat(f32[8, 8] scaled(f16[8, 8] splat(1), 2.5), "
              "f32[8, 8] transposed(f32[8, 8] random(2, 1)))\n"
              "  %n = constant f32[8] splat(1)\n"
              "  %y = linear %x, %w, _, %n, %x, %n {fn = silu, gated = true, "
              "norm_epsilon = 1e-06, norm_kind = layer, role = gate_up, format = q4, hadamard = "
              "256}")},
      {"expert_linear",
       "graph @g(%x: f32[seq, 2, 8], %i: i64[seq, 2]) {\n"
       "  %w = constant f32[12, 8] splat(1)\n  %b = constant f32[12] splat(2)\n"
       "  %y = expert_linear %x, %w, %i, %b {experts = 3, role = down, format = q4, hadamard = "
       "256}\n"
       "  return %y\n}\n"},
      {"qkv_projection",
       "graph @g(%x: f32[1, seq, 8], %p: i64[1, seq]) {\n"
       "  %w = constant f32[16, 8] rows(f32[4, 8] splat(2), [0, 1, 2, 3, -1, -1, -1, -1, 3, 2, 1, "
       "0, 0, 0, 0, 0])\n"
       "  %b = constant f32[16] splat(1)\n  %n = constant f32[8] splat(1)\n"
       "  %f = constant f32[2] {1, 0.01}\n  %h = constant f32[4] splat(2)\n"
       "  %q, %k, %v = qkv_projection %x, %w, %b, %n, %p, %f, %n, %h, %h {heads = 2, kv_heads = 1, "
       "head_dim = 4, norm_epsilon = 1e-05, norm_kind = layer, qk_norm_epsilon = 1e-06, rope = "
       "{rotary_dim = 4}, format = q8, value_format = q6, hadamard = 256}\n  return %q, %k, "
       "%v\n}\n"},
      {"loop", ""},
      {"parameter", ""}};
  samples["loop"] = samples["parameter"] =
      "graph @g(%x: f32[seq, 4], %p0: f32[past], %p1: f32[past]) {\n"
      "  %y, %r0, %r1 = loop %x, %p0, %p1 {count = 2, carried = 1, per_iteration_inputs = 1, "
      "per_iteration_outputs = 1}\n"
      "    parameters [\n"
      "      [\"layers.0.w\" f32[4] {1, 2, 3, 4}, \"layers.1.w\" f32[4] splat(2)]]\n"
      "    body @layer(%h: f32[seq, 4], %c: f32[past]) {\n"
      "      %w = parameter {index = 0} : f32[4]\n"
      "      %s = mul %h, %w\n      %d = neg %c\n      return %s, %d\n    }\n"
      "  return %y, %r0, %r1\n}\n";
  for (const auto name : EnumInfo<UnaryKind>::names) {
    const std::string operand = name == "not" ? "%b" : "%x";
    samples[name] = around("  %y = " + std::string(name) + " " + operand);
  }
  for (const auto name : EnumInfo<BinaryKind>::names) {
    const std::string operand = name == "and" || name == "or" || name == "xor" ? "%b" : "%x";
    samples[name] = around("  %y = " + std::string(name) + " " + operand + ", " + operand);
  }
  for (const auto name : EnumInfo<ReduceKind>::names)
    samples[name] =
        around("  %y = " + std::string(name) + " %x {axes = [0, 2], keep_dims = false}");
  return samples;
}

}  // namespace

const std::map<std::string_view, std::string>& op_samples() {
  static const auto samples = make_samples();
  return samples;
}

}  // namespace llmc::ir::testing
