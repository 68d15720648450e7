#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/hosted/chat/sampling_values.h"
#include "runtime/hosted/outcome.h"

namespace llmc::hosted {

/// Chat format of a model according to its files; stored in a bundle as NAME.chat.json.
struct ChatDescription {
  std::string
      jinja;  // a chat_template; alternatively the texts below; without either there is no template
  std::string system, user,
      assistant;  // with one %s each; if the last is missing, the answer follows the user's text
  bool add_prefix =
      false;             // the text lacks the tokenizer's prefix ids, which must be added before it
  std::string bos, eos;  // spelling of these tokens; empty: as in the tokenizer
  std::vector<std::int32_t> stop_ids;  // ids that end an answer, in addition to the tokenizer's
  std::string system_message;  // the compiled-in system message, with which conversations begin
  std::string source;          // the file that contains the template, for messages
  SamplingValues sampling;     // recommended by the model's files, each parameter at most once

  bool has_template() const { return !jinja.empty() || !user.empty(); }
  /// Whether it only says that there is no template: bundles do not keep such a description.
  bool empty() const {
    return !has_template() && stop_ids.empty() && system_message.empty() && sampling.empty();
  }
};

/// Returns the content of NAME.chat.json.
std::string to_json(const ChatDescription& description);
/// LLMC_ERROR_FORMAT if invalid; `name` identifies the content in messages.
Outcome<ChatDescription> parse_chat_description(std::string_view json, const std::string& name);
/// Same for a file; also LLMC_ERROR_FILE.
Outcome<ChatDescription> load_chat_description(const std::string& path);

}  // namespace llmc::hosted
