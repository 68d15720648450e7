#include "compiler/support/temporary_directory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/support/file.h"
#include "tests/support/signalled_child.h"
#include "tests/support/temporary_folder.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

/// Sets TMPDIR to a separate folder for the test.
class Temporary : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const before = ::getenv("TMPDIR");
    if (before) before_ = before;
    ::setenv("TMPDIR", folder_.path().c_str(), 1);
  }
  void TearDown() override {
    if (before_.empty()) {
      ::unsetenv("TMPDIR");
    } else {
      ::setenv("TMPDIR", before_.c_str(), 1);
    }
  }
  testing::TemporaryFolder folder_;
  std::string before_;
};

TEST_F(Temporary, GoesWithTheObject) {
  {
    auto made = TemporaryDirectory::create();
    ASSERT_TRUE(made.ok());
    ASSERT_TRUE(write_file(made->path() / "model.so", std::string_view("x")).ok());
    EXPECT_EQ(fs::status(made->path()).permissions(), fs::perms::owner_all);
    const TemporaryDirectory moved = *std::move(made);
    EXPECT_TRUE(fs::exists(moved.path() / "model.so"));
    EXPECT_EQ(folder_.entries(), 1u);
  }
  EXPECT_EQ(folder_.entries(), 0u);
}

TEST_F(Temporary, AFolderThatIsNotThereIsAnError) {
  ::setenv("TMPDIR", (folder_.path() / "missing").c_str(), 1);
  EXPECT_FALSE(TemporaryDirectory::create().ok());
}

TEST_F(Temporary, ASignalRemovesIt) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    testing::end_child_by_signal(
        number,
        [](const auto& ready) {
          auto made = TemporaryDirectory::create();
          if (!made.ok() || !write_file(made->path() / "model.so", std::string_view("x")).ok())
            ::_exit(1);
          ready();
          const TemporaryDirectory moved = *std::move(made);
          for (;;) ::pause();
        },
        [&] { EXPECT_EQ(folder_.entries(), 1u); });
    EXPECT_EQ(folder_.entries(), 0u) << number;
  }
}

}  // namespace
}  // namespace llmc
