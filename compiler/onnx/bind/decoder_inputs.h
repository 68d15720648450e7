#pragma once

#include <map>
#include <set>
#include <string>

#include "compiler/onnx/bind/decoder.h"
#include "compiler/onnx/bind/find_caches.h"
#include "compiler/onnx/bind/source_states.h"

namespace llmc::importer {

/// Purpose of an input of a single-file decoder, determined by name, element type and rank.
enum class InputRole : std::uint8_t {
  kIds,            // token ids, integers
  kEmbeddings,     // embedded rows instead of ids
  kMask,           // padding or attention mask of any kind
  kSourceMask,     // padding mask of an encoder-decoder's source: ones
  kSourceRows,     // rows that the encoder returned
  kSourceState,    // keys or values of the source: floats of rank 4
  kPositions,      // positions of the new tokens
  kTokenTypes,     // all zeros
  kUseCache,       // use_cache_branch: true
  kKeptLogits,     // number of last rows for which logits are computed: 1
  kPastLength,     // tokens in the cache
  kTotalLength,    // number of tokens in the cache plus new tokens
  kLastToken,      // kTotalLength - 1
  kPossibleCache,  // floats of rank 4 or 5; find_caches decides
  kUnknown,
};

using InputRoles = std::map<std::string, InputRole>;  // by name
bool has_role(const InputRoles& roles, InputRole role);
/// Returns whether the name of any input contains "encoder".
bool has_encoder_input(const InputRoles& roles);
/// Returns whether the inputs are those of an encoder-decoder's decoder: it reads the state of a
/// source.
bool reads_source(const InputRoles& roles);

/// Returns the roles of the inputs that `part` uses. If no input has a name of token ids or
/// embedded rows, the only integer input of rank 1 or 2 without another role has the token ids.
InputRoles input_roles(const Part& part);
/// Returns whether `part` uses an input with a name of token ids or embedded rows.
bool has_named_tokens(const Part& part);
/// Returns whether `part` uses an input with several positions of each token, as multimodal RoPE
/// reads them (time, height and width).
bool has_position_axes(const Part& part);
/// Returns whether `part` uses `input_ids` and it contains integers. In split models, an input with
/// this name may contain rows.
bool takes_ids(const Part& part);

/// Returns the shape of a decoder with these caches and states of a source. Fails with kBadInput if
/// there are more than kMaxLayers caches.
Result<Decoder::Shape> decoder_shape(const Part& part, const FoundCaches& caches,
                                     const SourceStates& sources);
/// Sets uses_mask of `shape` if bind_inputs needs a mask, uses_positions if it needs positions, and
/// position_axes if it needs several positions per token.
void set_uses(Decoder::Shape& shape, const Part& part, const InputRoles& roles);

/// Values from which bind_inputs computes the inputs. A value that no input needs may be kNoValue.
struct InputSources {
  ir::ValueId ids;  // i64[seq]
  /// f32, seq * hidden elements in some shape; kNoValue if the graph reads ids.
  ir::ValueId embeddings;
  ir::ValueId positions;      // i64[1, seq]
  ir::ValueId position_axes;  // i64[n, seq]; kNoValue: each of the n rows is `positions`
  ir::ValueId past;           // i64[1]: tokens in the cache
  ir::ValueId source;         // i64[1]: tokens of the source
  ir::ValueId mask;           // f32[1, 1, seq, past + seq], additive; kNoValue if not needed
};

/// Returns the values that bind_inputs() needs, taken from the decoder's inputs. `embeddings` is
/// not set.
Result<InputSources> decoder_sources(Decoder& decoder, const Part& part);

/// Binds the inputs of `part` in `roles`, which must not contain caches, for one sequence without
/// padding:
///   ids and positions in the declared rank and integer type
///   masks of rank 1 and 2, masks with one row for all tokens and the mask of a source: no key is
///   masked (ones, or zeros in an additive mask)
///   other masks: the causal mask if they are bools or integers, otherwise `mask`
/// Fails with kUnsupported if an input has no known role or is a cache, or if a mask is f64 or has
/// a rank above 4.
Result<Bindings> bind_inputs(ir::Builder& builder, const Part& part, const InputRoles& roles,
                             const InputSources& sources);

}  // namespace llmc::importer
