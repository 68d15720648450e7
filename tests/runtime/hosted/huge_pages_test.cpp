#include "runtime/hosted/huge_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "llmc/hosted.h"
#include "runtime/hosted/available_memory.h"
#include "runtime/hosted/mapped_weights.h"
#include "tests/runtime/core/fake_model.h"

namespace {

enum class Madvise { kAsKernel, kFails, kNoHugePages };
enum class Mremap { kAsKernel, kFails, kFailsAfterUnmapping };
std::atomic<Madvise> g_madvise{Madvise::kAsKernel};
std::atomic<Mremap> g_mremap{Mremap::kAsKernel};

}  // namespace

// Replace those of the C library in this program.
extern "C" int madvise(void* address, size_t bytes, int advice) noexcept {
  if (g_madvise == Madvise::kFails) {
    errno = EINVAL;
    return -1;
  }
  if (g_madvise == Madvise::kNoHugePages) advice = MADV_NOHUGEPAGE;
  return static_cast<int>(syscall(SYS_madvise, address, bytes, advice));
}

extern "C" void* mremap(void* from, size_t bytes, size_t new_bytes, int flags, ...) noexcept {
  va_list list;
  va_start(list, flags);
  void* const to = va_arg(list, void*);
  va_end(list);
  if (g_mremap != Mremap::kAsKernel) {
    if (g_mremap == Mremap::kFailsAfterUnmapping) munmap(to, new_bytes);
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(syscall(SYS_mremap, from, bytes, new_bytes, flags, to));
}

namespace llmc::hosted {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class HugePages : public testing::Test {
 protected:
  void SetUp() override {
    const auto page = huge_page_bytes();
    if (!page) GTEST_SKIP() << page.failure().message;
    page_ = *page;
    if (page_ > std::size_t{64} << 20) GTEST_SKIP() << "huge pages of " << page_ << " bytes";
    std::minstd_rand random(1);
    content_.resize(5 * page_ + 4096);
    for (std::size_t i = 0; i < content_.size(); i += 512) {
      const auto word = static_cast<std::uint32_t>(random());
      std::memcpy(&content_[i], &word, sizeof word);
    }
    path_ = fs::temp_directory_path() / ("llmc-huge-" + std::to_string(getpid()));
    std::ofstream(path_, std::ios::binary).write(content_.data(), ssize(content_));
  }
  void TearDown() override {
    g_madvise = Madvise::kAsKernel;
    g_mremap = Mremap::kAsKernel;
    fs::remove(path_);
  }
  MappedWeights map() const {
    auto mapped = MappedWeights::open(path_);
    EXPECT_TRUE(mapped.ok());
    return *std::move(mapped);
  }
  bool same(const MappedWeights& weights) const {
    return std::memcmp(weights.bytes().data(), content_.data(), content_.size()) == 0;
  }

  std::size_t page_ = 0;
  std::string content_;
  fs::path path_;
};

TEST_F(HugePages, WholePagesAreMovedWhileOthersReadThem) {
  const auto pool = ThreadPool::create(2);
  ASSERT_TRUE(pool.ok());
  for (ThreadPool* const threads : {static_cast<ThreadPool*>(nullptr), pool->get()}) {
    const MappedWeights weights = map();
    std::atomic<bool> stop{false}, changed{false};
    std::thread reader([&] {
      while (!stop)
        if (!same(weights)) changed = true;
    });
    const HugePageMove done = move_to_huge_pages(weights.bytes().subspan(64), threads);
    stop = true;
    reader.join();
    EXPECT_FALSE(done.failure) << done.failure->message;
    EXPECT_GE(done.moved, 4 * page_);
    EXPECT_EQ(done.moved % page_, 0u);
    EXPECT_GE(done.huge, done.moved / 2);
    EXPECT_FALSE(changed);
    EXPECT_TRUE(same(weights));
    // The pages are this process's now.
    const auto* inside = weights.bytes().data() + 2 * page_;
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(2 * page_));
    file.put(static_cast<char>(~content_[2 * page_])).flush();
    EXPECT_EQ(static_cast<char>(*inside), content_[2 * page_]);
    file.seekp(static_cast<std::streamoff>(2 * page_));
    file.put(content_[2 * page_]).flush();
  }
}

TEST_F(HugePages, BytesThatFillNoPageStay) {
  const MappedWeights weights = map();
  const auto address = reinterpret_cast<std::uintptr_t>(weights.bytes().data());
  const std::size_t to_page = (page_ - address % page_) % page_;
  for (const auto& [begin, size] : {std::pair{std::size_t{0}, std::size_t{0}},
                                    {0, std::size_t{100}},
                                    {to_page, page_ - 1},
                                    {to_page + 1, 2 * page_ - 2}}) {
    const HugePageMove done = move_to_huge_pages(weights.bytes().subspan(begin, size), nullptr);
    EXPECT_FALSE(done.failure) << begin << ' ' << size;
    EXPECT_EQ(done.moved, 0u) << begin << ' ' << size;
  }
  EXPECT_EQ(move_to_huge_pages(weights.bytes().subspan(to_page, page_), nullptr).moved, page_);
  EXPECT_TRUE(same(weights));
}

TEST_F(HugePages, AfterAFailureTheBytesAreTheSame) {
  const auto failure = [&] {
    const MappedWeights weights = map();
    const HugePageMove done = move_to_huge_pages(weights.bytes(), nullptr);
    EXPECT_EQ(done.moved, 0u);
    EXPECT_EQ(done.huge, 0u);
    EXPECT_TRUE(same(weights));
    return done.failure.value_or(Failure{LLMC_OK, ""});
  };
  g_madvise = Madvise::kFails;
  EXPECT_EQ(failure().status, LLMC_ERROR_MEMORY);
  EXPECT_THAT(failure().message, HasSubstr("cannot request huge pages: "));
  g_madvise = Madvise::kNoHugePages;
  EXPECT_THAT(failure().message, HasSubstr("the kernel provided 0 of "));
  g_madvise = Madvise::kAsKernel;
  g_mremap = Mremap::kFails;
  EXPECT_THAT(failure().message, HasSubstr("cannot move the copy: "));
  g_mremap = Mremap::kFailsAfterUnmapping;
  EXPECT_THAT(failure().message, HasSubstr("cannot move the copy: "));
  g_mremap = Mremap::kAsKernel;
  ASSERT_EQ(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
  EXPECT_THAT(failure().message, HasSubstr("disabled for this process"));
  EXPECT_EQ(llmc_huge_page_bytes(), 0u);
  ASSERT_EQ(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0), 0);
}

TEST_F(HugePages, MoreThanTheMemoryIsNotCopied) {
  const std::size_t bytes = std::size_t{1} << 44;
  void* const address =
      mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) GTEST_SKIP() << "no address space";
  const HugePageMove done =
      move_to_huge_pages({static_cast<const std::byte*>(address), bytes}, nullptr);
  EXPECT_EQ(done.moved, 0u);
  EXPECT_THAT(done.failure.value_or(Failure{}).message, HasSubstr("are available"));
  munmap(address, bytes);
}

