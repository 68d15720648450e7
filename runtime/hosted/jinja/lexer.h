#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Converts templates to tokens. Handles whitespace around tags like Hugging Face's environment for
/// chat templates: trim_blocks (removes the newline after a block or comment), lstrip_blocks
/// (removes blanks between the start of a line and a block or comment), and `-` and `+` in tags.
/// Converts every line end to \n and removes one at the end of the template.
namespace llmc::hosted::jinja {

struct Token {
  enum class Kind : std::uint8_t {
    kData,  // text between tags
    kOutputBegin,
    kOutputEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,  // text: the value of the string
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text;
  std::uint32_t line = 0;
};

/// Returns the tokens of a template; the last is kEnd. Throws TemplateError with the line if the
/// source is not a template.
std::vector<Token> tokenize(std::string_view source);

}  // namespace llmc::hosted::jinja
