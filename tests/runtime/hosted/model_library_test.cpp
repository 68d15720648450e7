#include "runtime/hosted/model_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/runtime/core/fake_model.h"
#include "tests/runtime/hosted/shared_files.h"

namespace llmc::hosted {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// A shared library with the fake model as `tiny`, and the runtime core, built once.
class ModelLibraryTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = fs::temp_directory_path() / ("llmc-library-" + std::to_string(getpid()));
    fs::create_directories(folder_);
    std::ofstream(folder_ / "tiny.cpp") << R"(
#include "tests/runtime/core/fake_model.h"
extern "C" {
extern const llmc_model tiny_model;
const llmc_model tiny_model = llmc::fake::model();
llmc_status tiny_init(llmc_session** s, void* arena, size_t bytes, const llmc_config* c) {
  return llmc_session_init(&tiny_model, arena, bytes, c, s);
}
extern const llmc_model other_model;
const llmc_model other_model = [] { llmc_model m = llmc::fake::model(); ++m.abi; return m; }();
llmc_status other_init(llmc_session** s, void* arena, size_t bytes, const llmc_config* c) {
  return llmc_session_init(&other_model, arena, bytes, c, s);
}
})";
    const std::string source = LLMC_SOURCE_DIR;
    const std::string command =
        "clang++-19 -std=c++20 -fPIC -shared -Wl,-Bsymbolic -ffp-contract=off "
        "-I'" +
        source + "' -I'" + source + "/runtime/include' '" + (folder_ / "tiny.cpp").string() +
        "' '" + source + "'/runtime/core/*.cpp -o '" + library().string() + "'";
    ASSERT_EQ(std::system(command.c_str()), 0);
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }
  static fs::path library() { return folder_ / "libtiny.so"; }
  static inline fs::path folder_;
};

TEST_F(ModelLibraryTest, SessionsOfALoadedModel) {
  auto opened = ModelLibrary::open(library(), "tiny");
  ASSERT_TRUE(opened.ok()) << opened.failure().message;
  const ModelLibrary& loaded = **opened;
  EXPECT_EQ(loaded.model().vocab, fake::kVocab);
  const auto tokens = fake::prompt(20);
  const fake::Session here;
  ASSERT_EQ(llmc_prefill(here, tokens.data(), tokens.size(), nullptr), LLMC_OK);
  auto session = loaded.start(fake::config());
  ASSERT_TRUE(session.ok()) << session.failure().message;
  const LibraryApi& api = (*session)->api();
  llmc_session* const handle = (*session)->handle();
  ASSERT_EQ(api.prefill(handle, tokens.data(), tokens.size(), nullptr), LLMC_OK);
  EXPECT_EQ(fake::hash_logits(api.logits(handle)), fake::hash_logits(llmc_logits(here)));
  EXPECT_EQ(api.position(handle), 20u);
  EXPECT_EQ(api.append(handle, -5), LLMC_ERROR_TOKEN);
  EXPECT_THAT((*session)->last_message(), HasSubstr("token -5"));
  auto second = loaded.start(fake::config());
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(api.position((*second)->handle()), 0u);
}

TEST_F(ModelLibraryTest, WhatTheLibraryRefusesIsReported) {
  auto opened = ModelLibrary::open(library(), "tiny");
  ASSERT_TRUE(opened.ok());
  llmc_config config = fake::config();
  config.threads = 99;
  auto refused = (*opened)->start(config);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().status, LLMC_ERROR_THREADS);
  EXPECT_THAT(refused.failure().message, HasSubstr("99 threads"));
}

TEST_F(ModelLibraryTest, LibrariesThatAreNone) {
  const auto failure = [&](const fs::path& path, std::string_view name) {
    auto opened = ModelLibrary::open(path, name);
    EXPECT_FALSE(opened.ok());
    return opened.ok() ? Failure{} : opened.failure();
  };
  EXPECT_EQ(failure(folder_ / "none.so", "tiny").status, LLMC_ERROR_FILE);
  EXPECT_THAT(failure(folder_ / "none.so", "tiny").message, HasSubstr("none.so"));
  EXPECT_EQ(failure(folder_ / "tiny.cpp", "tiny").status, LLMC_ERROR_FILE);
  EXPECT_EQ(failure(library(), "big").status, LLMC_ERROR_FORMAT);
  EXPECT_THAT(failure(library(), "big").message, HasSubstr("lacks big_model, big_init"));
  EXPECT_EQ(failure(library(), "other").status, LLMC_ERROR_VERSION);
  for (const std::string_view name : {"", "1x", "a-b", "$(touch x)", "*/ int x; /*"})
    EXPECT_EQ(failure(library(), name).status, LLMC_ERROR_ARGUMENT);
}

}  // namespace
}  // namespace llmc::hosted
