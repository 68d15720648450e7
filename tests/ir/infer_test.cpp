#include "compiler/ir/infer.h"

#include <gmock/gmock.h>

#include "compiler/ir/text.h"

namespace llmc::ir {
namespace {

using ::testing::HasSubstr;

/// Type of the graph's first output, or its error.
std::string inferred(const std::string& inputs, const std::string& lines) {
  const auto graph = parse("graph @g(" + inputs + ") {\n" + lines + "\nreturn %y\n}");
  if (!graph.ok()) return graph.error().first().message;
  return to_string(graph->value(graph->outputs()[0]).type);
}

TEST(Infer, Broadcasting) {
  EXPECT_EQ(inferred("%a: f32[2, 1, seq], %b: f32[5, 1]", "%y = add %a, %b"), "f32[2, 5, seq]");
  EXPECT_EQ(inferred("%a: f32[], %b: f32[seq]", "%y = mul %a, %b"), "f32[seq]");
  EXPECT_EQ(inferred("%a: f32[seq], %b: f32[7]", "%y = add %a, %b"), "f32[7]");
  EXPECT_EQ(inferred("%a: i64[3], %b: i64[3]", "%y = less %a, %b"), "bool[3]");
  EXPECT_THAT(inferred("%a: f32[3], %b: f32[4]", "%y = add %a, %b"), HasSubstr("broadcast"));
  EXPECT_THAT(inferred("%a: f32[3], %b: i64[3]", "%y = add %a, %b"), HasSubstr("element type"));
  EXPECT_EQ(inferred("%a: f32[3], %b: i64[]", "%y = pow %a, %b"), "f32[3]");
  EXPECT_THAT(inferred("%a: f32[3]", "%y = not %a"), HasSubstr("not bool"));
  EXPECT_EQ(inferred("%c: bool[seq, 1], %a: f32[4], %b: f32[]", "%y = where %c, %a, %b"),
            "f32[seq, 4]");
}

TEST(Infer, Products) {
  EXPECT_EQ(inferred("%a: f32[1, 8, seq, 16], %b: f32[8, 16, past + seq]", "%y = matmul %a, %b"),
            "f32[1, 8, seq, past + seq]");
  EXPECT_EQ(inferred("%a: f32[16], %b: f32[16]", "%y = matmul %a, %b"), "f32[]");
  EXPECT_EQ(inferred("%a: f32[16], %b: f32[2, 16, 3]", "%y = matmul %a, %b"), "f32[2, 3]");
  EXPECT_THAT(inferred("%a: f32[2, 3], %b: f32[4, 2]", "%y = matmul %a, %b"),
              HasSubstr("inner dims differ: 3 against 4"));
  EXPECT_THAT(inferred("%a: f32[], %b: f32[4, 2]", "%y = matmul %a, %b"), HasSubstr("scalar"));
  EXPECT_EQ(inferred("%a: f32[8, seq], %b: f32[3, 8]",
                     "%y = gemm %a, %b {trans_a = true, trans_b = true}"),
            "f32[seq, 3]");
  EXPECT_THAT(inferred("%a: f32[2, 8], %b: f32[8, 3], %c: f32[4]", "%y = gemm %a, %b, %c"),
              HasSubstr("broadcast"));
}

TEST(Infer, AxesCountFromBothEnds) {
  EXPECT_EQ(inferred("%x: f32[2, 3, 4]", "%y = reduce_mean %x {axes = [-1, 0]}"), "f32[1, 3, 1]");
  EXPECT_EQ(inferred("%x: f32[2, 3, 4]", "%y = reduce_sum %x {axes = [], keep_dims = false}"),
            "f32[]");
  EXPECT_EQ(inferred("%x: f32[2, 3]", "%y = unsqueeze %x {axes = [0, -1]}"), "f32[1, 2, 3, 1]");
  EXPECT_EQ(inferred("%x: f32[1, 2, 1]", "%y = squeeze %x {axes = [-1]}"), "f32[1, 2]");
  EXPECT_EQ(inferred("%x: f32[2, 3]", "%y = arg_max %x {axis = -2, keep_dims = false}"), "i64[3]");
  EXPECT_THAT(inferred("%x: f32[2, 3]", "%y = softmax %x {axis = 2}"), HasSubstr("outside"));
  EXPECT_THAT(inferred("%x: f32[2, 3]", "%y = reduce_sum %x {axes = [1, -1]}"),
              HasSubstr("do not fit"));
  EXPECT_THAT(inferred("%x: f32[2, 3]", "%y = squeeze %x {axes = [0]}"), HasSubstr("is not 1"));
  EXPECT_THAT(inferred("%x: f32[2, 3]", "%y = transpose %x {perm = [0, 0]}"),
              HasSubstr("permutation"));
  EXPECT_THAT(inferred("%x: f32[2, 3]", "%y = transpose %x {perm = [-1, 0]}"),
              HasSubstr("permutation"));
  EXPECT_THAT(inferred("%x: f32[]", "%y = concat %x {axis = 0}"), HasSubstr("outside"));
}

TEST(Infer, ConcatAndSplit) {
  EXPECT_EQ(inferred("%p: f32[2, past], %k: f32[2, seq]", "%y = concat %p, %k {axis = 1}"),
            "f32[2, past + seq]");
  EXPECT_EQ(inferred("%p: f32[n, 3], %k: f32[2, 4]", "%y = concat %p, %k {axis = 1}"), "f32[2, 7]");
  EXPECT_THAT(inferred("%p: f32[2, 3], %k: f32[3, 3]", "%y = concat %p, %k {axis = 1}"),
              HasSubstr("differs"));
  EXPECT_EQ(inferred("%x: f32[seq, 6]", "%y, %z = split %x {axis = -1, sizes = [2, 4]}"),
            "f32[seq, 2]");
  EXPECT_THAT(inferred("%x: f32[seq, 6]", "%y, %z = split %x {axis = 1, sizes = [2, 5]}"),
              HasSubstr("do not add up"));
  EXPECT_THAT(inferred("%x: f32[6]", "%y, %z = split %x {axis = 0, sizes = [-2, 8]}"),
              HasSubstr("-2"));
}

std::string sliced(const std::string& dim, const std::string& start, const std::string& end,
                   const std::string& step = "1") {
  return inferred("%x: f32[" + dim + "]",
                  "%s = constant i64[1] {" + start + "}\n%e = constant i64[1] {" + end +
                      "}\n%a = constant i64[1] {0}\n%t = constant i64[1] {" + step +
                      "}\n%y = slice %x, %s, %e, %a, %t");
}

TEST(Infer, SliceOfNumbers) {
  EXPECT_EQ(sliced("10", "0", "9223372036854775807"), "f32[10]");
  EXPECT_EQ(sliced("10", "-9223372036854775808", "9223372036854775807"), "f32[10]");
  EXPECT_EQ(sliced("10", "-3", "9223372036854775807"), "f32[3]");
  EXPECT_EQ(sliced("10", "2", "-1"), "f32[7]");
  EXPECT_EQ(sliced("10", "5", "2"), "f32[0]");
  EXPECT_EQ(sliced("10", "0", "10", "3"), "f32[4]");
  EXPECT_EQ(sliced("10", "-1", "-9223372036854775808", "-1"), "f32[10]");
  EXPECT_EQ(sliced("10", "9223372036854775807", "0", "-4"), "f32[3]");
  EXPECT_EQ(sliced("0", "0", "9223372036854775807"), "f32[0]");
  EXPECT_THAT(sliced("10", "0", "1", "0"), HasSubstr("step is 0"));
}

TEST(Infer, SliceOfSymbols) {
  EXPECT_EQ(sliced("seq", "0", "9223372036854775807"), "f32[seq]");
  EXPECT_EQ(sliced("seq", "-1", "9223372036854775807"), "f32[1]");  // the last row
  EXPECT_EQ(sliced("seq", "0", "-1"), "f32[seq - 1]");
  EXPECT_EQ(sliced("seq + 8", "-4", "9223372036854775807"), "f32[4]");
  // Fewer than four tokens would give fewer than four: not known.
  EXPECT_EQ(sliced("seq", "-4", "9223372036854775807"), "f32[d0]");
  EXPECT_EQ(sliced("seq", "0", "4"), "f32[d0]");
  EXPECT_EQ(sliced("seq", "2", "9223372036854775807"), "f32[d0]");
  EXPECT_EQ(sliced("seq", "0", "9223372036854775807", "2"), "f32[d0]");
}

TEST(Infer, SliceWithComputedBounds) {
  // cos_table[past : past + seq], as TorchScript writes it.
  EXPECT_EQ(inferred("%table: f32[2048, 8], %past: f32[past, 2], %x: f32[seq, 2]",
                     R"(%sp = shape %past {begin = 0, end = 1}
                        %sx = shape %x {begin = 0, end = 1}
                        %end = add %sp, %sx
                        %axes = constant i64[1] {0}
                        %y = slice %table, %sp, %end, %axes)"),
            "f32[seq, 8]");
  // The last seq rows of past + seq: x[-seq:].
  EXPECT_EQ(inferred("%all: f32[past + seq, 8], %x: f32[seq, 2]",
                     R"(%sx = shape %x {begin = 0, end = 1}
                        %minus = neg %sx
                        %end = constant i64[1] {9223372036854775807}
                        %axes = constant i64[1] {-2}
                        %y = slice %all, %minus, %end, %axes)"),
            "f32[seq, 8]");
  EXPECT_THAT(inferred("%x: f32[4, 4], %s: i64[1], %a: i64[1]", "%y = slice %x, %s, %s, %a"),
              HasSubstr("axes are not known"));
  EXPECT_EQ(inferred("%x: f32[4, 4], %s: i64[1]", "%y = slice %x, %s, %s"), "f32[d0, 4]");
}

TEST(Infer, ReshapeOfNumbersAndSymbols) {
  const auto reshaped = [](const std::string& type, const std::string& shape,
                           const std::string& attributes = "") {
    const auto elements = std::count(shape.begin(), shape.end(), ',') + (shape.empty() ? 0 : 1);
    return inferred("%x: " + type, "%s = constant i64[" + std::to_string(elements) + "] {" + shape +
                                       "}\n%y = reshape %x, %s " + attributes);
  };
  EXPECT_EQ(reshaped("f32[2, 6]", "3, -1"), "f32[3, 4]");
  EXPECT_EQ(reshaped("f32[seq, 1, 64]", "1, -1, 4, 16"), "f32[1, seq, 4, 16]");
  EXPECT_EQ(reshaped("f32[seq, 4, 16]", "0, -1"), "f32[seq, 64]");
  EXPECT_EQ(reshaped("f32[seq, past, 4]", "0, 0, 2, -1"), "f32[seq, past, 2, 2]");
  EXPECT_EQ(reshaped("f32[0, 4]", "0, -1"), "f32[0, 4]");
  EXPECT_EQ(reshaped("f32[0, 4]", "7, 0", "{allow_zero = true}"), "f32[7, 0]");
  EXPECT_THAT(reshaped("f32[0, 4]", "0, -1", "{allow_zero = true}"), HasSubstr("both a 0"));
  EXPECT_EQ(reshaped("f32[1]", ""), "f32[]");
  EXPECT_EQ(reshaped("f32[3*seq]", "3, -1"), "f32[3, seq]");
  EXPECT_EQ(reshaped("f32[seq]", "4, -1"), "f32[4, d0]");
  EXPECT_THAT(reshaped("f32[2, 6]", "5, -1"), HasSubstr("does not divide"));
  EXPECT_THAT(reshaped("f32[2, 6]", "5, 2"), HasSubstr("does not have the 10 elements"));
  EXPECT_THAT(reshaped("f32[2, 6]", "-1, -1"), HasSubstr("more than one -1"));
  EXPECT_THAT(reshaped("f32[6]", "1, 0"), HasSubstr("does not have"));
  EXPECT_THAT(reshaped("f32[6]", "-2, -3"), HasSubstr("negative size"));
}

/// The chain exporters write for x.view(b, s, heads, dim).
TEST(Infer, ShapeGatherConcatReshapeChain) {
  EXPECT_EQ(inferred("%x: f32[1, seq, 64]", R"(
    %shape = shape %x
    %i0 = constant i64[] {0}
    %i1 = constant i64[] {1}
    %b = gather %shape, %i0 {axis = 0}
    %s = gather %shape, %i1 {axis = 0}
    %b1 = unsqueeze %b {axes = [0]}
    %s1 = unsqueeze %s {axes = [0]}
    %heads = constant i64[1] {4}
    %dim = constant i64[1] {16}
    %target = concat %b1, %s1, %heads, %dim {axis = 0}
    %y = reshape %x, %target)"),
            "f32[1, seq, 4, 16]");
}

/// torch's repeat_kv: expand with a shape whose -1 entries are replaced by 1.
TEST(Infer, EqualWhereExpandChain) {
  EXPECT_EQ(inferred("%k: f32[1, 2, past + seq, 16]", R"(
    %u = unsqueeze %k {axes = [2]}
    %shape = shape %k
    %i2 = constant i64[1] {2}
    %total = gather %shape, %i2 {axis = 0}
    %one = constant i64[1] {1}
    %two = constant i64[1] {2}
    %rep = constant i64[1] {4}
    %dim = constant i64[1] {16}
    %wanted = concat %one, %two, %rep, %total, %dim {axis = 0}
    %n = shape %wanted
    %ones = constant_of_shape %n {value = i64[1] {1}}
    %minus = constant i64[] {-1}
    %minuses = mul %ones, %minus
    %is = equal %wanted, %minuses
    %target = where %is, %ones, %wanted
    %e = expand %u, %target
    %flat = constant i64[4] {1, 8, -1, 16}
    %y = reshape %e, %flat)"),
            "f32[1, 8, past + seq, 16]");
}

TEST(Infer, RangeAndConstantOfShapeFollowShapes) {
  EXPECT_EQ(inferred("%x: f32[seq], %p: f32[past]", R"(
    %sx = shape %x
    %sp = shape %p
    %i = constant i64[] {0}
    %s = gather %sx, %i {axis = 0}
    %p0 = gather %sp, %i {axis = 0}
    %end = add %p0, %s
    %one = constant i64[] {1}
    %y = range %p0, %end, %one)"),
            "i64[seq]");
  EXPECT_EQ(inferred("", R"(%a = constant i64[] {7}
    %b = constant i64[] {0}
    %c = constant i64[] {-2}
    %y = range %a, %b, %c)"),
            "i64[4]");
  EXPECT_EQ(inferred("", R"(%a = constant f32[] {0}
    %b = constant f32[] {1}
    %c = constant f32[] {0.25}
    %y = range %a, %b, %c)"),
            "f32[4]");
  EXPECT_EQ(inferred("%x: f32[seq, 4]", R"(%s = shape %x
    %y = constant_of_shape %s {value = f32[1] {0}})"),
            "f32[seq, 4]");
  EXPECT_EQ(inferred("", R"(%s = constant i64[0] {}
    %y = constant_of_shape %s {value = i64[1] {3}})"),
            "i64[]");
  EXPECT_THAT(inferred("", R"(%s = constant i64[1] {-4}
    %y = constant_of_shape %s {value = i64[1] {3}})"),
              HasSubstr("negative"));
  EXPECT_THAT(inferred("%s: i64[n]", "%y = constant_of_shape %s {value = i64[1] {3}}"),
              HasSubstr("rank of the result"));
}

TEST(Infer, IndexingAndOrder) {
  EXPECT_EQ(inferred("%x: f32[3, seq], %i: i64[2, seq]", "%y = gather_elements %x, %i {axis = 0}"),
            "f32[2, seq]");
  EXPECT_THAT(inferred("%x: f32[3, 4], %i: i64[2, 5]", "%y = gather_elements %x, %i {axis = 0}"),
              HasSubstr("longer than the data"));
  EXPECT_THAT(inferred("%x: f32[3, 4], %i: i64[2]", "%y = gather_elements %x, %i {axis = 0}"),
              HasSubstr("rank"));
  EXPECT_EQ(
      inferred("%x: f32[2, 3, 4], %i: i64[2, seq, 1]", "%y = gather_nd %x, %i {batch_dims = 1}"),
      "f32[2, seq, 4]");
  EXPECT_THAT(inferred("%x: f32[2, 3], %i: i64[5, 3]", "%y = gather_nd %x, %i"),
              HasSubstr("address 3 dims"));
  EXPECT_THAT(inferred("%x: f32[2, 3], %i: i64[5]", "%y = gather_nd %x, %i {batch_dims = 1}"),
              HasSubstr("batch_dims"));
  EXPECT_THAT(inferred("%x: f32[2, 3], %i: i64[5, n]", "%y = gather_nd %x, %i"),
              HasSubstr("not known"));
  EXPECT_EQ(inferred("%x: f32[seq, 3], %i: i64[5, 1], %u: f32[5, 3]", "%y = scatter_nd %x, %i, %u"),
            "f32[seq, 3]");
  EXPECT_THAT(inferred("%x: f32[2, 3], %i: i64[5, 1], %u: f32[5, 4]", "%y = scatter_nd %x, %i, %u"),
              HasSubstr("do not fit"));
  EXPECT_THAT(inferred("%x: f32[2, 3], %i: i64[5, 1], %u: i64[5, 3]", "%y = scatter_nd %x, %i, %u"),
              HasSubstr("not f32"));
  EXPECT_THAT(inferred("%x: f32[3, 4], %i: i64[2, 4], %u: f32[2, 3]",
                       "%y = scatter_elements %x, %i, %u {axis = 0}"),
              HasSubstr("differ"));
  EXPECT_EQ(inferred("%x: f32[seq, 3]", R"(%p = constant i64[4] {1, 0, 2, -1}
    %y = pad %x, %p)"),
            "f32[seq + 3, 2]");
  EXPECT_THAT(inferred("%x: f32[2, 3]", R"(%p = constant i64[4] {-1, 0, -2, 0}
    %y = pad %x, %p)"),
              HasSubstr("negative size"));
  EXPECT_THAT(inferred("%x: f32[2, 3], %p: i64[3]", "%y = pad %x, %p"),
              HasSubstr("number of pads"));
  EXPECT_EQ(inferred("%x: f32[seq, 5], %k: i64[]", "%y, %z = top_k %x, %k {axis = 1}"),
            "f32[seq, d0]");
  EXPECT_EQ(inferred("%x: f32[seq, 5]", R"(%k = constant i64[1] {3}
    %z, %y = top_k %x, %k {axis = 1})"),
            "i64[seq, 3]");
  EXPECT_THAT(inferred("%x: f32[seq, 5]", R"(%k = constant i64[1] {6}
    %z, %y = top_k %x, %k {axis = 1})"),
              HasSubstr("does not fit"));
  EXPECT_THAT(inferred("%x: bool[4]", "%y = cum_sum %x {axis = 0}"), HasSubstr("bool"));
  EXPECT_THAT(inferred("%x: f32[4]", "%y = cum_sum %x {axis = 1}"), HasSubstr("outside"));
}

/// Sizes are whole numbers; what a narrow type would wrap is not followed.
TEST(Infer, NarrowArithmeticMakesNoSizes) {
  EXPECT_EQ(inferred("", R"(%a = constant u8[1] {200}
    %s = add %a, %a
    %y = constant_of_shape %s {value = f32[1] {0}})"),
            "f32[d0]");
  EXPECT_EQ(inferred("", R"(%s = constant u64[1] {18446744073709551615}
    %y = constant_of_shape %s {value = f32[1] {0}})"),
            "f32[d0]");
}

TEST(Infer, UnknownSizesGetFreshSymbols) {
  EXPECT_EQ(inferred("%x: f32[seq], %d0: f32[d0], %s: i64[2]", "%y = reshape %x, %s"),
            "f32[d1, d2]");
  EXPECT_EQ(inferred("%x: f32[seq, past]", R"(%s = constant i64[1] {-1}
    %y = reshape %x, %s)"),
            "f32[d0]");
}

TEST(Infer, AttentionAndStages) {
  const std::string inputs =
      "%q: f32[1, seq, 4, 16], %k: f32[1, seq, 2, 16], %v: f32[1, seq, 2, 16], "
      "%past: f32[2, 1, past, 2, 16]";
  const std::string attrs = " {heads = 4, kv_heads = 2, head_dim = 16, scale = 0.25}";
  EXPECT_EQ(inferred(inputs, "%o, %y = attention %q, %k, %v, %past" + attrs),
            "f32[2, 1, past + seq, 2, 16]");
  EXPECT_EQ(inferred(inputs, "%y, %p = attention %q, %k, %v, %past" + attrs), "f32[1, seq, 64]");
  EXPECT_THAT(inferred(inputs, "%y, %p = attention %k, %q, %v, %past" + attrs), HasSubstr("heads"));
  EXPECT_THAT(inferred(inputs,
                       "%y, %p = attention %q, %k, %v, %past {heads = 4, kv_heads = 3, "
                       "head_dim = 16, scale = 1}"),
              HasSubstr("do not divide"));
  EXPECT_THAT(inferred(inputs,
                       "%y, %p = attention %q, %k, %v, %past {heads = "
                       "4611686018427387904, kv_heads = 2, head_dim = 16, scale = 1}"),
              HasSubstr("between 1 and"));
  const auto with = [&](const std::string& attribute) {
    return inferred(inputs,
                    "%y, %p = attention %q, %k, %v, %past {heads = 4, kv_heads = 2, "
                    "head_dim = 16, scale = 1, " +
                        attribute + "}");
  };
  EXPECT_THAT(with("window = -1"), HasSubstr("window"));
  EXPECT_THAT(with("chunked = true"), HasSubstr("chunks"));
  EXPECT_THAT(with("softcap = nan"), HasSubstr("softcap"));
  EXPECT_THAT(inferred("%q: f32[1, seq, 4, 16], %s: f32[2, 2, source, 16]",
                       "%y = cross_attention %q, %s {heads = 4, kv_heads = 2, head_dim = 16, "
                       "scale = 1, softcap = -1}"),
              HasSubstr("softcap"));
  EXPECT_THAT(inferred("%q: f32[5, 4], %k: f32[4, 6], %v: f32[6, 4]",
                       "%y = scaled_attention %q, %k, %v {scale = 1, softcap = nan}"),
              HasSubstr("softcap"));
  EXPECT_EQ(inferred("%x: f32[1, seq, 8]", R"(%w = constant f32[24, 8] splat(1)
    %y = linear %x, %w {fn = silu, gated = true})"),
            "f32[1, seq, 12]");
  EXPECT_THAT(inferred("%x: f32[1, seq, 8]", R"(%w = constant f32[23, 8] splat(1)
    %y = linear %x, %w {fn = silu, gated = true})"),
              HasSubstr("even number"));
  EXPECT_THAT(inferred("%x: f32[1, seq, 8]", R"(%w = constant f32[24, 8] splat(1)
    %y = linear %x, %w {norm_epsilon = 1e-6})"),
              HasSubstr("must occur together"));
  EXPECT_THAT(inferred("%x: f32[1, seq, 8]", R"(%w = constant f32[24, 8] splat(1)
    %n = constant f32[8] splat(1)
    %y = linear %x, %w, _, %n, _, %n {norm_epsilon = 1e-6})"),
              HasSubstr("only a layer norm has a bias"));
  EXPECT_THAT(inferred("%x: f32[1, seq, 8]", R"(%w = constant f32[24, 8] splat(1)
    %n = constant f32[8] splat(1)
    %nb = constant f32[7] splat(1)
    %y = linear %x, %w, _, %n, _, %nb {norm_epsilon = 1e-6, norm_kind = layer})"),
              HasSubstr("length of the norm bias"));
  EXPECT_THAT(inferred("%x: f32[1, seq, 8]", R"(%w = constant f32[16, 8] splat(1)
    %n = constant f32[4] splat(1)
    %q, %k, %y = qkv_projection %x, %w, _, _, _, _, _, %n {heads = 2, kv_heads = 1, head_dim = 4, qk_norm_epsilon = 1e-6})"),
              HasSubstr("both head norms"));
  EXPECT_THAT(inferred("%x: f32[1, seq, 8]", R"(%w = constant f32[16, 8] splat(1)
    %n = constant f32[8] splat(1)
    %q, %k, %y = qkv_projection %x, %w, _, _, _, _, _, %n, %n {heads = 2, kv_heads = 1, head_dim = 4, qk_norm_epsilon = 1e-6})"),
              HasSubstr("query norm"));
  EXPECT_THAT(inferred("%x: f32[1, seq, 8], %r: f32[1, seq, 23]",
                       R"(%w = constant f32[24, 8] splat(1)
    %y = linear %x, %w, _, _, %r)"),
              HasSubstr("width of the residual"));
  // The residual may group the tokens differently.
  EXPECT_EQ(inferred("%x: f32[1, seq, 8], %r: f32[seq, 1, 24]", R"(%w = constant f32[24, 8] splat(1)
    %y = linear %x, %w, _, _, %r)"),
            "f32[1, seq, 24]");
  EXPECT_EQ(inferred("%i: i64[seq]", R"(%t = constant f16[32, 8] splat(1)
    %y = embedding %i, %t)"),
            "f32[seq, 8]");
  EXPECT_THAT(inferred("%x: f32[1, seq, 2, 8], %p: i64[1, seq + 1]",
                       R"(%f = constant f32[4] splat(1)
    %y = rope %x, %p, %f {rotary_dim = 8})"),
              HasSubstr("number of positions"));
  EXPECT_THAT(inferred("%x: f32[1, seq, 2, 8], %p: i64[1, seq]", R"(%f = constant f32[5] splat(1)
    %y = rope %x, %p, %f {rotary_dim = 10})"),
              HasSubstr("rotary_dim"));
  EXPECT_THAT(inferred("%x: f32[seq, 8]", R"(%w = constant f32[7] splat(1)
    %y = rms_norm %x, %w {epsilon = 1e-6})"),
              HasSubstr("length of the weight"));
  EXPECT_THAT(inferred("%x: f32[seq, 8]", R"(%w = constant f32[8] splat(1)
    %y = rms_norm %x, %w {epsilon = nan})"),
              HasSubstr("epsilon"));
}

TEST(InferGraph, RewritesTypesAndKeepsKnownDims) {
  ParseOptions options;
  options.infer_types = false;
  auto graph = parse(R"(graph @g(%x: f32[seq, 4], %s: i64[1]) {
    %y = neg %x : f32[7, 7]
    %z = slice %y, %s, %s : f32[window, 4]
    return %z
  })",
                     options);
  ASSERT_TRUE(graph.ok());
  auto fixed = infer_graph(*graph);
  ASSERT_TRUE(fixed.ok()) << fixed.error().first().message;
  EXPECT_EQ(to_string(fixed->value(fixed->nodes()[0].outputs[0]).type), "f32[seq, 4]");
  // Not known to inference, but to whoever made the graph.
  EXPECT_EQ(to_string(fixed->value(fixed->outputs()[0]).type), "f32[window, 4]");
}

