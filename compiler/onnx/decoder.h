#pragma once

#include <string>
#include <vector>

#include "compiler/onnx/block.h"

namespace llmc::importer {

/// A decoder's graph under construction: its inputs (ImportedModel::graph), then what its parts
/// add.
class Decoder {
 public:
  struct Shape {
    CacheShape cache;
    std::int64_t hidden = 0, layers = 0;
    bool uses_mask = false, uses_positions = false;
  };

  explicit Decoder(const Shape& shape);

  ir::Builder& builder() { return builder_; }
  ir::ValueId input_ids() const { return ids_; }
  ir::ValueId positions() const { return positions_; }
  ir::ValueId mask() const { return mask_; }
  const std::vector<ir::ValueId>& pasts() const { return pasts_; }

  /// Embeds the ids with a bf16 table of shape [file size / (2 * hidden), hidden] and no header:
  /// f32[seq, 1, hidden].
  Result<ir::ValueId> embed_with_table(FileSet& files, const std::string& name);
  /// The same by embedding.onnx.
  Result<ir::ValueId> embed_with_graph(FileSet& files, const Part& part);
  /// Rows of the table that embeds the ids; 0 when it could not be found.
  std::int64_t embedding_rows() const { return rows_; }

  /// Binds the inputs of a part that are common to its kind: mask and positions.
  Result<Bindings> common_inputs(const Part& part);

  /// Appends block `layer`; takes and returns the hidden rows. The type of its present has to be
  /// that of its past, `seq` longer. `hidden` may have no row per token only after the last block.
  Result<ir::ValueId> append_block(FileSet& files, const Part& part, std::int64_t layer,
                                   ir::ValueId hidden);
  /// Appends lm.onnx.
  Result<ir::ValueId> append_head(FileSet& files, const Part& part, ir::ValueId hidden);

  /// Checks and sets the outputs; `part` is what messages name. Afterwards the model is complete.
  Status finish(const Part& part, ir::ValueId logits, const std::vector<ir::ValueId>& presents,
                ImportedModel& model);
  const std::vector<ir::ValueId>& presents() const { return presents_; }

 private:
  Status check_hidden(const Part& part, ir::ValueId hidden, bool last);
  Status check_present(const Part& part, ir::ValueId present);

  Shape shape_;
  ir::Builder builder_;
  ir::ValueId ids_, mask_, positions_;
  std::vector<ir::ValueId> pasts_, presents_;
  std::int64_t rows_ = 0;
};

/// The head's output: `logits`, or what the ArgMax behind `token_id` takes.
Result<Part> open_head(FileSet& files, const std::string& name, FileRole role,
                       const ImportOptions& options);

}  // namespace llmc::importer
