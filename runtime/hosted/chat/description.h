#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/hosted/chat/sampling_values.h"
#include "runtime/hosted/outcome.h"

namespace llmc::hosted {

/// How a model is talked to, as its files say: what a bundle keeps as NAME.chat.json.
struct ChatDescription {
  std::string jinja;  // a chat_template; or the texts below; or neither: there is no template
  std::string system, user, assistant;  // with one %s each; the last may be missing: then the
                                        // user's text ends where the answer begins
  bool add_prefix = false;  // the tokenizer's prefix ids stand before the text, which lacks them
  std::string bos, eos;     // how these tokens are spelled; empty: as the tokenizer says
  std::vector<std::int32_t> stop_ids;  // end an answer, besides the tokenizer's
  std::string system_message;  // conversations begin with it: it was compiled into the model
  std::string source;          // the file the template came from, for messages
  SamplingValues sampling;     // recommended by the model's files, each parameter once

  bool has_template() const { return !jinja.empty() || !user.empty(); }
  /// Whether it only says that there is no template: bundles do not keep such a description.
  bool empty() const {
    return !has_template() && stop_ids.empty() && system_message.empty() && sampling.empty();
  }
};

/// The content of NAME.chat.json.
std::string to_json(const ChatDescription& description);
/// LLMC_ERROR_FORMAT, `name` saying whose content it is.
Outcome<ChatDescription> parse_chat_description(std::string_view json, const std::string& name);
/// The same from a file. LLMC_ERROR_FILE too.
Outcome<ChatDescription> load_chat_description(const std::string& path);

}  // namespace llmc::hosted
