#pragma once

#include <string>

namespace llmc::tests {

/// The last line of `text`, without its end: of `run --json` the summary.
inline std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return {};
  const std::size_t before = text.rfind('\n', end);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  return text.substr(begin, end + 1 - begin);
}

}  // namespace llmc::tests
