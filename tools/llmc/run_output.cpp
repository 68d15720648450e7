#include "tools/llmc/run_generation.h"

namespace llmc::cli {

RunOutput output_of(const RunCommand& command, const Globals& globals,
                    const hosted::Tokenizer* tokenizer, std::string shown_prompt) {
  RunOutput output;
  if (globals.json) {
    output.token = [tokenizer](std::int32_t id, const std::string& text,
                               const TokenLogprobs* logprobs) {
      Json line = logprobs != nullptr ? logprob_json(id, *logprobs, tokenizer) : Json{{"id", id}};
      if (tokenizer != nullptr) line["text"] = text;
      print_json_line(line);
      return finish_stdout();
    };
    output.rest = [](const std::string& text) {
      print_json_line({{"text", text}});
      return finish_stdout();
    };
    return output;
  }
  if (tokenizer == nullptr) return output;
  const auto line_is_open = std::make_shared<bool>(false);
  const auto show = [line_is_open](const std::string& text) {
    print_text(text);
    if (!text.empty()) *line_is_open = !text.ends_with('\n');
    return finish_stdout();
  };
  // Drop blanks before the first word of an answer, which belong to the template.
  const auto write = [show, leading = command.chat](std::string text) mutable {
    if (leading) text.erase(0, text.find_first_not_of(" \n\t"));
    leading = leading && text.empty();
    return show(text);
  };
  const auto shared = std::make_shared<std::function<bool(std::string)>>(write);
  output.rest = [shared](const std::string& text) { return (*shared)(text); };
  output.token = [shared](std::int32_t, const std::string& text, const TokenLogprobs*) {
    return text.empty() || (*shared)(text);
  };
  if (!command.hide_prompt && !command.chat)
    output.begin = [show, prompt = std::move(shown_prompt)] { show(prompt); };
  output.end_line = [line_is_open] {
    if (*line_is_open) print("\n");
    flush_stdout();
  };
  return output;
}

}  // namespace llmc::cli
