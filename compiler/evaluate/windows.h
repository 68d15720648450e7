#pragma once

#include <cstdint>
#include <vector>

#include "compiler/support/result.h"

/// Splitting a text into windows to measure perplexity (docs/quality.md).
namespace llmc::evaluate {

/// The counted tokens of windows that do not overlap.
enum class ScoredTokens : std::uint8_t {
  kSecondHalf,  // each has at least half a window of context, as in llama.cpp
  kAll,         // every token of the text, also those with little context at a window's start
};

inline constexpr std::uint32_t kDefaultWindow = 512;  // llama.cpp's

struct WindowOptions {
  std::uint32_t size = 0;         // tokens of a window; 0: kDefaultWindow, at most the context
  std::uint32_t stride = 0;       // tokens from one window to the next; 0: windows do not overlap
  std::uint32_t max_windows = 0;  // 0: all
  ScoredTokens scored = ScoredTokens::kSecondHalf;  // without a stride
  std::int32_t bos = -1;                            // BOS token id; -1: none
};

/// Tokens of the longest window. A stride adds half of itself, as in llama.cpp; the default size
/// is reduced to leave room for that.
std::uint64_t window_width(const WindowOptions& options, std::uint32_t context);

/// A text in windows, each processed from an empty cache.
///
/// kSecondHalf without a stride: `bos` is put before the text; window i has the tokens
/// [i·size, (i+1)·size), with the first replaced by `bos`; tokens size/2 + 1 … size - 1 are
/// counted. An incomplete window at the end is dropped.
/// kAll without a stride: each window is `bos` and size - 1 tokens; all tokens except a window's
/// first are counted; the last window may be shorter.
/// With a stride: windows of size + stride/2 tokens start at multiples of the stride; the last
/// `stride` tokens of each are counted.
class Windows {
 public:
  /// kUsage if windows do not fit `context` or have no tokens to count; kBadInput if the text is
  /// shorter than a window.
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
  bool bos_in_front_ = false;  // true: BOS is inserted; false: it replaces a token
  std::uint32_t width_ = 0, step_ = 0, first_ = 1;
  std::size_t count_ = 0;
};

}  // namespace llmc::evaluate
