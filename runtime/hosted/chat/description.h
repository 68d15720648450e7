#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/hosted/chat/sampling_values.h"
#include "runtime/hosted/outcome.h"

namespace llmc::hosted {

/// The chat format that a model's files describe; stored in a bundle as NAME.chat.json.
struct ChatDescription {
  /// Chat template in Jinja. If it is empty, the next three texts are used instead. If `user` is
  /// empty as well, there is no template.
  std::string jinja;
  std::string system, user,  // texts with one %s each, for the message; or empty
      assistant;             // the same; if it is empty, the answer follows the user's text
  /// Whether the tokenizer's prefix ids are added before the text, unless it already begins with
  /// them.
  bool add_prefix = false;
  std::string bos, eos;                 // spellings of these tokens; empty: those of the tokenizer
  std::vector<std::int32_t> stop_ids;   // ids that end an answer, in addition to the tokenizer's
  std::vector<std::int32_t> start_ids;  // ids that begin the text of an encoder-decoder
  std::vector<std::int32_t> suppressed_ids;        // ids that are never generated
  std::vector<std::int32_t> suppressed_first_ids;  // ids that are never generated first
  std::string system_message;  // the compiled-in system message, with which conversations begin
  std::string source;          // name of the file that contains the template, for messages
  SamplingValues sampling;     // values recommended by the model's files, at most one per parameter

  bool has_template() const { return !jinja.empty() || !user.empty(); }
  /// Returns whether the description contains nothing that a chat needs besides the tokenizer; a
  /// bundle does not store such a description.
  bool empty() const {
    return !has_template() && stop_ids.empty() && start_ids.empty() && suppressed_ids.empty() &&
           suppressed_first_ids.empty() && system_message.empty() && sampling.empty();
  }
};

/// Returns the content of NAME.chat.json.
std::string to_json(const ChatDescription& description);
/// Parses the content of NAME.chat.json. Fails with LLMC_ERROR_FORMAT if it is invalid, and with
/// LLMC_ERROR_VERSION if another version of llmc wrote it. `name` is its name in messages.
Outcome<ChatDescription> parse_chat_description(std::string_view json, const std::string& name);
/// Reads and parses a file. Also fails with LLMC_ERROR_FILE.
Outcome<ChatDescription> load_chat_description(const std::string& path);

}  // namespace llmc::hosted
