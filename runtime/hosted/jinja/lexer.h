#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Templates as tokens. Whitespace around tags is settled here, as the environment of Hugging
/// Face's chat templates has it: trim_blocks (the newline behind a block goes), lstrip_blocks
/// (blanks between a line's start and a block go), `-` and `+` in tags, the last newline of the
/// template gone.
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

/// TemplateError with the line for what is no template. The last token is kEnd.
std::vector<Token> tokenize(std::string_view source);

}  // namespace llmc::hosted::jinja
