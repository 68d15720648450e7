#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

/// The patterns that tokenizers split text with, where files give only a name.
namespace llmc::hosted {

/// The regular expression of a name: gpt2, llama3, qwen2, …, as tiktoken calls its encodings
/// (cl100k_base).
std::optional<std::string_view> pattern_named(std::string_view name);

/// The character that byte-level vocabularies spell a byte with (GPT-2's bytes_to_unicode):
/// printable Latin-1 characters are themselves, the other bytes are U+0100 and up, in order.
std::uint32_t spelling_of(unsigned char byte);

}  // namespace llmc::hosted
