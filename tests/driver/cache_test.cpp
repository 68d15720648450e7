#include "compiler/driver/cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <set>
#include <string>

#include "compiler/support/atomic_output.h"
#include "compiler/support/file.h"
#include "compiler/support/folder_lock.h"
#include "tests/support/temporary_folder.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;

void make_entry(const fs::path& path, std::size_t bytes, std::chrono::hours age) {
  fs::create_directories(path);
  ASSERT_TRUE(write_file(path / "data", std::string(bytes, 'x')).ok());
  fs::last_write_time(path, fs::file_time_type::clock::now() - age);
}

TEST(TrimCache, RemovesTheOldestFirstAndSparesTheNewEntry) {
  testing::TemporaryFolder folder;
  make_entry(folder.path() / "old", 100, std::chrono::hours(3));
  make_entry(folder.path() / "middle", 100, std::chrono::hours(2));
  make_entry(folder.path() / "new", 100, std::chrono::hours(1));
  make_entry(folder.path() / ".unfinished", 100, std::chrono::hours(9));
  trim_cache(folder.path(), 250, folder.path() / "new");
  EXPECT_FALSE(fs::exists(folder.path() / "old"));
  EXPECT_TRUE(fs::exists(folder.path() / "middle"));
  touch_entry(folder.path() / "middle");
  trim_cache(folder.path(), 0, folder.path() / "new");
  EXPECT_FALSE(fs::exists(folder.path() / "middle"));
  EXPECT_TRUE(fs::exists(folder.path() / "new"));
  EXPECT_TRUE(fs::exists(folder.path() / ".unfinished"));
}

TEST(TrimCache, RemovesWhatKilledProcessesLeftAndNothingInTheMaking) {
  testing::TemporaryFolder folder;
  make_entry(folder.path() / "new", 100, std::chrono::hours(1));
  make_entry(folder.path() / ".key.llmc-abc123", 100, std::chrono::hours(0));
  const auto living = AtomicDirectory::create(folder.path() / "other", nullptr);
  ASSERT_TRUE(living.ok());
  trim_cache(folder.path(), 1000, folder.path() / "new");
  EXPECT_FALSE(fs::exists(folder.path() / ".key.llmc-abc123"));
  EXPECT_TRUE(fs::exists(living->path()));
  EXPECT_TRUE(fs::exists(folder.path() / "new"));
}

TEST(TrimCache, SparesWhatIsInUse) {
  testing::TemporaryFolder folder;
  make_entry(folder.path() / "used", 100, std::chrono::hours(3));
  make_entry(folder.path() / "unused", 100, std::chrono::hours(2));
  {
    const auto lock = FolderLock::take(folder.path() / "used", FolderLock::Kind::kShared);
    ASSERT_TRUE(lock);
    EXPECT_TRUE(FolderLock::take(folder.path() / "used", FolderLock::Kind::kShared));
    trim_cache(folder.path(), 0, {});
    EXPECT_TRUE(fs::exists(folder.path() / "used"));
    EXPECT_FALSE(fs::exists(folder.path() / "unused"));
  }
  trim_cache(folder.path(), 0, {});
  EXPECT_FALSE(fs::exists(folder.path() / "used"));
}

/// Cache keys of a model, for different compilers that are installed at the same path in turn.
class CacheKey : public ::testing::Test {
 protected:
  void SetUp() override { unsetenv("LLMC_CC"); }
  void install(std::string_view content) {
    fs::remove(compiler_);
    ASSERT_TRUE(write_file(compiler_, content).ok());
    fs::permissions(compiler_, fs::perms::owner_all);
  }
  std::string key(const CompileOptions& options) {
    auto key = cache_key(importer::ImportedModel{}, options);
    EXPECT_TRUE(key.ok());
    return key.ok() ? *key : "";
  }
  testing::TemporaryFolder folder_;
  fs::path compiler_ = folder_.path() / "clang++";
};

TEST_F(CacheKey, HoldsTheCompilerThatWillBeRun) {
  install("#!/bin/sh\n");
  CompileOptions options;
  options.cc = compiler_;
  const std::string first = key(options);
  EXPECT_EQ(first.size(), 32u);
  EXPECT_EQ(key(options), first);
  const std::string other = key(CompileOptions{});
  EXPECT_NE(other, first);
  // The same compiler from the environment gives the same key.
  setenv("LLMC_CC", compiler_.c_str(), 1);
  EXPECT_EQ(key(CompileOptions{}), first);
  unsetenv("LLMC_CC");
  EXPECT_EQ(key(CompileOptions{}), other);
  install("#!/bin/sh\n# another version\n");
  EXPECT_NE(key(options), first) << "the compiler was replaced";
  options.cc = "/nowhere/clang++";
  EXPECT_FALSE(cache_key(importer::ImportedModel{}, options).ok());
}

