#include "compiler/driver/bundle_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/file.h"
#include "tests/support/temporary_folder.h"

namespace llmc::driver {
namespace {

void write(const std::filesystem::path& path, std::string_view text = "") {
  std::filesystem::create_directories(path.parent_path());
  ASSERT_TRUE(write_file(path, text).ok());
}

constexpr std::string_view kPlan =
    R"({"target":"avx2","options":{"weights":"embed"},"bytes":{"weights":1,"weights_per_token":1}})";

void write_bundle(const std::filesystem::path& folder) {
  write(folder / "tiny.h");
  write(folder / "libtiny.a", "!<arch>\n");
  write(folder / "src/model.cpp");
  write(folder / "src/llmc/kernels/norm.h");
  const auto files = write_plan_file(folder, "tiny", std::string(kPlan));
  ASSERT_TRUE(files.ok());
  EXPECT_EQ(*files, (std::vector<std::string>{"libtiny.a", "src/llmc/kernels/norm.h",
                                              "src/model.cpp", "tiny.h", "tiny.plan.json"}));
}

bool may_replace(const std::filesystem::path& folder) {
  return replaces_bundle("a_model_elsewhere")(folder).ok();
}

TEST(BundleName, NeedsPlanHeaderAndLibrary) {
  testing::TemporaryFolder folder;
  EXPECT_FALSE(bundle_name(folder.path()).has_value());
  EXPECT_FALSE(bundle_name(folder.path() / "missing").has_value());
  write_bundle(folder.path());
  EXPECT_EQ(bundle_name(folder.path()), "tiny");
  std::filesystem::remove(folder.path() / "libtiny.a");
  EXPECT_FALSE(bundle_name(folder.path()).has_value());
}

TEST(BundleName, TwoPlansAreNone) {
  testing::TemporaryFolder folder;
  write_bundle(folder.path());
  write(folder.path() / "other.plan.json");
  EXPECT_FALSE(bundle_name(folder.path()).has_value());
}

TEST(ReplacesBundle, RefusesFoldersWithOtherFiles) {
  testing::TemporaryFolder folder;
  write_bundle(folder.path());
  EXPECT_TRUE(may_replace(folder.path()));
  write(folder.path() / "thesis.tex");
  EXPECT_FALSE(may_replace(folder.path()));
}

TEST(ReplacesBundle, WithTheKernelsOfItsRuns) {
  testing::TemporaryFolder folder;
  write_bundle(folder.path());
  write(folder.path() / "tiny.opencl.bin");
  EXPECT_TRUE(may_replace(folder.path()));
  write(folder.path() / "src/tiny.opencl.bin");
  EXPECT_FALSE(may_replace(folder.path()));
}

TEST(ReplacesBundle, SearchesSubfolders) {
  for (const char* mine :
       {"src/my_notes.cpp", "src/llmc/mine.h", "src/llmc/kernels/deep/er.txt", ".git/config"}) {
    testing::TemporaryFolder folder;
    write_bundle(folder.path());
    ASSERT_TRUE(may_replace(folder.path()));
    write(folder.path() / mine);
    EXPECT_FALSE(may_replace(folder.path())) << mine;
  }
}

TEST(ReplacesBundle, RefusesUnlistedFoldersAndLinks) {
  testing::TemporaryFolder folder, outside;
  write_bundle(folder.path());
  std::filesystem::create_directory(folder.path() / "src/new");
  EXPECT_FALSE(may_replace(folder.path()));
  std::filesystem::remove(folder.path() / "src/new");
  EXPECT_TRUE(may_replace(folder.path()));
  std::filesystem::rename(folder.path() / "src/model.cpp", outside.path() / "moved.cpp");
  EXPECT_TRUE(may_replace(folder.path())) << "nothing is lost by a file that is gone";
  std::filesystem::create_symlink(outside.path() / "moved.cpp", folder.path() / "src/model.cpp");
  EXPECT_FALSE(may_replace(folder.path()));
}

TEST(ReplacesBundle, RefusesBundlesWithoutFileList) {
  testing::TemporaryFolder folder;
  write_bundle(folder.path());
  for (const std::string_view plan :
       {"", "{", "[]", "{}", R"({"files":3})", R"({"files":[1]})", R"({"files":{"a":"b"}})"}) {
    write(folder.path() / "tiny.plan.json", plan);
    EXPECT_FALSE(may_replace(folder.path())) << plan;
  }
}

TEST(ReplacesBundle, NamesWhatIsNotTheBundles) {
  testing::TemporaryFolder folder, model;
  write_bundle(folder.path());
  const auto allows = replaces_bundle(model.path());
  EXPECT_TRUE(allows(folder.path()).ok());
  write(folder.path() / "build/tiny_model.o");
  const Status refused = allows(folder.path());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().first().kind, ErrorKind::kBadInput);
  EXPECT_THAT(refused.error().first().message, ::testing::HasSubstr("something else: build"));
}

TEST(ReplacesBundle, NeverAdvisesToRemoveTheModel) {
  testing::TemporaryFolder folder;
  write(folder.path() / "tiny/model.onnx");
  const std::pair<const char*, const char*> kModels[] = {{"tiny", "is the model itself"},
                                                         {"tiny/model.onnx", "holds the model"}};
  for (const auto& [model, words] : kModels) {
    const Status refused = replaces_bundle(folder.path() / model)(folder.path() / "tiny");
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().first().message, ::testing::HasSubstr(words));
    EXPECT_THAT(refused.error().first().hint, ::testing::Not(::testing::HasSubstr("remove")));
  }
}

