#pragma once

#include <optional>

#include "compiler/onnx/bind/part.h"
#include "compiler/onnx/folder.h"

/// Binders. Each accepts one convention, converts the graphs of such files into one graph of the IR
/// and declares the purpose of its inputs and outputs. A binder of single files returns nullopt for
/// graphs of another convention; the first binder that accepts a graph binds it.
namespace llmc::importer {

/// split_blocks.cpp: a folder of block_i.onnx, lm.onnx, an embedding, llm_config.json and a
/// tokenizer. The blocks are joined in order, by the names of their inputs and outputs:
///   embedding:  input_ids -> inputs_embeds (embedding.onnx, or a bf16 table)
///   block_i:    inputs_embeds or hidden_states, past_key_values f32[2, 1, past, kv_heads, D] or
///               heads first, attention_mask, position_ids -> hidden_states, presents
///   lm:         hidden_states -> logits, or token_id as the ArgMax of the logits
Result<ImportedModel> bind_split_blocks(FileSet& files, const FolderContents& contents);

/// layer_caches.cpp: a decoder in one file with a cache for each layer, as Optimum,
/// onnxruntime-genai and torch.onnx write it:
///   token ids or embedded rows, mask, positions, for each layer keys and values
///   [batch, kv_heads, past, D] or [batch, past, kv_heads, D], or both in one tensor [2, …]
///   -> logits, the caches with the new tokens
/// Caches are found by what the graph does with them (find_caches.h), the other inputs by name and
/// type (decoder_inputs.h). Bound for one sequence. Embeddings come from files in the folder.
Result<std::optional<ImportedModel>> bind_layer_caches(FileSet& files, const Part& part,
                                                       const FolderContents& siblings);

/// stacked_cache.cpp: a decoder in one file whose layers' caches are one tensor:
///   input_ids (token ids) or inputs_embeds (rows), attention_mask, position_ids,
///   past_key_values f32[layers, 2, 1, past, kv_heads, D] or heads first
///   -> logits, presents of that shape with the new tokens
/// llm_config.json may give sizes that the graph does not declare.
Result<std::optional<ImportedModel>> bind_stacked_cache(FileSet& files, const Part& part,
                                                        const FolderContents& siblings);

/// plain_graph.cpp: any graph, with its own inputs and outputs. Sets ImportedModel::lacks_cache.
Result<ImportedModel> bind_plain_graph(FileSet& files, const Part& part, const PlainInputs& inputs);

}  // namespace llmc::importer
