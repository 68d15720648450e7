#pragma once

#include <optional>

#include "compiler/onnx/bind/part.h"
#include "compiler/onnx/folder.h"

/// Binders. Each binder accepts one export convention, converts the graphs of such files into one
/// IR graph, and declares the purpose of its inputs and outputs. The binders for single files
/// return nullopt for graphs of another convention; the first binder that accepts a graph is used.
namespace llmc::importer {

/// split_blocks.cpp: a folder of block_i.onnx, lm.onnx and an embedding, optionally with
/// llm_config.json and a tokenizer. The blocks are connected in order. Inputs and outputs are
/// identified by name:
///   embedding:  input_ids -> inputs_embeds (embedding.onnx, or a bf16 table)
///   block_i:    inputs_embeds or hidden_states, past_key_values f32[2, 1, past, kv_heads, D] or
///               heads first, attention_mask, position_ids -> hidden_states, presents
///   lm:         hidden_states -> logits, or token_id as the ArgMax of the logits
Result<ImportedModel> bind_split_blocks(FileSet& files, const FolderContents& contents);

/// layer_caches.cpp: a decoder in one file with a separate cache for each layer, as written by
/// Optimum, onnxruntime-genai and torch.onnx:
///   token ids or embedded rows, mask, positions, for each layer keys and values
///   [batch, kv_heads, past, D] or [batch, past, kv_heads, D], or both in one tensor [2, …]
///   -> logits, the caches with the new tokens
/// Caches are identified by their use in the graph (find_caches.h), other inputs by name and type
/// (decoder_inputs.h). The batch size is bound to 1. If the graph reads embedded rows, the
/// embedding is in a sibling file. A graph that takes one token per call is bound by one_token.h.
/// With `with_source`, the graph must be the decoder of an encoder-decoder, which also reads keys
/// and values of an encoded source. Its module has no encoder yet.
Result<std::optional<ImportedModel>> bind_layer_caches(FileSet& files, const Part& part,
                                                       const FolderContents& siblings,
                                                       bool with_source = false);

/// recurrent.cpp: a decoder in one file that computes one token per call, with recurrent states:
///   token ids [batch, 1], positions [batch, 1], for each state f32[batch, …] of a fixed size; in a
///   hybrid also a mask [batch, past + 1], and keys and values [batch, kv_heads, past, D]
///   -> logits, the new states, the caches with the new token
/// The batch dim is bound to the tokens: each has its own row of every state, but all share one
/// cache (token_rows.h). A state's output has the name of its input, except for words such as
/// "past" and "present".
Result<std::optional<ImportedModel>> bind_recurrent(FileSet& files, const Part& part,
                                                    const FolderContents& siblings);

/// encoder_decoder.cpp: an encoder-decoder as written by Optimum and torch.onnx, in three files, or
/// in two if one file is the decoder with and without a past:
///   encoder:              token ids, mask -> rows; or features of sound or an image -> rows
///   decoder without past: rows of the encoder -> keys and values of the source in each layer
///   decoder with past:    token ids, the caches, keys and values of the source -> logits, caches
/// The graph that computes keys and values from the rows becomes a part of the entry kEncode, so
/// that they are computed once per source.
Result<ImportedModel> bind_encoder_decoder(FileSet& files, const EncoderDecoderFiles& names,
                                           const FolderContents& siblings);

/// stacked_cache.cpp: a decoder in one file with one tensor for the caches of all layers:
///   input_ids (token ids) or inputs_embeds (rows), attention_mask, position_ids,
///   past_key_values f32[layers, 2, 1, past, kv_heads, D] or heads first
///   -> logits, presents of that shape with the new tokens
/// llm_config.json may contain sizes that the graph does not declare.
Result<std::optional<ImportedModel>> bind_stacked_cache(FileSet& files, const Part& part,
                                                        const FolderContents& siblings);

/// media_encoder.cpp: the media encoder of a decoder, as written by Optimum and transformers.js:
///   pixels or audio features, and other inputs, which keep their names and types
///   -> rows f32[…, width]
/// The rows are the output `image_features` or `audio_features`, otherwise the first output.
/// Returns the graph of kEncodeMedia. Its name is kAudioEncoder for audio, otherwise
/// "image_encoder".
Result<ir::Graph> bind_media_encoder(FileSet& files, const std::string& name);

/// plain_graph.cpp: binds any graph with its own inputs and outputs. Sets
/// ImportedModel::lacks_cache.
Result<ImportedModel> bind_plain_graph(FileSet& files, const Part& part, const PlainInputs& inputs);

}  // namespace llmc::importer
