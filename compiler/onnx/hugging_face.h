#pragma once

#include <optional>

#include "compiler/onnx/block.h"
#include "compiler/onnx/folder.h"

namespace llmc::importer {

/// A decoder in one file with a cache for each layer, as Optimum, onnxruntime-genai and torch.onnx
/// write it: token ids (or embedded rows), perhaps mask and positions, caches
/// [batch, kv_heads, past, D] or [batch, past, kv_heads, D] for keys and values, or [2, …] for
/// both -> logits, the caches with the new tokens. What is a cache is found by structure
/// (find_caches.h), the other inputs by name and type (decoder_inputs.h); imported for one
/// sequence.
///
/// nullopt when the graph has no cache that it extends, or belongs to an encoder.
Result<std::optional<ImportedModel>> import_hugging_face(FileSet& files, const Part& part,
                                                         const FolderContents& beside,
                                                         const ImportOptions& options);

}  // namespace llmc::importer
