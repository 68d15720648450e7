#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Converts templates to tokens and handles whitespace around tags as Hugging Face's environment of
/// chat templates does: trim_blocks (removes the newline after a block), lstrip_blocks (removes
/// blanks between the start of a line and a block), `-` and `+` in tags. The last newline of the
/// template is removed.
namespace llmc::hosted::jinja {

struct Token {
  enum class Kind : std::uint8_t {
    kData,  // text between tags
    kOutputBegin,
    kOutputEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,  // text: its value
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind = Kind::kEnd;
  std::string text;
  std::uint32_t line = 0;
};

/// Throws TemplateError with the line if the source is not a template. The last token is kEnd.
std::vector<Token> tokenize(std::string_view source);

}  // namespace llmc::hosted::jinja
