#pragma once

#include <string>
#include <vector>

#include "compiler/onnx/bind/part.h"
#include "compiler/onnx/folder.h"

namespace llmc::importer {

/// A decoder's graph under construction: its inputs (ImportedModel::module), then the nodes of its
/// parts.
class Decoder {
 public:
  struct Shape {
    CacheShape cache;
    std::int64_t hidden = 0;  // width of the rows; 0 if the graph embeds the ids itself
    std::int64_t layers = 0;
    bool uses_mask = false, uses_positions = false;
  };

  Decoder(FileSet& files, const Shape& shape);

  ir::Builder& builder() { return builder_; }
  ir::ValueId input_ids() const { return ids_; }
  ir::ValueId positions() const { return positions_; }
  ir::ValueId mask() const { return mask_; }
  const std::vector<ir::ValueId>& pasts() const { return pasts_; }

  /// i64[1]: the number of tokens in the cache.
  Result<ir::ValueId> past_length(const Part& part);

  /// Embeds the ids as f32[seq, 1, hidden], with the bf16 table (a file without a header) or with
  /// embedding.onnx. kBadInput if both are missing. `part`: the graph that reads the rows.
  Result<ir::ValueId> embed(const FolderContents& siblings, const Part& part);

  /// Binds the mask and the positions of a part of the split form.
  Result<Bindings> common_inputs(const Part& part);

  /// Appends block `layer`: takes and returns the hidden rows. Its present must have the type of
  /// its past, `seq` longer. Only the last block may return fewer rows than tokens.
  Result<ir::ValueId> append_block(const Part& part, std::int64_t layer, ir::ValueId hidden);
  /// Appends lm.onnx and returns the logits.
  Result<ir::ValueId> append_head(const Part& part, ir::ValueId hidden);
  /// Appends the graph of `part` and returns its outputs. `prefix` is put before value names.
  Result<std::vector<ir::ValueId>> append(const Part& part, const Bindings& inputs,
                                          const std::string& prefix);

  /// The presents of the appended blocks.
  const std::vector<ir::ValueId>& presents() const { return presents_; }

  /// Checks the outputs and completes the model, with the tokenizer in `siblings`. Messages name
  /// `part`. The decoder is empty afterwards.
  Result<ImportedModel> finish(const FolderContents& siblings, const Part& part, ir::ValueId logits,
                               const std::vector<ir::ValueId>& presents);

 private:
  Result<ir::ValueId> embed_with_table(const std::string& name);
  Result<ir::ValueId> embed_with_graph(const Part& part);
  Status check_hidden(const Part& part, ir::ValueId hidden, bool last);
  Status check_present(const Part& part, ir::ValueId present);

  FileSet& files_;
  Shape shape_;
  ir::Builder builder_;
  ir::ValueId ids_, mask_, positions_;
  std::vector<ir::ValueId> pasts_, presents_;
  std::int64_t rows_ = 0;  // of the embedding table; 0: not found
};

}  // namespace llmc::importer