TEST_F(CacheKey, HoldsTheTokenThatBeginsTheModelsOwnText) {
  install("#!/bin/sh\n");
  testing::TemporaryFolder folder;
  CompileOptions options;
  options.cc = compiler_;
  importer::ImportedModel model;
  model.path = folder.path();
  std::set<std::string> keys;
  for (const char* const id : {"1", "2"}) {
    ASSERT_TRUE(
        write_file(folder.path() / "config.json", fmt::format("{{\"bos_token_id\": {}}}", id))
            .ok());
    const auto key = cache_key(model, options);
    ASSERT_TRUE(key.ok());
    keys.insert(*key);
  }
  EXPECT_EQ(keys.size(), 2u);
}

TEST_F(CacheKey, HoldsTheOptions) {
  install("#!/bin/sh\n");
  CompileOptions options;
  options.cc = compiler_;
  const std::string first = key(options);
  const auto changed = [&](auto change) {
    CompileOptions other = options;
    change(other);
    return key(other);
  };
  EXPECT_NE(changed([](CompileOptions& o) { o.ctx = 64; }), first);
  EXPECT_NE(changed([](CompileOptions& o) { o.target = "generic"; }), first);
  EXPECT_NE(changed([](CompileOptions& o) { o.kv.keys = KvFormat::kF16; }), first);
  EXPECT_NE(changed([](CompileOptions& o) { o.name = "another"; }), first);
  EXPECT_NE(changed([](CompileOptions& o) { o.cflags = {"-O0"}; }), first);
  const auto calibrated = [&](bool special) {
    return changed([&](CompileOptions& o) {
      o.calibration.emplace().text = "<s>";
      o.calibration->parse_special = special;
    });
  };
  EXPECT_NE(calibrated(false), first);
  EXPECT_NE(calibrated(true), calibrated(false));
  // The key depends on the boundaries between flags, too.
  EXPECT_NE(changed([](CompileOptions& o) { o.cflags = {"-Da -Db"}; }),
            changed([](CompileOptions& o) { o.cflags = {"-Da", "-Db"}; }));
  EXPECT_NE(changed([](CompileOptions& o) { o.quant = ir::WeightFormat::kQ8; }), first);
  EXPECT_NE(changed([](CompileOptions& o) { o.quant = ir::WeightFormat::kQ4; }), first);
}

TEST_F(CacheKey, HoldsTheFilesThatItsKindOfTokenizerIsReadWith) {
  install("#!/bin/sh\n");
  CompileOptions options;
  options.cc = compiler_;
  importer::ImportedModel model;
  model.path = folder_.path() / "model";
  fs::create_directories(model.path);
  const auto with = [&](const char* name, std::string_view content) {
    EXPECT_TRUE(write_file(model.path / name, content).ok());
    const auto key = cache_key(model, options);
    EXPECT_TRUE(key.ok());
    return key.ok() ? *key : "";
  };
  const std::string text = with("tokenizer.txt", "430 1\n");
  EXPECT_EQ(with("added_tokens.json", "{}"), text) << "a tokenizer.txt stands alone";
  fs::remove(model.path / "tokenizer.txt");
  const std::string pieces = with("tokenizer.model", "x");
  EXPECT_NE(pieces, text);
  EXPECT_NE(with("added_tokens.json", "{\"<x>\": 1}"), pieces);
  EXPECT_EQ(with("tokenizer.model.json", "{}"), with("tokenizer.model.json", "[]"))
      << "only lists of tiktoken's have one";
}

TEST(Cacheable, IsWhatComesOutTheSameNextTime) {
  const auto cacheable = [](std::vector<std::string> flags) {
    CompileOptions options;
    options.cflags = std::move(flags);
    return is_cacheable(options);
  };
  EXPECT_TRUE(cacheable({}));
  EXPECT_TRUE(cacheable({"-O1", "-DX=1", "-march=haswell", "-Wall"}));
  EXPECT_FALSE(cacheable({"-O1", "--sysroot=/somewhere"}));
  EXPECT_FALSE(cacheable({"-include", "board.h"}));
  EXPECT_FALSE(cacheable({"-I/somewhere"}));
  EXPECT_FALSE(cacheable({"@file"}));
  EXPECT_FALSE(cacheable({"-Wp,-include,board.h"}));
  EXPECT_FALSE(cacheable({"-Wa,@file"}));
  EXPECT_FALSE(cacheable({"-march=native"}));
}

TEST(CacheFolder, FollowsTheBaseDirectoryRules) {
  const char* xdg = getenv("XDG_CACHE_HOME");
  const std::string saved = xdg != nullptr ? xdg : "";
  setenv("XDG_CACHE_HOME", "/somewhere", 1);
  EXPECT_EQ(cache_folder(), "/somewhere/llmc");
  setenv("XDG_CACHE_HOME", "relative", 1);  // the XDG specification says to ignore a relative path
  setenv("HOME", "/home/me", 1);
  EXPECT_EQ(cache_folder(), "/home/me/.cache/llmc");
  if (xdg != nullptr) {
    setenv("XDG_CACHE_HOME", saved.c_str(), 1);
  } else {
    unsetenv("XDG_CACHE_HOME");
  }
}

}  // namespace
}  // namespace llmc::driver
