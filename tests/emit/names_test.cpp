#include "compiler/emit/names.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

namespace llmc::emit {
namespace {

TEST(CheckName, TakesIdentifiersAndNothingElse) {
  for (const char* good : {"tiny", "tiny_model_2", "A1", "stories15m_split"}) {
    EXPECT_TRUE(check_name(good).ok()) << good;
  }
  for (const char* bad :
       {"", "1a", "_a", "a__b", "a_", "a-b", "a b", "int", "class", "llmc_x", "a.b", "../x", "$(x)",
        "a;b", "\xc3\xa4", "a\nb", "main",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
    const Status status = check_name(bad);
    ASSERT_FALSE(status.ok()) << bad;
    EXPECT_EQ(status.error().first().kind, ErrorKind::kUsage);
  }
}

TEST(CheckName, HidesNoSystemHeader) {
  for (const char* header : {"math", "stdint", "stdio", "string", "stdlib", "limits", "errno",
                             "time", "signal", "Math", "pthread"}) {
    const Status status = check_name(header);
    ASSERT_FALSE(status.ok()) << header;
    EXPECT_NE(status.error().first().message.find("system header"), std::string::npos);
  }
  EXPECT_TRUE(check_name("math_7b").ok());
  EXPECT_EQ(derive_name("/models/math.onnx"), "model_math");
  EXPECT_EQ(derive_name("/models/String"), "model_string");
}

TEST(DeriveName, AlwaysGivesAValidName) {
  EXPECT_EQ(derive_name("/models/stories15M-split"), "stories15m_split");
  EXPECT_EQ(derive_name("/models/stories15M-split/"), "stories15m_split");
  EXPECT_EQ(derive_name("Model.v2.onnx"), "model_v2");
  EXPECT_EQ(derive_name("7b"), "model_7b");
  for (const char* odd :
       {"", ".", "/", "..", "int", "$(touch x)", "*/ int x; /*", "\xff\xfe", "llmc", "---", "a__b",
        "very-long-name-very-long-name-very-long-name-very-long-name-very-long-name-very-long"}) {
    EXPECT_TRUE(check_name(derive_name(odd)).ok()) << odd << " -> " << derive_name(odd);
  }
}

TEST(DeriveName, IsOfTheFolderWhereTheFileIsCalledAsEveryModel) {
  EXPECT_EQ(derive_name("/models/SmolLM2-135M/onnx/model.onnx"), "smollm2_135m");
  EXPECT_EQ(derive_name("/models/SmolLM2/model.onnx"), "smollm2");
  EXPECT_EQ(derive_name("/models/SmolLM2/onnx"), "smollm2");
  EXPECT_EQ(derive_name("SmolLM2/onnx/"), "smollm2");
  EXPECT_EQ(derive_name("/onnx"), "model");
  EXPECT_EQ(derive_name("SmolLM2/./onnx/../onnx/model.onnx"), "smollm2");
  EXPECT_EQ(derive_name("/models/SmolLM2/onnx/model_q4f16.onnx"), "smollm2_q4f16");
  EXPECT_EQ(derive_name("/models/mnn/llm.onnx"), "mnn");
  EXPECT_EQ(derive_name("/models/t5/onnx/encoder_model.onnx"), "t5_encoder");
  EXPECT_EQ(derive_name("/models/t5/decoder_model_merged.onnx"), "t5_decoder_merged");
  EXPECT_EQ(derive_name("/models/t5/decoder_with_past_model_fp16.onnx"),
            "t5_decoder_with_past_fp16");
  EXPECT_EQ(derive_name("/models/t5/modeling.onnx"), "modeling");
  EXPECT_EQ(derive_name("/models/t5/my_model.onnx"), "my_model");
  EXPECT_EQ(derive_name("/model.onnx"), "model");
  EXPECT_EQ(derive_name("/onnx/model.onnx"), "model");
  const std::string here = std::filesystem::current_path().filename().string();
  EXPECT_EQ(derive_name("model.onnx"), derive_name("/models/" + here));
  const std::string cached = "/hub/models--HuggingFaceTB--SmolLM2-135M/snapshots/93efa2f097";
  EXPECT_EQ(derive_name(cached), "smollm2_135m");
  EXPECT_EQ(derive_name(cached + "/onnx/model.onnx"), "smollm2_135m");
  EXPECT_EQ(derive_name(cached + "/onnx"), "smollm2_135m");
}

TEST(CommentText, CannotLeaveItsComment) {
  EXPECT_EQ(comment_text("/layers.0/self_attn/q_proj/MatMul"), "/layers.0/self_attn/q_proj/MatMul");
  EXPECT_EQ(comment_text("*/ int x; /*"), "_/ int x_ /_");
  EXPECT_EQ(comment_text("f32[4*batch_size, 2*\"/\"]"), "f32[4*batch_size, 2_/]");
  EXPECT_EQ(comment_text("64 * n * m /* */ *"), "64 * n * m /_ _/ _");
  EXPECT_EQ(comment_text("4*/x 4/*x"), "4_/x 4/_x");
  EXPECT_EQ(comment_text("a\\\nb"), "a__b");
  EXPECT_EQ(comment_text("a?\?/\nb"), "a__/_b");
  EXPECT_EQ(comment_text("\x1b[2J\xff"), "_[2J_");
  EXPECT_EQ(comment_text("a\\"), "a_");
  EXPECT_EQ(comment_text("f32[\"floor((n)/5)\" - 1]"), "f32[floor((n)/5) - 1]");
  EXPECT_EQ(comment_text("aaaaaaaa", 4), "aaaa...");
  for (int c = 0; c < 256; ++c) {
    const std::string text = comment_text(std::string(3, static_cast<char>(c)));
    EXPECT_EQ(text.find_first_of("*\\?\n\r\"'`$;"), std::string::npos) << c;
    EXPECT_EQ(line_comment("f32[n, \\ ] x [2]^T -> silu(a) * b"),
              "f32[n, _ ] x [2]^T -> silu(a) * b");
    EXPECT_EQ(line_comment("*/ ?\?/ \n\xc3"), "*_ ?_/ __");
  }
}

TEST(FloatLiteral, ReadsBackToTheSameBits) {
  for (const float value : {0.0f, -0.0f, 1.0f, 1e-5f, 0.17677669f, 1e30f, -3.5f, 1.1754944e-38f,
                            1e-45f, 3.4028235e38f}) {
    const std::string text = float_literal(value);
    EXPECT_EQ(text.back(), 'f');
    EXPECT_TRUE(text.find_first_of(".e") != std::string::npos) << text;
    const float back = std::strtof(text.c_str(), nullptr);
    EXPECT_EQ(std::signbit(back), std::signbit(value));
    EXPECT_EQ(back, value) << text;
  }
}

TEST(ConstantName, IsCamelCase) {
  EXPECT_EQ(constant_name("gate_up"), "kGateUp");
  EXPECT_EQ(constant_name("x"), "kX");
  EXPECT_EQ(constant_name("layer_2_weights"), "kLayer2Weights");
}

}  // namespace
}  // namespace llmc::emit
