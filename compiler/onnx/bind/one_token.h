#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/onnx/bind/decoder_inputs.h"
#include "compiler/onnx/folder.h"

/// Decoders that compute one token per call. Their batch dim is bound to the tokens.
namespace llmc::importer {

/// A recurrent state: an input of a fixed size for each sequence, and the output of the same name.
struct FoundState {
  std::string input, output;
  std::vector<std::int64_t> dims;  // without the batch dim
};

/// Returns whether the token ids have the declared shape [batch, 1].
bool takes_one_token(const Part& part, const InputRoles& roles);

/// Returns the name of the logits output. This is the first whose name contains "logits", otherwise
/// the only output that is not a state. Returns an empty string if there is none.
std::string find_logits_output(const Part& part, const std::vector<FoundState>& states);

/// Values from which the inputs of the graph are computed.
struct ColumnSources {
  ir::ValueId ids, positions;  // i64[seq], i64[1, seq]
  ir::ValueId ones;            // the padding mask, i64[seq, past + 1]; kNoValue: there is none
  ir::ValueId source_ones;     // the padding mask of the source, i64[seq, source]
};

/// Binds token ids and positions to columns [seq, 1], and masks to ones. Fails with kUnsupported
/// for any other input.
Status bind_columns(ir::Builder& builder, const Part& part, const InputRoles& roles,
                    const ColumnSources& sources, Bindings& inputs);

/// Binds a decoder with caches of attention, and with recurrent states or the state of a source:
/// converts the graph with a cache and a state for each row, then joins the caches (token_rows.h).
/// The outputs of `part` must be the logits, then the states, then all others. Fails with
/// kUnsupported if an input has another purpose, and like append_token_rows().
Result<ImportedModel> bind_token_caches(FileSet& files, const Part& part, InputRoles roles,
                                        const std::vector<FoundState>& states,
                                        const FolderContents& siblings);

/// Binds a decoder without recurrent states. Returns nullopt if it does not take one token per
/// call, its batch size is fixed, or no output is known to be the logits. Fails like
/// bind_token_caches().
Result<std::optional<ImportedModel>> bind_one_token(FileSet& files, const Part& part,
                                                    const FolderContents& siblings);

}  // namespace llmc::importer
