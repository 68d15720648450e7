#pragma once

#include <cstdint>

#include "compiler/plan/program.h"

namespace llmc::plan {

/// Returns the width of the rows that callers can pass to a decoder in place of token embeddings
/// (llmc_append_embeddings). Returns 0 if the decoder needs token ids: it reads them for anything
/// but one lookup, or its embedding is a separate file that computes more than a lookup.
std::uint64_t embedding_width(const Program& program);

}  // namespace llmc::plan
