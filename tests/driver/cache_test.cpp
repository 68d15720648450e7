#include "compiler/driver/cache.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "compiler/driver/native.h"
#include "compiler/support/file.h"
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

TEST(CacheFolder, FollowsTheBaseDirectoryRules) {
  const char* xdg = getenv("XDG_CACHE_HOME");
  const std::string saved = xdg != nullptr ? xdg : "";
  setenv("XDG_CACHE_HOME", "/somewhere", 1);
  EXPECT_EQ(cache_folder(), "/somewhere/llmc");
  setenv("XDG_CACHE_HOME", "relative", 1);  // the specification says to ignore it
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
