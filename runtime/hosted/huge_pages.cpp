#include "runtime/hosted/huge_pages.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "runtime/hosted/available_memory.h"

namespace llmc::hosted {
namespace {

constexpr const char* kSettings = "/sys/kernel/mm/transparent_hugepage/";

/// Bytes that are moved at once, so that a failure is found before everything was copied.
constexpr std::size_t kPartBytes = std::size_t{64} << 20;

Failure no_memory(std::string why) {
  return {LLMC_ERROR_MEMORY, std::move(why)};
}

Failure system_failure(const char* what) {
  return no_memory(std::string("cannot ") + what + ": " + std::strerror(errno));
}

/// Maps zeroed memory at a multiple of `alignment`, which is a multiple of the size of a page.
/// Returns an empty span and sets errno if it is too large.
std::span<std::byte> map_aligned(std::size_t bytes, std::size_t alignment) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (bytes == 0 || bytes > SIZE_MAX - 2 * alignment) {
    errno = ENOMEM;
    return {};
  }
  bytes = (bytes + page - 1) / page * page;
  const std::size_t reserved = bytes + alignment - page;
  void* const address = ::mmap(nullptr, reserved, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) return {};
  auto* const first = static_cast<std::byte*>(address);
  const std::size_t excess = reinterpret_cast<std::uintptr_t>(first) % alignment;
  const std::size_t before = excess == 0 ? 0 : alignment - excess;
  const std::size_t after = reserved - before - bytes;
  if (before != 0) ::munmap(first, before);
  if (after != 0) ::munmap(first + before + bytes, after);
  return {first + before, bytes};
}

/// Returns how many bytes of the mappings that overlap `memory` are in huge pages, at most its
/// size; its size if the kernel does not tell.
std::size_t bytes_in_huge_pages(std::span<const std::byte> memory) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  std::ifstream maps("/proc/self/smaps");
  bool overlaps = false, known = false;
  std::size_t sum = 0;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t from = 0, to = 0;
    std::size_t kib = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2) {
      if (from >= begin + memory.size()) break;
      overlaps = to > begin;
    } else if (overlaps && std::sscanf(line.c_str(), "AnonHugePages: %zu kB", &kib) == 1) {
      sum += kib * 1024;
      known = true;
    }
  }
  return known ? std::min(sum, memory.size()) : memory.size();
}

/// Copies whole pages of `page` bytes.
void copy_pages(std::span<const std::byte> from, std::byte* to, std::size_t page,
                ThreadPool* pool) {
  struct Job {
    const std::byte* from;
    std::byte* to;
    std::size_t page;
  } job{from.data(), to, page};
  const auto run = [](void* arg, std::uint32_t i) {
    const Job& j = *static_cast<const Job*>(arg);
    std::memcpy(j.to + i * j.page, j.from + i * j.page, j.page);
  };
  const auto pages = static_cast<std::uint32_t>(from.size() / page);
  if (pool != nullptr) {
    pool->parallel_for(run, &job, pages);
  } else {
    for (std::uint32_t i = 0; i < pages; ++i) run(&job, i);
  }
}

/// Moves the pages of `from` to the address `to`. If it fails, `to` has the same content as before.
std::optional<Failure> replace_pages(std::span<std::byte> from, std::byte* to) {
  if (::mprotect(from.data(), from.size(), PROT_READ) != 0)
    return system_failure("protect the copy");
  if (::mremap(from.data(), from.size(), from.size(), MREMAP_MAYMOVE | MREMAP_FIXED, to) == to)
    return std::nullopt;
  Failure failure = system_failure("move the copy");
  // The kernel may have removed the old pages before it failed. msync fails if they are not mapped.
  if (::msync(to, from.size(), MS_ASYNC) == 0) return failure;
  if (::mmap(to, from.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
             0) != to)
    std::abort();  // the data is lost
  std::memcpy(to, from.data(), from.size());
  ::mprotect(to, from.size(), PROT_READ);
  return failure;
}

/// Moves whole huge pages of `page` bytes.
std::optional<Failure> move_part(std::span<const std::byte> bytes, std::size_t page,
                                 ThreadPool* pool, HugePageMove& result) {
  Arena copy(map_aligned(bytes.size(), page));
  const std::span<std::byte> memory = copy.memory();
  if (memory.empty()) return system_failure("allocate a copy");
  if (::madvise(memory.data(), memory.size(), MADV_HUGEPAGE) != 0)
    return system_failure("request huge pages");
  copy_pages(bytes, memory.data(), page, pool);
  const std::size_t huge = bytes_in_huge_pages(memory);
  if (huge < memory.size() / 2) {
    return no_memory("the kernel provided " + std::to_string(huge / page) + " of " +
                     std::to_string(memory.size() / page) + " huge pages");
  }
  auto failure = replace_pages(memory, const_cast<std::byte*>(bytes.data()));
  if (failure) return failure;
  copy.release();
  result.moved += memory.size();
  result.huge += huge;
  return std::nullopt;
}

}  // namespace

Outcome<std::size_t> huge_page_bytes() {
  // The setting in use is in brackets: "always [madvise] never".
  std::string word, setting;
  for (std::ifstream enabled(std::string(kSettings) + "enabled"); enabled >> word;)
    if (word.starts_with('[')) setting = word;
  if (setting.empty()) return no_memory("this kernel has no transparent huge pages");
  if (setting == "[never]") return no_memory(std::string(kSettings) + "enabled says never");
  if (::prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1)
    return no_memory("huge pages are disabled for this process");
  std::size_t bytes = 0;
  std::ifstream(std::string(kSettings) + "hpage_pmd_size") >> bytes;
  if (!std::has_single_bit(bytes) || bytes < static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)))
    return no_memory("this kernel does not tell the size of its huge pages");
  return bytes;
}

HugePageMove move_to_huge_pages(std::span<const std::byte> bytes, ThreadPool* pool) {
  HugePageMove result;
  const auto page = huge_page_bytes();
  if (!page) {
    result.failure = page.failure();
    return result;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::size_t before = (*page - address % *page) % *page;
  if (before >= bytes.size()) return result;
  bytes = bytes.subspan(before, (bytes.size() - before) / *page * *page);
  if (const auto available = available_memory(); available && *available < bytes.size()) {
    result.failure =
        no_memory("a copy of " + std::to_string(bytes.size()) + " bytes needs more than the " +
                  std::to_string(*available) + " bytes of memory that are available");
    return result;
  }
  const std::size_t part = std::max(kPartBytes / *page, std::size_t{1}) * *page;
  while (!bytes.empty() && !result.failure) {
    const std::size_t size = std::min(part, bytes.size());
    result.failure = move_part(bytes.first(size), *page, pool, result);
    bytes = bytes.subspan(size);
  }
  return result;
}

Outcome<Arena> Arena::allocate(std::size_t bytes, bool huge) {
  const auto page = huge ? huge_page_bytes() : Outcome<std::size_t>(Failure{});
  Arena arena(map_aligned(bytes, page ? *page : static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))));
  if (arena.memory_.empty())
    return system_failure(("allocate " + std::to_string(bytes) + " bytes").c_str());
  if (page) ::madvise(arena.memory_.data(), arena.memory_.size(), MADV_HUGEPAGE);
  return arena;
}

void Arena::free(std::span<std::byte> memory) {
  if (!memory.empty()) ::munmap(memory.data(), memory.size());
}

}  // namespace llmc::hosted
