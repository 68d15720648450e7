#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "runtime/hosted/outcome.h"
#include "runtime/hosted/thread_pool.h"

/// Memory in huge pages (usually 2 MiB), for which the processor needs fewer page table entries.
namespace llmc::hosted {

/// Returns the size of a huge page. Fails with LLMC_ERROR_MEMORY and the reason if this process
/// cannot have any.
Outcome<std::size_t> huge_page_bytes();

/// Result of move_to_huge_pages().
struct HugePageMove {
  std::size_t moved = 0;           // bytes that are now in memory of this process
  std::size_t huge = 0;            // of them, bytes that are in huge pages
  std::optional<Failure> failure;  // why no more were moved: LLMC_ERROR_MEMORY
};

/// Copies read-only bytes, such as weights that are mapped from a file, into huge pages, which then
/// replace the old pages at the same addresses. Only whole huge pages within `bytes` are moved;
/// memory that is smaller than two huge pages may contain none. After a failure the remaining bytes
/// are still in their old pages. Other threads may read the bytes at the same time. Copies with the
/// threads of `pool`; if it is null, with the calling thread.
HugePageMove move_to_huge_pages(std::span<const std::byte> bytes, ThreadPool* pool);

/// New zeroed pages, which take up memory only when they are first written. Aligned to a page.
class Arena {
 public:
  /// With `huge`, aligns the memory to huge pages and requests them from the kernel, which may
  /// provide none. Fails with LLMC_ERROR_MEMORY.
  static Outcome<Arena> allocate(std::size_t bytes, bool huge);
  /// Takes ownership of mapped pages.
  explicit Arena(std::span<std::byte> memory) : memory_(memory) {}
  Arena() = default;
  Arena(Arena&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}
  Arena& operator=(Arena&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~Arena() { free(memory_); }

  std::span<std::byte> memory() const { return memory_; }
  /// Transfers ownership to the caller, who must call free().
  std::span<std::byte> release() { return std::exchange(memory_, {}); }
  static void free(std::span<std::byte> memory);

 private:
  std::span<std::byte> memory_;
};

}  // namespace llmc::hosted
