#include "compiler/support/identifier.h"

#include <gtest/gtest.h>

namespace llmc {
namespace {

TEST(ResemblingIdentifier, HasTheWordsOfTheText) {
  EXPECT_EQ(resembling_identifier("/layers.0/Q_proj/MatMul"), "layers_0_q_proj_matmul");
  EXPECT_EQ(resembling_identifier("4*batch size!"), "batch_size");
  EXPECT_EQ(resembling_identifier("\xff 12"), "");
}

TEST(ResemblingIdentifier, EndsAtAWord) {
  const std::string words = "encoder/layer.0/attention/self/Transpose_output_0";
  ASSERT_EQ(words.size(), 49u);
  EXPECT_EQ(resembling_identifier(words), "encoder_layer_0_attention_self_transpose_output");
  EXPECT_EQ(resembling_identifier(words.substr(0, 48)),
            "encoder_layer_0_attention_self_transpose_output");
  EXPECT_EQ(resembling_identifier(words.substr(1, 48)),
            "ncoder_layer_0_attention_self_transpose_output_0");
  EXPECT_EQ(resembling_identifier(std::string(60, 'a')), std::string(48, 'a'));
}

}  // namespace
}  // namespace llmc
