#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llmc::emit {

/// Lines of code with comments: aligned after the code, or before each line if the code is too
/// long. Comments must be safe: see comment_text().
class CommentedLines {
 public:
  void add(std::string code, std::string comment);
  /// Adds "constexpr uint64_t kName = offset;" for the constant of a snake_case name.
  void add_offset(std::string_view name, std::uint64_t offset, std::string comment);
  /// Returns the lines. Comments that are too long continue in the next line; words that are too
  /// long lose their beginning.
  std::string text() const;

 private:
  std::size_t width_ = 0;  // of the longest code
  std::vector<std::pair<std::string, std::string>> lines_;
};

}  // namespace llmc::emit
