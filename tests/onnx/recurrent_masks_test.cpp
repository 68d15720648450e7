// Masks of attention in decoders of one token per call, beside recurrent states.
#include <gtest/gtest.h>

#include "compiler/onnx/model.h"
#include "tests/onnx/imported.h"
#include "tests/support_onnx/tiny_recurrent.h"

namespace llmc {
namespace {

using Mask = testing::RecurrentForm::Mask;

TEST(RecurrentMasks, MustShowAllKeys) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "model.onnx";
  for (const Mask mask : {Mask::kNone, Mask::kOpen, Mask::kWindow, Mask::kBias}) {
    testing::tiny_recurrent({.ssm = false, .attention = true, .mask = mask}).save(path);
    const auto model = importer::import_model(path);
    ASSERT_EQ(model.ok(), mask == Mask::kNone || mask == Mask::kOpen)
        << static_cast<int>(mask) << (model.ok() ? "" : format(model.error().first()));
    if (model.ok()) continue;
    EXPECT_EQ(model.error().first().kind, ErrorKind::kUnsupported);
    EXPECT_NE(model.error().first().message.find("a window or a bias"), std::string::npos);
  }
}

}  // namespace
}  // namespace llmc
