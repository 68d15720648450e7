#include "compiler/emit/wrap.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace llmc::emit {
namespace {

constexpr std::size_t kIndent = 4;  // of continuation lines

/// Levels of breaks for each open bracket: after commas, after "=", at sums and conditions, at
/// products.
constexpr std::size_t kLevels = 4;

/// A part of a line, and the position after it where the line can be broken.
struct Piece {
  enum class Kind { kText, kOpen, kClose, kBreak };
  Kind kind = Kind::kText;
  std::string_view text;  // of kBreak: empty, the space is added by the printer
  std::size_t level = 0;  // of kBreak: the lower, the better
};

bool is_operator(std::string_view word) {
  static constexpr std::string_view kOperators[] = {"+",  "-", "*",  "/", "&&", "||",
                                                    "==", "<", "<=", ">", ">=", "!="};
  return std::ranges::find(kOperators, word) != std::end(kOperators);
}

/// Returns the end of the string or character literal that begins at `at`.
std::size_t literal_end(std::string_view code, std::size_t at) {
  const char quote = code[at++];
  for (; at < code.size() && code[at] != quote; ++at)
    if (code[at] == '\\') ++at;
  return std::min(at + 1, code.size());
}

/// Returns whether the character is a bracket of template arguments, not an operator: these have
/// spaces around them.
bool is_angle(std::string_view code, std::size_t at) {
  return (code[at] == '<' || code[at] == '>') && at > 0 && code[at - 1] != ' ' &&
         code[at - 1] != '-';
}

std::vector<Piece> pieces_of(std::string_view code) {
  using enum Piece::Kind;
  std::vector<Piece> pieces;
  std::size_t begin = 0, depth = 0;
  const auto text_until = [&](std::size_t end) {
    if (end > begin) pieces.push_back({kText, code.substr(begin, end - begin)});
    begin = end;
  };
  const auto break_at = [&](std::size_t space, std::size_t level) {
    text_until(space);
    pieces.push_back({kBreak, {}, level});
    begin = space + 1;
  };
  for (std::size_t at = 0; at < code.size(); ++at) {
    const char c = code[at];
    if (c == '"' || c == '\'') {
      at = literal_end(code, at) - 1;
    } else if (c == '(' || c == '[' || c == '{' || (c == '<' && is_angle(code, at))) {
      text_until(at);
      pieces.push_back({kOpen, code.substr(begin++, 1)});
      ++depth;
    } else if (depth > 0 &&
               (c == ')' || c == ']' || c == '}' || (c == '>' && is_angle(code, at)))) {
      text_until(at);
      pieces.push_back({kClose, code.substr(begin++, 1)});
      --depth;
    } else if (c == ' ') {
      const std::string_view before = code.substr(begin, at - begin);
      const std::string_view word = before.substr(before.rfind(' ') + 1);
      const std::string_view next = code.substr(at + 1, 2);
      if (before.ends_with(',') || before.ends_with(';')) {
        break_at(at, kLevels * depth);
      } else if (word == "=" && depth == 0) {
        break_at(at, kLevels * depth + 1);
      } else if (is_operator(word) || next == "? " || next == ": ") {
        const bool is_product = word == "*" || word == "/";
        break_at(at, kLevels * depth + (is_product ? 3 : 2));
      }
    }
  }
  text_until(code.size());
  return pieces;
}

/// Prints the pieces of one statement.
class Layout {
 public:
  /// `indent`: of the first line; `rest`: of the lines after it.
  Layout(std::string_view code, std::size_t indent, std::size_t rest)
      : pieces_(pieces_of(code)),
        text_(indent, ' '),
        column_(indent),
        indent_(indent),
        aligned_{rest},
        begins_{0} {
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      switch (pieces_[i].kind) {
        case Piece::Kind::kOpen:
          open(i);
          break;
        case Piece::Kind::kClose:
          close(pieces_[i].text);
          break;
        case Piece::Kind::kBreak:
          break_line(i);
          break;
        case Piece::Kind::kText:
          add(pieces_[i].text);
      }
    }
  }
  std::string take() && { return std::move(text_); }

