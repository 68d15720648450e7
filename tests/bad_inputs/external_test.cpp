// External data: locations, offsets and lengths that lie.

#include "tests/bad_inputs/bad_inputs.h"

namespace llmc::testing {
namespace {

namespace fs = std::filesystem;
using onnx::TensorProto;

class BadExternalData : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadExternalData, IsRefused) {
  expect_refused(GetParam());
}

/// Moves layer.q.weight (f32[24, 32], 3072 bytes) of block 1 into weights.bin, with these entries.
BadInput external(
    const std::string& name, std::vector<std::pair<std::string, std::string>> entries,
    const std::string& message,
    std::function<void(const fs::path&)> also = [](const fs::path&) {}) {
  const auto damage = [=](const fs::path& folder) {
    edit_block(folder, 1, [&](onnx::ModelProto& model) {
      auto& tensor = initializer(model, "layer.q.weight");
      write_bytes(folder / "weights.bin", tensor.raw_data());
      write_bytes(folder.parent_path() / "outside.bin", tensor.raw_data());
      tensor.clear_raw_data();
      tensor.set_data_location(TensorProto::EXTERNAL);
      for (const auto& [key, value] : entries) {
        auto& entry = *tensor.add_external_data();
        entry.set_key(key);
        entry.set_value(value);
      }
    });
    also(folder);
  };
  return {name, damage, ErrorKind::kBadInput, "block_1.onnx", message};
}

std::vector<BadInput> external_inputs() {
  const auto remove = [](const fs::path& folder) { fs::remove(folder / "weights.bin"); };
  return {
      external("NoLocation", {}, "without a location"),
      external("EmptyLocation", {{"location", ""}}, "without a location"),
      external("Missing", {{"location", "weights.bin"}}, "cannot open", remove),
      external("ParentFolder", {{"location", "../outside.bin"}}, "leads outside"),
      external("HiddenParent", {{"location", "sub/../../outside.bin"}}, "leads outside"),
      external("Absolute", {{"location", "/etc/passwd"}}, "absolute path"),
      external("Folder", {{"location", "."}}, ""),
      external("NulByte", {{"location", std::string("weights.bin\0x", 13)}}, "not a file name"),
      external("LinkOutside", {{"location", "link.bin"}}, "symbolic link",
               [](const fs::path& folder) {
                 fs::create_symlink("../outside.bin", folder / "link.bin");
               }),
      external("FolderLinkOutside", {{"location", "up/outside.bin"}}, "symbolic link",
               [](const fs::path& folder) { fs::create_symlink("..", folder / "up"); }),
      external("PastTheEnd", {{"location", "weights.bin"}, {"offset", "1"}, {"length", "3072"}},
               "past the end"),
      external("OffsetPastTheEnd", {{"location", "weights.bin"}, {"offset", "999999"}},
               "past the end"),
      external("OffsetOverflows", {{"location", "weights.bin"}, {"offset", "18446744073709551615"}},
               "past the end"),
      external("OffsetTooLarge", {{"location", "weights.bin"}, {"offset", "18446744073709551616"}},
               "not a number"),
      external("OffsetNegative", {{"location", "weights.bin"}, {"offset", "-1"}}, "not a number"),
      external("OffsetText", {{"location", "weights.bin"}, {"offset", "0x10"}}, "not a number"),
      external("LengthTooShort", {{"location", "weights.bin"}, {"length", "3071"}},
               "has length 3071"),
      external("LengthTooLong", {{"location", "weights.bin"}, {"length", "3073"}},
               "has length 3073"),
      external("LengthEmpty", {{"location", "weights.bin"}, {"length", ""}}, "not a number"),
      external("Truncated", {{"location", "weights.bin"}}, "past the end",
               [](const fs::path& folder) { fs::resize_file(folder / "weights.bin", 3071); }),
      external("EmptyFile", {{"location", "weights.bin"}}, "past the end",
               [](const fs::path& folder) { write_bytes(folder / "weights.bin", ""); }),
  };
}

INSTANTIATE_TEST_SUITE_P(All, BadExternalData, ::testing::ValuesIn(external_inputs()),
                         [](const auto& info) { return info.param.name; });

// The same set-up with entries that are right is taken: the cases above fail for their own reason.
TEST(GoodExternalData, IsTaken) {
  const TemporaryFolder folder;
  const fs::path model = folder.path() / "model";
  fs::create_directory(model);
  small_model().write(model);
  external("", {{"location", "weights.bin"}, {"offset", "0"}, {"length", "3072"}}, "")
      .damage(model);
  EXPECT_TRUE(importer::import_model(model).ok());
}

}  // namespace
}  // namespace llmc::testing
