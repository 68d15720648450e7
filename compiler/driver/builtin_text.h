#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/support/result.h"
#include "runtime/hosted/tokenizer.h"

/// The text of `--calibrate builtin`, which is part of llmc (models/calibration).
namespace llmc::driver {

struct BuiltinText {
  std::vector<std::int32_t> ids;
  /// Why the chat template of the model is not used; empty if it is, or if there is none.
  std::string refused;
};

/// Returns the text as token ids: conversations in the chat format of `model`, each with the tokens
/// with which that format begins, and passages of prose and code between them. All messages are
/// plain text if there is no chat template, or if it is invalid or rejects a conversation even
/// without its system message. Fails like read_chat_files().
Result<BuiltinText> builtin_text(const std::filesystem::path& model,
                                 const hosted::Tokenizer& tokenizer);

/// Returns a hash of the conversations and passages.
std::uint64_t builtin_text_hash();

}  // namespace llmc::driver
