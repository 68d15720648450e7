#include "compiler/onnx/tokenizer_file.h"

#include "compiler/support/parse_number.h"

namespace llmc::importer {
namespace {

/// Reads the file line by line and counts lines for messages.
class Lines {
 public:
  Lines(std::string_view text, const std::string& file) : rest_(text), file_(file) {}

  /// Returns the next line without its newline; nullopt after the last.
  std::optional<std::string_view> next() {
    if (rest_.empty()) return std::nullopt;
    ++number_;
    const auto end = rest_.find('\n');
    auto line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  Diagnostic bad(const std::string& what) const {
    return file_failure(
        ErrorKind::kBadInput, file_, "line " + std::to_string(number_) + ": " + what,
        "the tokenizer file may be truncated or damaged, or belong to another model");
  }

 private:
  std::string_view rest_;
  const std::string& file_;
  std::size_t number_ = 0;
};

/// Returns the next word of `line`, without the spaces around it; empty at the end.
std::string_view take_word(std::string_view& line) {
  const auto begin = line.find_first_not_of(' ');
  if (begin == std::string_view::npos) return line = {};
  const auto end = std::min(line.find(' ', begin), line.size());
  const auto word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

/// Returns the numbers on `line`; nullopt if the line has anything else.
std::optional<std::vector<std::int64_t>> numbers(std::string_view line) {
  std::vector<std::int64_t> values;
  for (auto word = take_word(line); !word.empty(); word = take_word(line)) {
    const auto value = parse_number<std::int64_t>(word);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

bool is_base64(std::string_view word) {
  if (word.size() % 4 != 0) return false;
  std::size_t padding = 0;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    if (c == '=') {
      ++padding;
      continue;
    }
    const bool digit = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                       c == '+' || c == '/';
    if (!digit || padding > 0) return false;
  }
  return padding <= 2;
}

/// Checks one line of a sentencepiece or tiktoken vocabulary.
Status check_entry(const Lines& lines, std::string_view line, bool with_score) {
  if (!is_base64(take_word(line))) return lines.bad("the token is not valid base64");
  if (with_score) {
    if (!parse_number<float>(take_word(line)))
      return lines.bad("the token's score is not a number");
    const auto type = parse_number<int>(take_word(line));
    if (!type || *type < 1 || *type > 6) return lines.bad("the token's type is not 1 to 6");
  }
  if (!take_word(line).empty()) return lines.bad("more words than expected");
  return ok_status();
}

Status read_ids(Lines& lines, TokenizerFile& out) {
  const auto count_line = lines.next();
  const auto counts = count_line ? numbers(*count_line) : std::nullopt;
  if (!counts || counts->size() != 3)
    return lines.bad("expected the counts of special, stop and prefix ids");
  std::size_t total = 0;
  for (const auto count : *counts) {
    if (count < 0 || count > 1'000'000) return lines.bad("a count of ids is out of range");
    total += static_cast<std::size_t>(count);
  }
  const auto id_line = lines.next();
  const auto ids = id_line ? numbers(*id_line) : std::nullopt;
  if (!ids) return lines.bad("expected token ids");
  if (ids->size() != total)
    return lines.bad("holds " + std::to_string(ids->size()) +
                     " ids, but the preceding counts require " + std::to_string(total));
  auto at = ids->begin();
  std::size_t part = 0;
  for (auto* list : {&out.special_ids, &out.stop_ids, &out.prefix_ids}) {
    const auto end = at + (*counts)[part++];
    list->assign(at, end);
    at = end;
  }
  return ok_status();
}

Status check_ids(const Lines& lines, const std::vector<std::int64_t>& ids, const char* what,
                 std::int64_t limit) {
  for (const auto id : ids)
    if (id < 0 || id >= limit)
      return lines.bad(std::string(what) + " id " + std::to_string(id) + " is not below " +
                       std::to_string(limit));
  return ok_status();
}

}  // namespace

Result<TokenizerFile> check_tokenizer_text(std::string_view text, const std::string& file,
                                           std::int64_t vocabulary) {
  Lines lines(text, file);
  TokenizerFile out;
  const auto head_line = lines.next();
  const auto head = head_line ? numbers(*head_line) : std::nullopt;
  if (!head || head->size() != 2 || (*head)[0] != 430)
    return lines.bad("expected '430' and a tokenizer type");
  const auto type = (*head)[1];
  if (type < 0 || type > 3) return lines.bad("unknown tokenizer type " + std::to_string(type));
  out.kind = static_cast<TokenizerKind>(type);
  LLMC_RETURN_IF_ERROR(read_ids(lines, out));
  LLMC_RETURN_IF_ERROR(check_ids(lines, out.stop_ids, "stop", vocabulary));
  LLMC_RETURN_IF_ERROR(check_ids(lines, out.prefix_ids, "prefix", vocabulary));

  const bool hugging_face = out.kind == TokenizerKind::kHuggingFaceText;
  const auto size_line = lines.next();
  const auto sizes = size_line ? numbers(*size_line) : std::nullopt;
  if (!sizes || sizes->size() != (hugging_face ? 2u : 1u) || (*sizes)[0] < 1 || sizes->back() < 0)
    return lines.bad("expected the size of the vocabulary");
  out.tokens = (*sizes)[0];
  if (out.tokens > vocabulary)
    return lines.bad("lists " + std::to_string(out.tokens) + " tokens, but the model has " +
                     std::to_string(vocabulary));
  LLMC_RETURN_IF_ERROR(check_ids(lines, out.special_ids, "special", out.tokens));
  for (std::int64_t i = 0; i < out.tokens; ++i) {
    const auto line = lines.next();
    if (!line)
      return lines.bad("the file ends after " + std::to_string(i) + " of " +
                       std::to_string(out.tokens) + " tokens");
    if (!hugging_face)
      LLMC_RETURN_IF_ERROR(
          check_entry(lines, *line, out.kind == TokenizerKind::kSentencePieceText));
  }
  for (std::int64_t i = 0; hugging_face && i < (*sizes)[1]; ++i)
    if (!lines.next())
      return lines.bad("the file ends after " + std::to_string(i) + " of " +
                       std::to_string((*sizes)[1]) + " merges");
  for (auto line = lines.next(); line; line = lines.next())
    if (!line->empty()) return lines.bad("more lines than the preceding counts allow");
  return out;
}

}  // namespace llmc::importer