TEST_F(HugePages, InC) {
  EXPECT_EQ(llmc_huge_page_bytes(), page_);
  const MappedWeights weights = map();
  std::size_t huge = 1;
  char message[40] = "before";
  EXPECT_EQ(llmc_move_to_huge_pages(nullptr, 1, nullptr, &huge, message, sizeof message),
            LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(huge, 0u);
  EXPECT_STREQ(message, "");
  g_madvise = Madvise::kFails;
  EXPECT_EQ(llmc_move_to_huge_pages(weights.bytes().data(), weights.bytes().size(), nullptr, &huge,
                                    message, sizeof message),
            LLMC_ERROR_MEMORY);
  EXPECT_EQ(std::string(message).substr(0, 26), "cannot request huge pages:");
  g_madvise = Madvise::kAsKernel;
  llmc_pool* pool = nullptr;
  ASSERT_EQ(llmc_pool_create(2, &pool), LLMC_OK);
  EXPECT_EQ(llmc_move_to_huge_pages(weights.bytes().data(), weights.bytes().size(), pool, &huge,
                                    nullptr, 0),
            LLMC_OK);
  EXPECT_GT(huge, 0u);
  EXPECT_TRUE(same(weights));
  llmc_pool_destroy(pool);
}

TEST(Arena, IsZeroedAndLargeEnough) {
  for (const int huge : {0, 1}) {
    for (const std::size_t bytes :
         {std::size_t{1}, std::size_t{4097}, (std::size_t{5} << 20) + 1}) {
      void* arena = nullptr;
      ASSERT_EQ(llmc_arena_create(bytes, huge, &arena), LLMC_OK);
      auto* const first = static_cast<unsigned char*>(arena);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % LLMC_ALIGNMENT, 0u);
      if (huge != 0 && llmc_huge_page_bytes() != 0)
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % llmc_huge_page_bytes(), 0u);
      EXPECT_EQ(first[0] | first[bytes - 1], 0);
      std::memset(arena, 1, bytes);
      llmc_arena_free(arena, bytes);
    }
    void* arena = &arena;
    EXPECT_EQ(llmc_arena_create(0, huge, &arena), LLMC_ERROR_ARGUMENT);
    EXPECT_EQ(llmc_arena_create(SIZE_MAX, huge, &arena), LLMC_ERROR_MEMORY);
    EXPECT_EQ(arena, nullptr);
    EXPECT_EQ(llmc_arena_create(SIZE_MAX / 2, huge, &arena), LLMC_ERROR_MEMORY);
    EXPECT_EQ(llmc_arena_create(1, huge, nullptr), LLMC_ERROR_ARGUMENT);
  }
  llmc_arena_free(nullptr, 0);
}

