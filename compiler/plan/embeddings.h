#pragma once

#include <cstdint>

#include "compiler/plan/program.h"

namespace llmc::plan {

/// Returns the width of the rows that a decoder takes in place of those of its token embedding
/// (llmc_append_embeddings). Returns 0 if it takes none: it also reads token ids for anything else,
/// or its embedding, in a file of its own, computes more than a lookup.
std::uint64_t embedding_width(const Program& program);

}  // namespace llmc::plan
