#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

/// The patterns with which tokenizers split text, by name, for files that contain only the name.
namespace llmc::hosted {

/// Returns the regular expression with this name: gpt2, llama3, qwen2, …, or one of tiktoken's
/// encodings (cl100k_base).
std::optional<std::string_view> pattern_named(std::string_view name);

/// Returns the character with which byte-level vocabularies spell a byte (GPT-2's
/// bytes_to_unicode). Printable Latin-1 characters represent themselves; the other bytes are U+0100
/// and the following characters, in order.
std::uint32_t spelling_of(unsigned char byte);

}  // namespace llmc::hosted