TEST(ShapeValues, FollowsIntegerArithmetic) {
  const auto graph = parse(R"(graph @g(%x: f32[seq, 64], %p: f32[past]) {
    %s = shape %x
    %i = constant i64[1] {-1}
    %w = gather %s, %i {axis = 0}
    %four = constant i64[1] {4}
    %d = div %w, %four
    %sp = shape %p
    %i0 = constant i64[1] {0}
    %n = gather %s, %i0 {axis = 0}
    %total = add %sp, %n
    %most = max %total, %n
    %least = min %total, %n
    %less = less %n, %total
    %lesseq = less_or_equal %n, %total
    %zero = constant i64[1] {0}
    %neg = less %total, %zero
    %prod = reduce_prod %s {axes = [0]}
    %c = cast %total {to = i32}
    %f = cast %total {to = f32}
    %narrow = cast %total {to = i8}
    return %c
  })");
  ASSERT_TRUE(graph.ok()) << graph.error().first().message;
  const auto known = ShapeValues::of(*graph);
  const auto text = [&](const std::string& name) -> std::string {
    for (std::uint32_t i = 0; i < graph->values().size(); ++i) {
      if (graph->values()[i].name != name) continue;
      const auto* elements = known.find(ValueId{i});
      if (!elements) return "?";
      std::string out;
      for (const Dim& dim : *elements) out += (out.empty() ? "" : ", ") + dim.to_string();
      return out;
    }
    return "no such value";
  };
  EXPECT_EQ(text("s"), "seq, 64");
  EXPECT_EQ(text("d"), "16");
  EXPECT_EQ(text("total"), "past + seq");
  EXPECT_EQ(text("most"), "past + seq");
  EXPECT_EQ(text("least"), "seq");
  EXPECT_EQ(text("less"), "?");  // past may be 0
  EXPECT_EQ(text("lesseq"), "1");
  EXPECT_EQ(text("neg"), "0");
  EXPECT_EQ(text("prod"), "64*seq");
  EXPECT_EQ(text("c"), "past + seq");
  EXPECT_EQ(text("f"), "?");
  EXPECT_EQ(text("narrow"), "?");
}

}  // namespace
}  // namespace llmc::ir
