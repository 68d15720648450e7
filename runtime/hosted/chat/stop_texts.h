#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::hosted {

/// Finds the first of several texts in a stream, and withholds text that may be the beginning of a
/// match. The result does not depend on how the stream is divided into pieces. If several texts
/// match, the match that ends first applies; if several end at the same byte, the longest. If the
/// stop texts are UTF-8 and the pieces are whole characters, the returned text consists of whole
/// characters too.
class StopTexts {
 public:
  /// Empty texts are ignored.
  explicit StopTexts(const std::vector<std::string>& texts);
  /// Adds a piece and returns the text that can no longer be part of a match; empty after found().
  /// The total time is linear in the stream for each stop text.
  std::string add(std::string_view piece);
  /// Returns the withheld text at the end of the stream. If no stop text was found, the object can
  /// then be used for another stream.
  std::string finish();
  /// Returns whether a stop text was found. Neither the stop text nor the text after it is
  /// returned.
  bool found() const { return found_; }

 private:
  /// A Knuth-Morris-Pratt matcher for one stop text.
  struct Matcher {
    explicit Matcher(std::string stop);
    /// Consumes a byte; returns true if the stop text ends with it.
    bool add(char byte);

    std::string text;
    std::vector<std::size_t> borders;  // [i]: longest proper border of the first i + 1 bytes
    std::size_t matched = 0;  // length of the longest prefix of `text` with which the stream ends
  };
  std::vector<Matcher> matchers_;
  std::string held_;
  std::size_t begin_ = 0;  // index of the first byte that has not been returned
  bool found_ = false;
};

}  // namespace llmc::hosted
