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
  std::string ending;   // of an answer: how the token that ended it is spelled; or empty
};

/// Conversations as the text a model was trained on, and what ends an answer.
class ChatFormat {
 public:
  /// The tokenizer must outlive it. Without a template (description.has_template()) the messages'
  /// texts are simply one behind the other. LLMC_ERROR_FORMAT when the template cannot be used.
  static Outcome<ChatFormat> create(ChatDescription description, const Tokenizer& tokenizer);

  bool has_template() const { return description_.has_template(); }
  /// The text of the conversation; `open`: up to where the next answer begins. Without a template:
  /// what stands behind the last message with an ending. Failure when the template refuses it.
  Outcome<std::string> render(std::span<const Message> messages, bool open) const;
  /// The ids of rendered text. With a template control tokens spelled in it are taken as such.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// The ids of text that goes on behind other text; nullopt when its ids depend on what stands
  /// before it: when it does not begin with a control token.
  std::optional<std::vector<std::int32_t>> encode_behind(std::string_view text) const;

  bool is_stop(std::int32_t id) const;
  std::span<const std::int32_t> stop_ids() const { return stop_ids_; }
  /// Texts that end an answer because the model's next turn would begin with them; empty when a
  /// token does.
  const std::vector<std::string>& stop_texts() const { return stop_texts_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  ChatFormat(ChatDescription description, const Tokenizer& tokenizer);
  std::string spelled(std::span<const std::int32_t> ids) const;
  bool is_control(std::int32_t id) const;
  void add_stop(std::int32_t id);
  Outcome<std::string> render_jinja(std::span<const Message> messages, bool open) const;
  Outcome<std::string> render_prompts(std::span<const Message> messages, bool open) const;
  /// Finds what follows an answer in a made-up conversation.
  void find_end_of_turn();

  ChatDescription description_;
  const Tokenizer* tokenizer_;
  std::optional<jinja::Template> template_;
  std::vector<std::int32_t> stop_ids_;
  std::vector<std::string> stop_texts_;
};

}  // namespace llmc::hosted