TEST(Arena, FailingAdviceLeavesSmallPages) {
  g_madvise = Madvise::kFails;
  const auto arena = Arena::allocate(std::size_t{3} << 20, true);
  g_madvise = Madvise::kAsKernel;
  ASSERT_TRUE(arena.ok());
  std::memset((*arena).memory().data(), 1, (*arena).memory().size());
}

TEST(EmbeddedWeights, OfThisVersionOnly) {
  llmc_model model = fake::model();
  std::size_t bytes = 0;
  EXPECT_EQ(llmc_embedded_weights(&model, &bytes), model.weights);
  EXPECT_EQ(bytes, model.weights_bytes);
  EXPECT_EQ(llmc_embedded_weights(&model, nullptr), model.weights);
  ++model.abi;
  EXPECT_EQ(llmc_embedded_weights(&model, &bytes), nullptr);
  EXPECT_EQ(bytes, 0u);
  --model.abi;
  model.weights = nullptr;
  EXPECT_EQ(llmc_embedded_weights(&model, &bytes), nullptr);
  EXPECT_EQ(llmc_embedded_weights(nullptr, &bytes), nullptr);
}

class AvailableMemory : public testing::Test {
 protected:
  AvailableMemory()
      : root_(fs::temp_directory_path() / ("llmc-memory-" + std::to_string(getpid()))) {}
  ~AvailableMemory() override { fs::remove_all(root_); }
  void write(const fs::path& name, const std::string& content) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << content;
  }
  void write_group(const fs::path& group, const std::string& max, const std::string& current) {
    write("sys/fs/cgroup" / group / "memory.max", max + "\n");
    write("sys/fs/cgroup" / group / "memory.current", current + "\n");
  }
  const fs::path root_;
};

TEST_F(AvailableMemory, OfTheMachine) {
  EXPECT_EQ(available_memory(root_), std::nullopt);
  write("proc/meminfo", "MemTotal: 100 kB\n");
  EXPECT_EQ(available_memory(root_), std::nullopt);
  write("proc/meminfo", "MemTotal: 100 kB\nMemAvailable:    70 kB\n");
  EXPECT_EQ(available_memory(root_), 70u * 1024);
  write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(available_memory(root_), 70u * 1024);
  EXPECT_GT(available_memory().value_or(1), 0u);
}

TEST_F(AvailableMemory, OfControlGroups) {
  write("proc/meminfo", "MemAvailable: 1000 kB\n");
  write("proc/self/cgroup", "1:name=old:/x\n0::/outer/inner\n");
  write_group("outer/inner", "max", "5000");
  write_group("outer", "90000", "50000");
  EXPECT_EQ(available_memory(root_), 40000u);
  // Pages of files can be dropped.
  write("sys/fs/cgroup/outer/memory.stat", "anon 1\ninactive_file 3000\nactive_file 7000\n");
  EXPECT_EQ(available_memory(root_), 50000u);
  write_group("outer/inner", "9000", "9001");
  EXPECT_EQ(available_memory(root_), 0u);
  write_group("outer/inner", "nonsense", "");
  EXPECT_EQ(available_memory(root_), 50000u);
  // The limit of a container is in the top folder.
  write("proc/self/cgroup", "0::/../elsewhere\n");
  write_group("", "60000", "100");
  EXPECT_EQ(available_memory(root_), 59900u);
}

}  // namespace
}  // namespace llmc::hosted
