#include "compiler/exec/huge_pages.h"

#include <algorithm>

#include "compiler/support/stopwatch.h"
#include "runtime/hosted/available_memory.h"
#include "runtime/hosted/huge_pages.h"
#include "runtime/hosted/thread_pool.h"

namespace llmc::exec {
namespace {

/// More threads do not copy faster.
constexpr std::uint32_t kMaxCopyThreads = 8;

/// Returns why kAuto does not move the weights; empty if it moves them.
std::string reason_to_keep(std::uint64_t weights, std::uint64_t arena, bool few_tokens) {
  if (weights < kMinHugeWeights) return "the weights are small";
  if (few_tokens) return "few tokens are requested";
  const auto available = hosted::available_memory();
  if (available && *available < 2 * weights + arena)
    return "less than twice the memory of the weights is available";
  return {};
}

}  // namespace

HugePageUse use_huge_pages(HugePageOptions options, std::span<const std::byte> weights,
                           std::uint64_t arena_bytes) {
  HugePageUse use;
  if (options.when == HugePages::kNever) return use;
  if (const auto page = hosted::huge_page_bytes(); !page) {
    use.reason = page.failure().message;
    return use;
  }
  const bool always = options.when == HugePages::kAlways;
  use.arena = always || arena_bytes >= kMinHugeArena;
  if (!always) use.reason = reason_to_keep(weights.size(), arena_bytes, options.few_tokens);
  if (!use.reason.empty()) return use;
  const Stopwatch watch;
  const auto pool = hosted::ThreadPool::create(std::min(hosted::usable_cores(), kMaxCopyThreads));
  const hosted::HugePageMove done =
      hosted::move_to_huge_pages(weights, pool ? pool->get() : nullptr);
  use.seconds = watch.seconds();
  use.weights = done.huge;
  if (done.failure) use.reason = done.failure->message;
  return use;
}

}  // namespace llmc::exec
