#pragma once

#include <cstdint>
#include <vector>

#include "compiler/support/result.h"

/// How a text is cut into windows to measure a model on it (docs/quality.md).
namespace llmc::evaluate {

/// Which tokens of windows that do not overlap are counted.
enum class ScoredTokens : std::uint8_t {
  kSecondHalf,  // as llama.cpp: each with at least half a window in front of it
  kAll,         // every token of the text, those at the start of a window with little in front
};

inline constexpr std::uint32_t kDefaultWindow = 512;  // llama.cpp's

struct WindowOptions {
  std::uint32_t size = 0;    // tokens of a window; 0: kDefaultWindow, less if the context asks it
  std::uint32_t stride = 0;  // tokens from a window to the next; 0: windows do not overlap
  std::uint32_t max_windows = 0;                    // 0: all
  ScoredTokens scored = ScoredTokens::kSecondHalf;  // without a stride
  std::int32_t bos = -1;                            // what windows begin with; -1: nothing
};

/// The tokens of the longest window. A stride adds half of itself, as llama.cpp does; the default
/// size leaves room for that.
std::uint64_t window_width(const WindowOptions& options, std::uint32_t context);

/// A text in windows, each of which is read from an empty cache.
///
/// Without a stride, the second half counted: the text begins with `bos`; window i has its tokens
/// [i·size, (i+1)·size), the first of them replaced by `bos`; counted are tokens size/2 + 1 …
/// size - 1. What is left at the end is not read.
/// All counted: `bos` stands in front of size - 1 tokens and every token but a window's first is
/// counted; the last window may be shorter.
/// With a stride: windows of size + stride/2 tokens begin at multiples of the stride, and of each
/// the last `stride` tokens are counted.
class Windows {
 public:
  /// kUsage when windows do not fit `context` or have nothing to count; kBadInput when the text is
  /// too short for one.
  static Result<Windows> cut(std::vector<std::int32_t> text, const WindowOptions& options,
                             std::uint32_t context);

  struct Window {
    std::vector<std::int32_t> tokens;  // to be read; the last predicts nothing
    std::size_t first = 1;             // of `tokens`, the first that is counted
  };
  Window at(std::size_t index) const;
  std::size_t count() const { return count_; }
  std::uint32_t width() const { return width_; }  // of a whole window

 private:
  std::vector<std::int32_t> text_;
  std::int32_t bos_ = -1;
  bool bos_in_front_ = false;  // rather than in the place of a token
  std::uint32_t width_ = 0, step_ = 0, first_ = 1;
  std::size_t count_ = 0;
};

}  // namespace llmc::evaluate
