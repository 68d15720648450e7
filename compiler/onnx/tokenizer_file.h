#pragma once

#include <string>
#include <string_view>

#include "compiler/onnx/model.h"
#include "compiler/support/result.h"

namespace llmc::importer {

/// Checks the structure of a tokenizer.txt. The first line is `430 TYPE`, the second has the
/// numbers of special, stop and prefix ids, and the third lists these ids. The vocabulary follows:
///   type 0 (sentencepiece): N, then N lines `BASE64 SCORE TYPE`
///   type 1 (tiktoken):      N, then N lines `BASE64`
///   type 2 (bert):          N, then N lines `BASE64`
///   type 3 (Hugging Face):  `N M`, then N tokens and M merges, a line each
/// Special ids are indices of tokens in the file. Stop and prefix ids are below `vocabulary`, and N
/// is at most `vocabulary`. Errors contain the line number.
Result<TokenizerFile> check_tokenizer_text(std::string_view text, const std::string& file,
                                           std::int64_t vocabulary);

}  // namespace llmc::importer