 private:
  void add(std::string_view text) {
    text_ += text;
    column_ += text.size();
  }
  void new_line(std::size_t indent) {
    text_ += "\n" + std::string(indent, ' ');
    column_ = indent;
    ++line_;
  }
  /// Returns the width from piece `i` to the next break of at most this level, or to a bracket
  /// that opens after the one around the piece is closed: it can be broken later.
  std::size_t width(std::size_t i, std::size_t level) const {
    std::size_t width = 0, depth = 0;
    bool closed = false;
    for (; i < pieces_.size(); ++i) {
      const Piece& piece = pieces_[i];
      if (piece.kind == Piece::Kind::kBreak && piece.level <= level) break;
      width += piece.kind == Piece::Kind::kBreak ? 1 : piece.text.size();
      if (piece.kind == Piece::Kind::kOpen) {
        if (closed) break;
        ++depth;
      } else if (piece.kind == Piece::Kind::kClose) {
        if (depth == 0) closed = true;
        depth -= depth > 0 ? 1 : 0;
      }
    }
    return width;
  }
  /// Returns the lines that the content of the bracket before piece `i` takes from a column on. A
  /// sum that has to be broken counts as many.
  std::size_t lines(std::size_t i, std::size_t from) const {
    std::size_t lines = 1, column = from, depth = 0, size = 0;
    bool is_sum = false;
    const auto put = [&] {
      if (column > from && column + size > kMaxColumns) ++lines, column = from;
      if (from + size > kMaxColumns) lines += is_sum ? 10 : 2;
      is_sum = false;
      column += std::exchange(size, 0) + 1;
    };
    for (; i < pieces_.size(); ++i) {
      const Piece& piece = pieces_[i];
      if (piece.kind == Piece::Kind::kClose && depth-- == 0) break;
      if (piece.kind == Piece::Kind::kOpen) ++depth;
      if (piece.kind == Piece::Kind::kBreak && depth == 0 && piece.level % kLevels == 0) {
        put();
      } else {
        size += piece.kind == Piece::Kind::kBreak ? 1 : piece.text.size();
        is_sum |= piece.kind == Piece::Kind::kBreak && depth == 0;
      }
    }
    size += width_after(i);
    put();
    return lines;
  }
  /// Returns the width from piece `i`, a close bracket, to the next position for a break.
  std::size_t width_after(std::size_t i) const {
    std::size_t width = 0;
    for (; i < pieces_.size() && pieces_[i].kind != Piece::Kind::kBreak; ++i) {
      width += pieces_[i].text.size();
      if (pieces_[i].kind == Piece::Kind::kOpen) break;
    }
    return width;
  }
  /// Returns the width from the piece after an open bracket to the next position for a break after
  /// the bracket that closes it.
  std::size_t content_width(std::size_t i) const {
    std::size_t width = 0, depth = 0;
    for (; i < pieces_.size(); ++i) {
      const Piece::Kind kind = pieces_[i].kind;
      if (kind == Piece::Kind::kClose && depth-- == 0) break;
      if (kind == Piece::Kind::kOpen) ++depth;
      width += kind == Piece::Kind::kBreak ? 1 : pieces_[i].text.size();
    }
    return width + width_after(i);
  }
  void open(std::size_t i) {
    add(pieces_[i].text);
    begins_.push_back(line_);
    const std::size_t hanging = (aligned_.size() == 1 ? indent_ : aligned_.back()) + kIndent;
    const bool fits = column_ + content_width(i + 1) <= kMaxColumns;
    const bool empty = i + 1 < pieces_.size() && pieces_[i + 1].kind == Piece::Kind::kClose;
    if (fits || empty || hanging >= column_ ||
        lines(i + 1, column_) <= std::min<std::size_t>(1 + lines(i + 1, hanging), 10)) {
      aligned_.push_back(column_);
      return;
    }
    new_line(hanging);
    aligned_.push_back(hanging);
  }
  void close(std::string_view bracket) {
    add(bracket);
    if (bracket == "}" && begins_.back() != line_) after_block_ = true;
    aligned_.pop_back();
    begins_.pop_back();
  }
  void break_line(std::size_t i) {
    const std::size_t level = pieces_[i].level, chunk = width(i + 1, level);
    // Nothing follows braces or operands of several lines.
    const bool is_comma = level % kLevels == 0;
    const bool fits = column_ + 1 + chunk <= kMaxColumns && !(is_comma && after_block_);
    if (is_comma) after_block_ = false;
    // A line is broken at an operator only if this is enough, or if there is no other position.
    const bool helps = is_comma || aligned_.back() + chunk <= kMaxColumns ||
                       column_ + 1 + width(i + 1, SIZE_MAX) > kMaxColumns;
    if (fits || !helps || aligned_.back() >= column_) return add(" ");
    new_line(aligned_.back());
    if (!is_comma) after_block_ = aligned_.size() > 1;
  }

