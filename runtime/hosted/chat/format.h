#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/hosted/chat/description.h"
#include "runtime/hosted/jinja/template.h"
#include "runtime/hosted/tokenizer.h"

namespace llmc::hosted {

struct Message {
  std::string role;     // "system", "user", "assistant"
  std::string content;  // UTF-8
  std::string ending;   // of an answer: spelling of the token that ended it; may be empty
};

/// Renders conversations as the text that a model was trained on, and determines what ends an
/// answer.
class ChatFormat {
 public:
  /// Creates the format of `description`. The tokenizer must outlive it. Without a template
  /// (description.has_template()) messages are concatenated. Fails with LLMC_ERROR_FORMAT if the
  /// template cannot be used.
  static Outcome<ChatFormat> create(ChatDescription description, const Tokenizer& tokenizer);

  bool has_template() const { return description_.has_template(); }
  /// Returns the text of the conversation. With `open`, it includes the text with which the next
  /// answer begins. Without a template, an answer with an `ending` ends the text that the model
  /// sees: all messages up to the last such answer before the final message are omitted, except a
  /// leading system message. `now`: seconds since 1970, which templates with a date read; default:
  /// the current time. Fails if the template rejects the messages.
  Outcome<std::string> render(std::span<const Message> messages, bool open,
                              std::optional<std::int64_t> now = std::nullopt) const;
  /// Returns the ids of rendered text. With a template, names of control tokens are converted to
  /// these tokens.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// Returns the ids of text that follows other text; none if it is empty. Returns nullopt if there
  /// is no template or the text does not begin with a control token, because its ids could then
  /// depend on the text before it.
  std::optional<std::vector<std::int32_t>> encode_continuation(std::string_view text) const;

  bool is_stop(std::int32_t id) const;
  std::span<const std::int32_t> stop_ids() const { return stop_ids_; }
  /// Returns the texts that end an answer because the next turn begins with them; empty if a token
  /// ends it.
  const std::vector<std::string>& stop_texts() const { return stop_texts_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  ChatFormat(ChatDescription description, const Tokenizer& tokenizer);
  std::string spelled(std::span<const std::int32_t> ids) const;
  bool is_control(std::int32_t id) const;
  void add_stop(std::int32_t id);
  Outcome<std::string> render_jinja(std::span<const Message> messages, bool open,
                                    std::int64_t now) const;
  Outcome<std::string> render_prompts(std::span<const Message> messages, bool open) const;
  /// Determines what comes after an answer by rendering a sample conversation.
  void find_end_of_turn();

  ChatDescription description_;
  const Tokenizer* tokenizer_;
  std::optional<jinja::Template> template_;
  std::vector<std::int32_t> stop_ids_;
  std::vector<std::string> stop_texts_;
};

}  // namespace llmc::hosted