TEST(WriteBuildScript, IsExecutableForItsReaders) {
  testing::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "src");
  ASSERT_TRUE(write_build_script(folder.path(), "#!/bin/sh\n").ok());
  const auto bits =
      static_cast<unsigned>(std::filesystem::status(folder.path() / "src/build.sh").permissions());
  EXPECT_EQ(bits & 0111u, (bits & 0444u) >> 2);
  EXPECT_NE(bits & 0100u, 0u);
}

TEST(ReadBundle, RefusesDamagedPlans) {
  testing::TemporaryFolder folder;
  write_bundle(folder.path());
  ASSERT_TRUE(read_bundle(folder.path()).ok());
  EXPECT_EQ(read_bundle(folder.path())->target, "avx2");
  for (
      const std::string_view plan :
      {"", "{", "[]", "{\"target\": 3}", R"({"target":"avx2","options":{"weights":"embed"}})",
       R"({"target":"avx2","options":{"weights":"embed"},"bytes":{"weights":1,"weights_per_token":1},
            "tokenizer":{"file":"../../etc/passwd","kind":"x"}})"}) {
    write(folder.path() / "tiny.plan.json", plan);
    const auto facts = read_bundle(folder.path());
    ASSERT_FALSE(facts.ok()) << plan;
    EXPECT_EQ(facts.error().first().kind, ErrorKind::kBadInput);
  }
}

TEST(ReadBundle, RefusesArchivesThatAreCutShort) {
  const std::string header = "a.o/            0           0     0     644     ";
  const std::string member = header + "3         `\nabc\n";
  const auto accepts = [](const std::string& archive) {
    testing::TemporaryFolder folder;
    write_bundle(folder.path());
    write(folder.path() / "libtiny.a", archive);
    return read_bundle(folder.path()).ok();
  };
  EXPECT_TRUE(accepts("!<arch>\n" + member));
  EXPECT_TRUE(accepts("!<arch>\n" + member + member));
  EXPECT_FALSE(accepts("!<arch>\n" + member + member.substr(0, 30)));
  EXPECT_FALSE(accepts("!<arch>\n" + member + member.substr(0, member.size() - 3)));
  EXPECT_FALSE(accepts("!<arch>\n" + header + "9999999999`\nabc\n"));
  EXPECT_FALSE(accepts("!<arch>\n" + header + "x         `\nabc\n"));
  EXPECT_FALSE(accepts("!<ar"));
  EXPECT_FALSE(accepts(""));
}

TEST(ReadBundle, AFunctionIsNoDamagedModel) {
  testing::TemporaryFolder folder;
  write_bundle(folder.path());
  write(folder.path() / "tiny.plan.json", R"({"kind":"function","target":"avx2"})");
  const auto facts = read_bundle(folder.path());
  ASSERT_FALSE(facts.ok());
  EXPECT_EQ(facts.error().first().kind, ErrorKind::kUnsupported);
}

TEST(LooksLikeBundle, AlsoWhenItIsDamagedButNotWhenItIsAModel) {
  testing::TemporaryFolder folder;
  EXPECT_FALSE(looks_like_bundle(folder.path()));
  EXPECT_FALSE(looks_like_bundle(folder.path() / "missing"));
  write(folder.path() / "tiny.plan.json", "damaged");
  EXPECT_TRUE(looks_like_bundle(folder.path()));
  write(folder.path() / "block_0.onnx");
  EXPECT_FALSE(looks_like_bundle(folder.path()));
}

}  // namespace
}  // namespace llmc::driver
