#pragma once

#include <map>
#include <set>
#include <string>

#include "compiler/onnx/block.h"

namespace llmc::importer {

/// What an input of a decoder in one file stands for, by its name, element type and rank.
enum class InputRole : std::uint8_t {
  kIds,            // token ids, integers
  kEmbeddings,     // rows in place of ids
  kMask,           // padding or attention mask of any kind
  kPositions,      // of the new tokens
  kTokenTypes,     // all zeros
  kUseCache,       // use_cache_branch: true
  kKeptLogits,     // how many last rows of logits: 1
  kPastLength,     // tokens in the cache
  kTotalLength,    // with the new ones
  kLastToken,      // kTotalLength - 1
  kPossibleCache,  // floats of rank 4 or 5; find_caches tells whether they are
  kUnknown,
};

/// Roles of the inputs that `part` uses. Ids are told by name, or are the only integers that could
/// be they.
std::map<std::string, InputRole> input_roles(const Part& part);
/// Whether an input that `part` uses is called like token ids or embedded rows.
bool names_its_tokens(const Part& part);

/// What a decoder's inputs are made of.
struct InputSources {
  ir::ValueId ids;         // i64[seq]
  ir::ValueId embeddings;  // f32, seq x hidden in some shape; kNoValue when the graph takes ids
  ir::ValueId positions;   // i64[1, seq]
  ir::ValueId past;        // i64[1]: tokens in the cache
  ir::ValueId mask;        // f32[1, 1, seq, past + seq], additive; needed when needs_mask
};

/// Whether a mask is additive, with a row for each new token: the runtime's own attention_mask.
bool needs_mask(const Part& part, const std::map<std::string, InputRole>& roles);

/// Values for all inputs of `part` but the caches, one sequence, nothing padded:
///   ids and positions in the declared rank and integer type;
///   masks of rank 1 and 2: ones (every token is there); of rank 3 and 4, bools or integers: the
///   causal mask; floats: `mask`, or zeros where it has one row for all tokens.
/// kUnsupported for inputs of no known role.
Result<Bindings> bind_inputs(ir::Builder& builder, const Part& part,
                             const std::map<std::string, InputRole>& roles,
                             const InputSources& sources);

}  // namespace llmc::importer
