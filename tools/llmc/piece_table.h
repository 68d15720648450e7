#pragma once

#include <string>

#include "runtime/hosted/tokenizer.h"

namespace llmc::cli {

/// A vocabulary as C99 for programs that only turn ids into text, such as firmware: id i adds bytes
/// piece_text[piece_start[i]] up to, without it, piece_text[piece_start[i + 1]]; control tokens add
/// none. PIECE_COUNT ids; a text leaves out the first PIECE_LEADING_SPACES_DROPPED spaces it begins
/// with.
std::string c_table(const hosted::Tokenizer& tokenizer);

}  // namespace llmc::cli
