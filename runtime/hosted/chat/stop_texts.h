#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::hosted {

/// Finds the first of several texts in a stream and withholds what may become one of them. The
/// result does not depend on how the stream is cut into pieces: the match that ends first counts,
/// and of those that end at the same byte the longest. With stop texts in UTF-8 and pieces of whole
/// characters, what it returns is whole characters too.
class StopTexts {
 public:
  /// Empty texts are ignored.
  explicit StopTexts(const std::vector<std::string>& texts);
  /// Returns the text that cannot be part of a match any more; nothing after found(). Takes time
  /// linear in the stream for each stop text.
  std::string add(std::string_view piece);
  /// Returns what was withheld: the stream has ended.
  std::string finish();
  /// Whether a stop text was found. It and all that follows it are not returned.
  bool found() const { return found_; }

 private:
  /// Knuth-Morris-Pratt matcher of one stop text.
  struct Matcher {
    explicit Matcher(std::string stop);
    /// Consumes a byte; true when the stop text ends with it.
    bool add(char byte);

    std::string text;
    std::vector<std::size_t> borders;  // [i]: longest proper border of the first i + 1 bytes
    std::size_t matched = 0;           // bytes of `text` that the stream ends with
  };
  std::vector<Matcher> matchers_;
  std::string held_;
  std::size_t begin_ = 0;  // what stands before it was returned
  bool found_ = false;
};

}  // namespace llmc::hosted
