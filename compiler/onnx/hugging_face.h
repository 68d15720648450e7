#pragma once

#include "compiler/onnx/decoder.h"
#include "compiler/onnx/folder.h"

namespace llmc::importer {

/// Whether the graph is a decoder as Hugging Face's exporters name it: input_ids [B, S],
/// attention_mask [B, past + S], perhaps position_ids [B, S], past_key_values.N.key and .value
/// [B, kv_heads, past, D] -> logits, present.N.key and .value.
bool is_hugging_face_decoder(const Part& part);

/// The decoder with the inputs and outputs of ImportedModel::graph, for one sequence: keys and
/// values are taken from `past.N` and put together as `present.N`; attention_mask is all ones,
/// because every position of one sequence counts (the graph makes its causal mask itself).
Result<ImportedModel> import_hugging_face(FileSet& files, const Part& part,
                                          const FolderContents& beside);

}  // namespace llmc::importer
