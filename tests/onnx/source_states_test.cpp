// Keys and values of the source in encoder-decoders.
#include <gtest/gtest.h>

#include "compiler/onnx/model.h"
#include "tests/onnx/imported.h"
#include "tests/support_onnx/tiny_encoder_decoder.h"

namespace llmc {
namespace {

TEST(SourceStates, HaveTheSameLengthInAllLayers) {
  for (const bool twice : {false, true}) {
    const testing::TemporaryFolder folder;
    testing::write_tiny_encoder_decoder(folder.path(), {.twice = twice});
    const auto model = importer::import_model(folder.path());
    ASSERT_EQ(model.ok(), !twice) << (model.ok() ? "" : format(model.error().first()));
    if (model.ok()) continue;
    EXPECT_EQ(model.error().first().kind, ErrorKind::kUnsupported);
    EXPECT_NE(model.error().first().message.find("different lengths"), std::string::npos);
  }
}

TEST(SourceStates, MayHaveTheBatchSizeOfTheTokens) {
  const testing::TemporaryFolder folder;
  testing::write_tiny_encoder_decoder(folder.path(), {.batch_of_tokens = true});
  const auto model = importer::import_model(folder.path());
  EXPECT_TRUE(model.ok()) << format(model.error().first());
}

}  // namespace
}  // namespace llmc
