#include "compiler/support/atomic_output.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "compiler/support/file.h"
#include "tests/support/signalled_child.h"
#include "tests/support/temporary_folder.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

Status anything(const fs::path&) {
  return ok_status();
}

Status unless(bool foreign) {
  if (!foreign) return ok_status();
  return Diagnostic{.kind = ErrorKind::kBadInput, .message = "a thesis is there"};
}

/// Writes a bundle of several files that all contain `version`. Returns false if a write fails.
bool write_bundle(const fs::path& folder, const std::string& version) {
  std::error_code error;
  fs::create_directories(folder / "src", error);
  bool ok = !error;
  for (int i = 0; ok && i < 5; ++i)
    ok = write_file(folder / "src" / ("file" + std::to_string(i)), version).ok();
  return ok && write_file(folder / "weights", version + std::string(20'000, '.')).ok();
}

/// Returns the version that all files of a bundle contain; "mixed" if they differ or one is
/// missing.
std::string version_of(const fs::path& folder) {
  const auto first = read_file(folder / "src" / "file0");
  if (!first.ok()) return "mixed";
  for (int i = 1; i < 5; ++i) {
    const auto next = read_file(folder / "src" / ("file" + std::to_string(i)));
    if (!next.ok() || *next != *first) return "mixed";
  }
  const auto weights = read_file(folder / "weights");
  return weights.ok() && *weights == *first + std::string(20'000, '.') ? *first : "mixed";
}

TEST(AtomicDirectory, LeavesNoParentFoldersWithoutACommit) {
  const testing::TemporaryFolder folder;
  fs::create_directories(folder.path() / "mine");
  {
    auto output = AtomicDirectory::create(folder.path() / "mine/made/too/bundle", anything);
    ASSERT_TRUE(output.ok());
    ASSERT_TRUE(write_bundle(output->path(), "1"));
  }
  EXPECT_TRUE(fs::is_empty(folder.path() / "mine"));
}

TEST(AtomicDirectories, AppearTogetherOrNotAtAll) {
  const testing::TemporaryFolder folder;
  const fs::path targets[] = {folder.path() / "made/a", folder.path() / "made/b"};
  {
    auto output = AtomicDirectories::create(targets, anything);
    ASSERT_TRUE(output.ok());
    for (std::size_t i = 0; i < 2; ++i) ASSERT_TRUE(write_bundle(output->path(i), "1"));
    EXPECT_FALSE(fs::exists(targets[0]));
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
  {
    auto output = AtomicDirectories::create(targets, anything);
    ASSERT_TRUE(output.ok());
    for (std::size_t i = 0; i < 2; ++i) ASSERT_TRUE(write_bundle(output->path(i), "2"));
    ASSERT_TRUE(output->commit().ok());
  }
  EXPECT_EQ(version_of(targets[0]), "2");
  EXPECT_EQ(version_of(targets[1]), "2");
  const fs::path refused[] = {folder.path() / "made/c", folder.path() / "made/b"};
  EXPECT_FALSE(
      AtomicDirectories::create(refused, [](const fs::path&) { return unless(true); }).ok());
  EXPECT_FALSE(fs::exists(refused[0]));
  EXPECT_EQ(version_of(targets[1]), "2");
}

TEST(AtomicDirectory, AppearsOnCommit) {
  const testing::TemporaryFolder folder;
  const auto target = folder.path() / "deep" / "bundle";
  auto output = AtomicDirectory::create(target, anything);
  ASSERT_TRUE(output.ok()) << format(output.error().first());
  EXPECT_EQ(output->path().parent_path(), target.parent_path());
  ASSERT_TRUE(write_bundle(output->path(), "one"));
  EXPECT_FALSE(fs::exists(target));
  ASSERT_TRUE(output->commit().ok());
  EXPECT_EQ(version_of(target), "one");
  struct stat info{};
  ASSERT_EQ(::stat(target.c_str(), &info), 0);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(info.st_mode & 0777, 0777 & ~mask);
}

TEST(AtomicDirectory, ReplacesTheOldOne) {
  const testing::TemporaryFolder folder;
  const auto target = folder.path() / "bundle";
  for (const auto* version : {"one", "two", "three"}) {
    auto output = AtomicDirectory::create(target, anything);
    ASSERT_TRUE(output.ok());
    ASSERT_TRUE(write_bundle(output->path(), version));
    ASSERT_TRUE(output->commit().ok());
    EXPECT_EQ(version_of(target), version);
  }
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(AtomicDirectory, WithoutCommitNothingIsLeft) {
  const testing::TemporaryFolder folder;
  const auto target = folder.path() / "bundle";
  {
    auto output = AtomicDirectory::create(target, anything);
    ASSERT_TRUE(output.ok());
    ASSERT_TRUE(write_bundle(output->path(), "one"));
    AtomicDirectory moved = std::move(*output);
    EXPECT_TRUE(fs::exists(moved.path()));
  }
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(AtomicDirectory, ForeignFoldersAreNotReplaced) {
  const testing::TemporaryFolder folder;
  const auto target = folder.path() / "home";
  fs::create_directory(target);
  // An empty folder may be replaced, whoever made it.
  EXPECT_TRUE(AtomicDirectory::create(target, nullptr).ok());
  ASSERT_TRUE(write_file(target / "thesis.tex", std::string_view("x")).ok());
  const auto is_bundle = [](const fs::path& path) {
    return unless(!fs::exists(path / "plan.json"));
  };
  const auto refused = AtomicDirectory::create(target, is_bundle);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().first().kind, ErrorKind::kBadInput);
  EXPECT_EQ(refused.error().first().message, "a thesis is there");
  EXPECT_EQ(refused.error().first().file, target.string());
  EXPECT_FALSE(AtomicDirectory::create(target, nullptr).ok());
  EXPECT_FALSE(AtomicDirectory::create(target / "thesis.tex", anything).ok());
  EXPECT_FALSE(AtomicDirectory::create(target / "thesis.tex" / "below", anything).ok());
  EXPECT_FALSE(AtomicDirectory::create("/", anything).ok());
  EXPECT_TRUE(fs::exists(target / "thesis.tex"));
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(AtomicDirectory, WhatCameMeanwhileIsNotReplaced) {
  const testing::TemporaryFolder folder;
  const auto target = folder.path() / "bundle";
  const auto is_bundle = [](const fs::path& path) {
    return unless(fs::exists(path / "thesis.tex"));
  };
  for (const bool was_there : {false, true}) {
    if (was_there) {
      fs::remove_all(target);
      ASSERT_TRUE(write_bundle(target, "old"));
    }
    auto output = AtomicDirectory::create(target, is_bundle);
    ASSERT_TRUE(output.ok());
    ASSERT_TRUE(write_bundle(output->path(), "new"));
    fs::create_directories(target);
    ASSERT_TRUE(write_file(target / "thesis.tex", std::string_view("x")).ok());
    const Status refused = output->commit();
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.error().first().message, HasSubstr("has other contents"));
    EXPECT_TRUE(fs::exists(target / "thesis.tex"));
    EXPECT_EQ(fs::exists(target / "weights"), was_there);
    EXPECT_EQ(version_of(output->path()), "new");
  }
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(AtomicDirectory, AFileOrLinkThatCameMeanwhileIsNotReplaced) {
  const testing::TemporaryFolder folder;
  for (const bool link : {false, true}) {
    const auto target = folder.path() / (link ? "link" : "file");
    auto output = AtomicDirectory::create(target, anything);
    ASSERT_TRUE(output.ok());
    ASSERT_TRUE(write_bundle(output->path(), "new"));
    if (link) {
      fs::create_symlink(folder.path() / "file", target);
    } else {
      ASSERT_TRUE(write_file(target, std::string_view("mine")).ok());
    }
    EXPECT_FALSE(output->commit().ok());
    EXPECT_EQ(fs::is_symlink(target), link);
    EXPECT_EQ(*read_file(target), "mine");
  }
  EXPECT_EQ(folder.entries(), 2u);
}

TEST(AtomicDirectory, TheCurrentFolderStays) {
  const testing::TemporaryFolder folder;
  const auto before = fs::current_path();
  fs::create_directories(folder.path() / "here" / "below");
  for (const char* current : {"here", "here/below"}) {
    fs::current_path(folder.path() / current);
    const auto refused = AtomicDirectory::create(folder.path() / "here", anything);
    const bool dot = AtomicDirectory::create(".", anything).ok();
    const bool below = AtomicDirectory::create("bundle", anything).ok();
    fs::current_path(before);
    ASSERT_FALSE(refused.ok()) << current;
    EXPECT_THAT(refused.error().first().message, HasSubstr("current folder"));
    EXPECT_FALSE(dot);
    EXPECT_TRUE(below);
  }
}

TEST(AtomicDirectory, WhatKilledProcessesLeftGoesForEveryTarget) {
  const testing::TemporaryFolder folder;
  auto living = AtomicDirectory::create(folder.path() / "a", anything);
  ASSERT_TRUE(living.ok());
  for (const char* name : {".b.llmc-abc123", ".c.d.llmc-000000", ".unfinished", ".b.llmc-abc12",
                           ".b.llmc-ABC123", "b.llmc-abc123"}) {
    ASSERT_TRUE(write_bundle(folder.path() / name, "old"));
  }
  remove_stale_directories(folder.path());
  EXPECT_FALSE(fs::exists(folder.path() / ".b.llmc-abc123"));
  EXPECT_FALSE(fs::exists(folder.path() / ".c.d.llmc-000000"));
  EXPECT_TRUE(fs::exists(living->path()));
  EXPECT_EQ(folder.entries(), 5u) << "what is not ours stays";
}

TEST(AtomicDirectory, FollowsALinkToAFolder) {
  const testing::TemporaryFolder folder;
  fs::create_directory(folder.path() / "real");
  fs::create_symlink("real", folder.path() / "link");
  auto output = AtomicDirectory::create(folder.path() / "link" / "", anything);
  ASSERT_TRUE(output.ok());
  ASSERT_TRUE(write_bundle(output->path(), "one"));
  ASSERT_TRUE(output->commit().ok());
  EXPECT_TRUE(fs::is_symlink(folder.path() / "link"));
  EXPECT_EQ(version_of(folder.path() / "real"), "one");
}

TEST(AtomicDirectory, AnUnwritableParentIsAnError) {
  if (::geteuid() == 0) {
    // Root can write to any other folder.
    EXPECT_FALSE(AtomicDirectory::create("/proc/bundle", anything).ok());
    return;
  }
  const testing::TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_FALSE(AtomicDirectory::create(folder.path() / "bundle", anything).ok());
  fs::permissions(folder.path(), fs::perms::owner_all);
}

TEST(AtomicDirectory, TwoWritersDoNotDisturbEachOther) {
  const testing::TemporaryFolder folder;
  const auto target = folder.path() / "bundle";
  auto first = AtomicDirectory::create(target, anything);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(write_bundle(first->path(), "first"));
  auto second = AtomicDirectory::create(target, anything);  // must not treat the first one as stale
  ASSERT_TRUE(second.ok());
  ASSERT_TRUE(write_bundle(second->path(), "second"));
  ASSERT_TRUE(first->commit().ok());
  EXPECT_EQ(version_of(target), "first");
  ASSERT_TRUE(second->commit().ok());
  EXPECT_EQ(version_of(target), "second");
  EXPECT_EQ(folder.entries(), 1u);
}

/// Replaces the bundle repeatedly until the process is killed.
[[noreturn]] void write_for_ever(const fs::path& target) {
  for (int i = 0;; ++i) {
    auto output = AtomicDirectory::create(target, anything);
    if (!output.ok() || !write_bundle(output->path(), "v" + std::to_string(i)) ||
        !output->commit().ok())
      ::_exit(1);
  }
}

TEST(AtomicDirectory, KillingAtAnyMomentLeavesAWholeBundle) {
  const testing::TemporaryFolder folder;
  const auto target = folder.path() / "bundle";
  std::mt19937 random(1);
  std::uniform_int_distribution<int> wait_us(0, 20'000);
  for (int round = 0; round < 60; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) write_for_ever(target);
    ::usleep(static_cast<useconds_t>(wait_us(random)));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer failed by itself";
    if (fs::exists(target)) ASSERT_NE(version_of(target), "mixed") << "round " << round;
  }
  // The next writer removes the files that the killed writers left.
  auto output = AtomicDirectory::create(target, anything);
  ASSERT_TRUE(output.ok());
  ASSERT_TRUE(write_bundle(output->path(), "last"));
  ASSERT_TRUE(output->commit().ok());
  EXPECT_EQ(version_of(target), "last");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(AtomicDirectory, AnInterruptRemovesWhatWasWritten) {
  const testing::TemporaryFolder folder;
  fs::create_directories(folder.path() / "mine");
  // The two folders share a parent that the first one made.
  const fs::path targets[] = {folder.path() / "mine/made/a", folder.path() / "mine/made/too/b"};
  testing::end_child_by_signal(
      SIGINT,
      [&](const auto& ready) {
        auto output = AtomicDirectories::create(targets, anything);
        if (!output.ok() || !write_bundle(output->path(0), "one") ||
            !write_bundle(output->path(1), "one"))
          ::_exit(1);
        ready();
        ::pause();
        ::_exit(1);
      },
      [&] { EXPECT_TRUE(fs::exists(folder.path() / "mine/made/too")); });
  EXPECT_TRUE(fs::is_empty(folder.path() / "mine"));
  EXPECT_EQ(folder.entries(), 1u) << "what was there before stays";
}

TEST(AtomicDirectory, AnInterruptRemovesWhatOtherThreadsStillWrite) {
  for (int round = 0; round < 2; ++round) {
    const testing::TemporaryFolder folder;
    testing::end_child_by_signal(SIGTERM, [&](const auto& ready) {
      auto output = AtomicDirectory::create(folder.path() / "bundle", anything);
      if (!output.ok()) ::_exit(1);
      // Signals are delivered to the main thread, so that these threads still write during its
      // handler.
      const auto write = [&](char name) {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, nullptr);
        for (int i = 0; i < 3000; ++i) {
          if (i == 100) ready();
          (void)write_file(output->path() / (name + std::to_string(i)), std::string_view("x"));
        }
      };
      const std::thread writers[] = {std::thread(write, 'a'), std::thread(write, 'b'),
                                     std::thread(write, 'c')};
      for (;;) ::pause();
    });
    EXPECT_EQ(folder.entries(), 0u) << "round " << round;
  }
}

TEST(AtomicDirectory, SignalsAtAnyMomentLeaveAWholeBundle) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const testing::TemporaryFolder folder;
    const auto target = folder.path() / "bundle";
    std::mt19937 random(static_cast<unsigned>(number));
    std::uniform_int_distribution<int> wait_us(0, 20'000);
    for (int round = 0; round < 20; ++round) {
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        install_signal_cleanup();
        write_for_ever(target);
      }
      ::usleep(static_cast<useconds_t>(wait_us(random)));
      ASSERT_EQ(::kill(child, number), 0);
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFSIGNALED(status));
      EXPECT_EQ(WTERMSIG(status), number);
      if (fs::exists(target)) ASSERT_NE(version_of(target), "mixed");
    }
    for (const auto& entry : fs::directory_iterator(folder.path()))
      EXPECT_EQ(entry.path(), target) << "left by signal " << number;
  }
}

}  // namespace
}  // namespace llmc