  const std::vector<Piece> pieces_;
  std::string text_;
  std::size_t column_;
  const std::size_t indent_;
  std::size_t line_ = 0;
  bool after_block_ = false;
  // For each open bracket: the column where its lines begin, and the line that it is in.
  std::vector<std::size_t> aligned_, begins_;
};

/// Returns the length of "if (…)" or "for (…)" if a statement follows it on the line; else 0.
std::size_t condition_length(std::string_view code) {
  if (!code.starts_with("if (") && !code.starts_with("for (")) return 0;
  std::size_t depth = 0;
  for (std::size_t at = 0; at < code.size(); ++at) {
    if (code[at] == '"') at = literal_end(code, at) - 1;
    if (code[at] == '(') ++depth;
    if (code[at] == ')' && --depth == 0)
      return !code.substr(at).starts_with(") ") || code.substr(at).starts_with(") {") ? 0 : at + 1;
  }
  return 0;
}

/// Breaks a comment at spaces. `mark` begins each line after the first.
std::string wrapped_comment(std::string_view comment, std::size_t indent, std::string_view mark) {
  const std::string begin = std::string(indent, ' ') + std::string(mark);
  std::string text(indent, ' ');
  while (indent + comment.size() > kMaxColumns) {
    std::size_t space = comment.rfind(' ', kMaxColumns - indent);
    if (comment.substr(space + 1) == "*/") space = comment.rfind(' ', space - 1);
    if (space == comment.npos || space <= mark.size()) space = comment.find(' ', mark.size() + 1);
    if (space == comment.npos) break;
    text += comment.substr(0, space);
    text.resize(text.find_last_not_of(' ') + 1);
    text += "\n" + begin;
    comment.remove_prefix(space + 1);
    indent = begin.size();
  }
  return text + std::string(comment);
}

/// Returns where the line comment after some code begins; npos if there is none.
std::size_t trailing_comment(std::string_view code) {
  for (std::size_t at = 0; at < code.size(); ++at) {
    if (code[at] == '"' || code[at] == '\'') at = literal_end(code, at) - 1;
    if (code.substr(at).starts_with("//")) return at;
  }
  return code.npos;
}

std::string wrapped_line(std::string_view line, bool continues) {
  const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
  std::string_view code = line.substr(indent);
  if (code.starts_with('#')) return std::string(line);
  const std::size_t comment_end = code.starts_with("/*") ? code.find("*/") : 0;
  if (comment_end == code.npos || (comment_end != 0 && comment_end + 2 == code.size()))
    return wrapped_comment(code, indent, "   ");
  std::string text;
  if (const std::size_t at = trailing_comment(code); at != code.npos) {
    const std::string_view mark = code.substr(at).starts_with("///") ? "/// " : "// ";
    text = wrapped_comment(code.substr(at), indent, mark);
    if (at == 0) return text;
    code = code.substr(0, code.find_last_not_of(' ', at - 1) + 1);
    return text + "\n" + wrapped(std::string(indent, ' ') + std::string(code));
  }
  if (const std::size_t length = condition_length(code); length != 0) {
    const std::string_view body = code.substr(length + 1);
    return Layout(code.substr(0, length), indent, indent + kIndent).take() + "\n" +
           wrapped(std::string(indent + 2, ' ') + std::string(body));
  }
  return Layout(code, indent, continues ? indent : indent + kIndent).take();
}

}  // namespace

std::string wrapped(std::string_view source) {
  std::string text;
  std::string_view before;  // the previous line
  bool in_comment = false;  // in a block comment that began in an earlier line
  while (!source.empty()) {
    const std::size_t end = std::min(source.find('\n'), source.size());
    const std::string_view line = source.substr(0, end);
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    const bool continues_comment = in_comment;
    const std::size_t comment = in_comment                              ? 0
                                : line.substr(indent).starts_with("/*") ? indent + 2
                                                                        : line.npos;
    if (comment != line.npos) in_comment = line.find("*/", comment) == line.npos;
    if (line.size() <= kMaxColumns) {
      text += line;
    } else if (continues_comment) {
      text += wrapped_comment(line.substr(indent), indent, "");
    } else {
      const bool is_code = trailing_comment(before) == before.npos;
      text += wrapped_line(line, is_code && (before.ends_with(',') || before.ends_with('(')));
    }
    if (end < source.size()) text += "\n";
    source.remove_prefix(std::min(end + 1, source.size()));
    before = line;
  }
  return text;
}

}  // namespace llmc::emit
