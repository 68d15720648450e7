#include "compiler/emit/commented_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/emit/names.h"
#include "compiler/emit/wrap.h"

namespace llmc::emit {
namespace {

constexpr std::size_t kMinRoom = 40;  // columns of comments after the code

/// Returns the comment's lines, of at most `room` columns each.
std::vector<std::string> comment_lines(std::string_view comment, std::size_t room) {
  std::vector<std::string> lines;
  while (comment.size() > room) {
    std::size_t end = std::min(comment.rfind(' ', room), comment.size());
    if (end == comment.size()) end = std::min(comment.find(' '), comment.size());
    const std::string_view line = comment.substr(0, comment.find_last_not_of(' ', end - 1) + 1);
    lines.push_back(line.size() > room ? fmt::format("...{}", line.substr(line.size() - room + 3))
                                       : std::string(line));
    comment.remove_prefix(std::min(comment.find_first_not_of(' ', end), comment.size()));
  }
  if (!comment.empty()) lines.emplace_back(comment);
  return lines;
}

}  // namespace

void CommentedLines::add(std::string code, std::string comment) {
  comment.resize(comment.find_last_not_of(' ') + 1);
  width_ = std::max(width_, code.size());
  lines_.emplace_back(std::move(code), std::move(comment));
}

void CommentedLines::add_offset(std::string_view name, std::uint64_t offset, std::string comment) {
  add(fmt::format("constexpr uint64_t {} = {};", constant_name(name), offset), std::move(comment));
}

std::string CommentedLines::text() const {
  std::size_t longest = 0;
  for (const auto& [code, comment] : lines_) longest = std::max(longest, comment.size());
  const std::size_t used = width_ + 5;  // "  // "
  const bool above = used + std::min(longest, kMinRoom) > kMaxColumns;
  std::string text;
  for (const auto& [code, comment] : lines_) {
    if (above) {
      const std::string indent(std::min(code.find_first_not_of(' '), code.size()), ' ');
      if (!comment.empty()) text += wrapped(fmt::format("{}// {}\n", indent, comment));
    } else if (!comment.empty()) {
      std::string_view begin = code;
      for (const std::string& line : comment_lines(comment, kMaxColumns - used)) {
        text += fmt::format("{:<{}}  // {}\n", begin, width_, line);
        begin = {};
      }
      continue;
    }
    text += code + "\n";
  }
  return text;
}

}  // namespace llmc::emit
