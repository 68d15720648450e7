#include "tools/llmc/system_prompt_options.h"

#include <cctype>
#include <filesystem>

#include "tools/llmc/numbers.h"
#include "tools/llmc/options.h"
#include "tools/llmc/text.h"

namespace llmc::cli {
namespace {

/// Converts numbers that are separated by commas, blanks or line breaks to the form "1,2,3".
std::string with_commas(const std::string& text) {
  std::string result;
  bool apart = false;
  for (const char c : text) {
    if (std::string_view(", \t\r\n").find(c) != std::string_view::npos) {
      apart = !result.empty();
      continue;
    }
    if (apart) result += ',';
    apart = false;
    result += c;
  }
  return result;
}

}  // namespace

void add_system_prompt_options(CLI::App& app, SystemPromptOptions& options) {
  auto* file = app.add_option("--system-prompt", options.file,
                              "File with a system prompt to compile in, with its KV cache; "
                              "-: standard input")
                   ->type_name("FILE")
                   ->group("Compilation");
  app.add_option("--system-prompt-tokens", options.tokens,
                 "System prompt as token ids, such as 1,2,3, or a file with them")
      ->type_name("IDS")
      ->excludes(file)
      ->group("Compilation");
}

Status apply(const SystemPromptOptions& options, driver::CompileOptions& compile) {
  driver::SystemPrompt prompt;
  if (options.file) {
    prompt.source = *options.file == "-" ? "standard input" : *options.file;
    LLMC_TRY(prompt.text, read_text(*options.file));
  } else if (options.tokens) {
    std::string text = *options.tokens;
    const bool has_ids =
        std::isdigit(static_cast<unsigned char>(text.front())) != 0 && text.find(',') != text.npos;
    std::error_code error;
    if (text.find_first_not_of("0123456789,") != text.npos &&
        (!has_ids || std::filesystem::exists(text, error))) {
      prompt.source = text;
      LLMC_TRY(text, read_text(text));
    }
    const std::string what = prompt.source.empty() ? "--system-prompt-tokens"
                                                   : "--system-prompt-tokens: the file's text";
    LLMC_TRY(prompt.ids, parse_numbers(with_commas(text), what));
  } else {
    return ok_status();
  }
  compile.system_prompt = std::move(prompt);
  return ok_status();
}

}  // namespace llmc::cli
