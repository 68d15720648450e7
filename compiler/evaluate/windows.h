#pragma once

#include <cstdint>
#include <vector>

#include "compiler/support/result.h"

/// Splits a text into windows to measure perplexity (docs/quality.md).
namespace llmc::evaluate {

/// The tokens of each window that are counted, if windows do not overlap.
enum class ScoredTokens : std::uint8_t {
  kSecondHalf,  // each counted token has at least half a window of context, as in llama.cpp
  kAll,         // also tokens with little context at the start of a window: see Windows
};

inline constexpr std::uint32_t kDefaultWindow = 512;  // the same as in llama.cpp

struct WindowOptions {
  std::uint32_t size = 0;  // tokens per window; 0: kDefaultWindow, limited to the context
  /// Tokens between the starts of two windows; 0: windows do not overlap.
  std::uint32_t stride = 0;
  std::uint32_t max_windows = 0;                    // 0: all
  ScoredTokens scored = ScoredTokens::kSecondHalf;  // applies without a stride
  std::int32_t bos = -1;                            // BOS token id; -1: none
};

/// Returns the number of tokens of the longest window. With a stride, a window is longer than
/// `size` by half the stride, as in llama.cpp; the default size is then reduced so that the window
/// fits the context.
std::uint64_t window_width(const WindowOptions& options, std::uint32_t context);

/// A text that is cut into windows; each window starts with an empty cache.
///
/// kSecondHalf without a stride: `bos`, if any, is inserted before the text. Window i has the
/// tokens [i·size, (i+1)·size), the first of which is replaced by `bos`. Its tokens size/2 + 1 …
/// size - 1 are counted. An incomplete window at the end is dropped.
///
/// kAll without a stride: each window has `size` tokens: `bos`, if any, and then tokens of the
/// text. Every token of a window except its first is counted: without `bos`, the first token of the
/// text in each window is not. The last window may be shorter.
///
/// With a stride: windows of size + stride/2 tokens start at multiples of the stride; `bos` is used
/// as above. The last `stride` tokens of each window are counted.
class Windows {
 public:
  /// Cuts the text. Fails with kUsage if a window exceeds `context`, has no tokens to count, or no
  /// tokens before them. Fails with kBadInput if the text is shorter than a window or, with kAll,
  /// has no token to count.
  static Result<Windows> cut(std::vector<std::int32_t> text, const WindowOptions& options,
                             std::uint32_t context);

  struct Window {
    std::vector<std::int32_t> tokens;  // the last has no successor to predict
    std::size_t first = 1;             // index of the first counted token
  };
  Window at(std::size_t index) const;
  std::size_t count() const { return count_; }
  std::uint32_t width() const { return width_; }  // tokens of a full window

 private:
  std::vector<std::int32_t> text_;
  std::int32_t bos_ = -1;
  /// Whether BOS is inserted before the first token of a window (true) or replaces it (false).
  bool bos_in_front_ = false;
  std::uint32_t width_ = 0, step_ = 0, first_ = 1;
  std::size_t count_ = 0;
};

}  // namespace llmc::evaluate
