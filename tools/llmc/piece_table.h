#pragma once

#include <string>

#include "runtime/hosted/tokenizer.h"

namespace llmc::cli {

/// Returns a vocabulary as C99 tables for programs that only convert ids to text, such as firmware.
/// The text of id i < PIECE_COUNT is the bytes [piece_start[i], piece_start[i + 1]) of piece_text;
/// empty for control tokens. Such a program must drop the first PIECE_LEADING_SPACES_DROPPED spaces
/// of a text.
std::string c_table(const hosted::Tokenizer& tokenizer);

}  // namespace llmc::cli
