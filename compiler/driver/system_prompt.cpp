#include "compiler/driver/system_prompt.h"

#include <algorithm>

#include "runtime/hosted/chat/format.h"
#include "runtime/hosted/tokenizer/utf8.h"

namespace llmc::driver {
namespace {

/// First user messages that begin with different kinds of characters. A tokenizer may merge the
/// beginning of a message with the preceding text, and does so differently for each kind.
constexpr const char* kProbeMessages[] = {"Xq7f", "hello", " a", "\nb",      "\n\n",
                                          "7",    ".",     "(",  "\xC3\xA9", "\xE4\xBD\xA0"};

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

/// Truncates `all` to the common prefix of `all` and `other`.
template <class List>
void keep_common(List& all, const List& other) {
  const auto [end, ignored] = std::ranges::mismatch(all, other);
  all.erase(end, all.end());
}

}  // namespace

Result<std::vector<std::int32_t>> system_prompt_ids(const SystemPrompt& prompt,
                                                    const hosted::Tokenizer* tokenizer,
                                                    const std::string& refused,
                                                    hosted::ChatDescription& chat) {
  if (!prompt.ids.empty()) return prompt.ids;
  const auto bad = [&](ErrorKind kind, std::string message, std::string hint) {
    return file_failure(kind, prompt.source, std::move(message), std::move(hint));
  };
  const std::string ids_hint = "--system-prompt-tokens takes token ids, whatever they stand for";
  // A final line break, which editors add, is not part of the prompt.
  std::string text = prompt.text;
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  if (without_blanks(text).empty())
    return bad(ErrorKind::kBadInput, "the system prompt is empty", "write some text into it");
  if (std::string copy = text; hosted::take_whole_utf8(copy, true) != text)
    return bad(ErrorKind::kBadInput, "the system prompt is no UTF-8 text", "");
  if (tokenizer == nullptr) {
    return bad(ErrorKind::kBadInput,
               refused.empty() ? "the model has no tokenizer for the system prompt's text"
                               : "the model's tokenizer was refused: " + refused,
               ids_hint);
  }
  chat.system_message = text;
  const auto format = hosted::ChatFormat::create(chat, *tokenizer);
  if (!format.ok()) {
    return bad(ErrorKind::kUnsupported, printable(format.failure().message, 1000), ids_hint);
  }
  if (!format->has_template()) return format->encode(text);

  std::string common;
  std::vector<std::int32_t> ids;
  for (const char* message : kProbeMessages) {
    const hosted::Message messages[] = {{"system", text, {}}, {"user", message, {}}};
    const auto rendered = format->render(messages, true);
    if (!rendered) {
      return bad(ErrorKind::kUnsupported,
                 "the chat template refuses the system message: " +
                     printable(rendered.failure().message, 1000),
                 ids_hint);
    }
    std::vector<std::int32_t> own = format->encode(*rendered);
    if (common.empty()) {
      common = *rendered;
      ids = std::move(own);
    } else {
      keep_common(common, *rendered);
      keep_common(ids, own);
    }
  }
  if (common.find(without_blanks(text)) == common.npos || ids.empty()) {
    return bad(ErrorKind::kUnsupported,
               "the chat template does not write the system message in front of what is said",
               ids_hint);
  }
  return ids;
}

}  // namespace llmc::driver
