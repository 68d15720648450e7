#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "runtime/hosted/tokenizer.h"
#include "tests/runtime/hosted/base64.h"

/// A tokenizer whose ids can be read: bytes are themselves, and three control tokens.
namespace llmc::hosted {

constexpr std::int32_t kTurnBegin = 256, kTurnEnd = 257, kTextBegin = 258, kByteVocabulary = 259;

inline std::unique_ptr<Tokenizer> byte_tokenizer() {
  std::string file = "430 1\n3 1 1\n256 257 258 257 258\n259\n";
  for (int byte = 0; byte < 256; ++byte)
    file += base64(std::string(1, static_cast<char>(byte))) + "\n";
  for (const char* name : {"<|im_start|>", "<|im_end|>", "<s>"}) file += base64(name) + "\n";
  auto made = Tokenizer::parse(file, "bytes");
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.failure().message);
  return made.ok() ? *std::move(made) : nullptr;
}

/// Readable ids: control tokens in angle brackets.
inline std::string shown(const Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  std::string text;
  for (const std::int32_t id : ids) text += tokenizer.name_of(id);
  return text;
}

constexpr const char* kChatMl =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ "
    "'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' "
    "}}{% endif %}";

}  // namespace llmc::hosted
