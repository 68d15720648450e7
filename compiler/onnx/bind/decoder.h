#pragma once

#include <string>
#include <vector>

#include "compiler/onnx/bind/part.h"
#include "compiler/onnx/folder.h"

namespace llmc::importer {

/// Builder of a decoder's graph: the inputs described at ImportedModel::module, then the nodes of
/// each part.
class Decoder {
 public:
  struct Shape {
    CacheShape cache;
    std::int64_t hidden = 0;  // width of the embedded rows; 0 if the graph reads token ids
    std::int64_t layers = 0;
    bool uses_mask = false, uses_positions = false;
    std::int64_t position_axes = 0;  // positions per token in a separate input; 0: no such input
    /// Encoder-decoder: number and shape of the states of the source.
    std::int64_t sources = 0, source_heads = 0, source_dim = 0;
    /// Dims of the recurrent states of a sequence.
    std::vector<std::vector<std::int64_t>> states;
  };

  Decoder(FileSet& files, const Shape& shape);

  ir::Builder& builder() { return builder_; }
  ir::ValueId input_ids() const { return ids_; }
  ir::ValueId positions() const { return positions_; }
  ir::ValueId position_axes() const { return position_axes_; }
  ir::ValueId mask() const { return mask_; }
  const std::vector<ir::ValueId>& pasts() const { return pasts_; }
  const std::vector<ir::ValueId>& sources() const { return sources_; }
  /// Returns the recurrent states before each token, f32[seq, …].
  const std::vector<ir::ValueId>& states() const { return states_; }

  /// Returns the number of tokens in the cache as i64[1].
  Result<ir::ValueId> past_length(const Part& part);

  /// Returns the number of tokens of the source as i64[1]. The decoder must have sources.
  Result<ir::ValueId> source_length(const Part& part);

  /// Returns the embedded token ids: f32[seq, 1, hidden] from the bf16 table (a file without a
  /// header), otherwise the rows that embedding.onnx returns. `part` is the graph that reads the
  /// rows. Fails with kBadInput if both files are missing or do not have `hidden` columns.
  Result<ir::ValueId> embed(const FolderContents& siblings, const Part& part);

  /// Returns bindings of attention_mask and position_ids, as far as `part` uses them, for a graph
  /// that reads embedded rows.
  Result<Bindings> common_inputs(const Part& part);

  /// Appends block `layer`, which reads the hidden rows `hidden`, and returns its hidden rows: one
  /// for each token, or a single one from the last block. Its updated cache must have the type of
  /// its cache, with seq more tokens.
  Result<ir::ValueId> append_block(const Part& part, std::int64_t layer, ir::ValueId hidden);
  /// Appends lm.onnx and returns the logits.
  Result<ir::ValueId> append_head(const Part& part, ir::ValueId hidden);
  /// Appends the graph of `part` and returns its outputs. `prefix` is prepended to value names.
  Result<std::vector<ir::ValueId>> append(const Part& part, const Bindings& inputs,
                                          const std::string& prefix);

  /// Returns the updated caches of the appended blocks.
  const std::vector<ir::ValueId>& presents() const { return presents_; }

  /// Checks the outputs and returns the complete model, with the tokenizer in `siblings`. Errors
  /// refer to `part`. The decoder is empty afterwards.
  Result<ImportedModel> finish(const FolderContents& siblings, const Part& part, ir::ValueId logits,
                               const std::vector<ir::ValueId>& presents,
                               const std::vector<ir::ValueId>& next_states = {});

 private:
  Result<ir::ValueId> embed_with_table(const std::string& name);
  Result<ir::ValueId> embed_with_graph(const Part& part);
  Status check_hidden(const Part& part, ir::ValueId hidden, bool last);
  Status check_present(const Part& part, ir::ValueId present);

  FileSet& files_;
  Shape shape_;
  ir::Builder builder_;
  ir::ValueId ids_, mask_, positions_, position_axes_;
  std::vector<ir::ValueId> pasts_, sources_, presents_, states_;
  std::int64_t rows_ = 0;  // number of rows in the embedding table; 0: unknown
};

}  // namespace llmc::importer
