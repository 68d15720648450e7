#pragma once

#include <map>
#include <set>
#include <string>

#include "compiler/onnx/bind/decoder.h"

namespace llmc::importer {

/// The purpose of an input of a decoder in one file, by its name, element type and rank.
enum class InputRole : std::uint8_t {
  kIds,            // token ids, integers
  kEmbeddings,     // rows in place of ids
  kMask,           // padding or attention mask of any kind
  kPositions,      // of the new tokens
  kTokenTypes,     // all zeros
  kUseCache,       // use_cache_branch: true
  kKeptLogits,     // how many last rows of logits: 1
  kPastLength,     // tokens in the cache
  kTotalLength,    // tokens in the cache and new ones
  kLastToken,      // kTotalLength - 1
  kPossibleCache,  // floats of rank 4 or 5; find_caches decides
  kUnknown,
};

using InputRoles = std::map<std::string, InputRole>;  // by name
bool has_role(const InputRoles& roles, InputRole role);
/// Whether the name of an input is that of an encoder's input.
bool has_encoder_input(const InputRoles& roles);

/// Returns the roles of the inputs that `part` uses. Token ids are found by name, or are the only
/// integers of rank 1 or 2.
InputRoles input_roles(const Part& part);
/// Whether an input that `part` uses is named like token ids or embedded rows.
bool has_named_tokens(const Part& part);
/// Whether `input_ids` is used and holds integers, not rows as in the split form.
bool takes_ids(const Part& part);

/// Sets whether the decoder has a mask and positions: if bind_inputs needs them.
void set_uses(Decoder::Shape& shape, const Part& part, const InputRoles& roles);

/// The values from which inputs are built.
struct InputSources {
  ir::ValueId ids;         // i64[seq]
  ir::ValueId embeddings;  // f32, seq x hidden in some shape; kNoValue when the graph takes ids
  ir::ValueId positions;   // i64[1, seq]
  ir::ValueId past;        // i64[1]: tokens in the cache
  ir::ValueId mask;        // f32[1, 1, seq, past + seq], additive; kNoValue if not needed
};

/// The decoder's own inputs, without embeddings.
Result<InputSources> decoder_sources(Decoder& decoder, const Part& part);

/// Binds all inputs of `part` except the caches, for one sequence without padding:
///   ids and positions in the declared rank and integer type
///   masks of rank 1 and 2: ones; of rank 3 and 4, bools or integers: the causal mask; floats:
///   `mask`, or zeros if there is one row for all tokens
/// kUnsupported for inputs without a known role.
Result<Bindings> bind_inputs(ir::Builder& builder, const Part& part, const InputRoles& roles,
                             const InputSources& sources);

}  // namespace llmc::importer
