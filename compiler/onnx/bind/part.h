#pragma once

#include <memory>
#include <optional>
#include <string>

#include "compiler/onnx/config.h"
#include "compiler/onnx/graph_import.h"

namespace llmc::importer {

/// Name of the input with the cache of a block or of all layers.
inline constexpr const char* kPastInput = "past_key_values";

/// A parsed file, and the part of its graph that the requested outputs need.
struct Part {
  std::shared_ptr<const OnnxFile> file;
  OrderedGraph graph;

  const onnx::ValueInfoProto* input(const std::string& name) const;
  bool uses(const std::string& name) const { return graph.used_inputs.contains(name); }
  bool has_output(const std::string& name) const;
  /// Return an error about the file, or about its value `node`.
  Diagnostic bad(std::string message, std::string hint = {}, std::string node = {},
                 ErrorKind kind = ErrorKind::kBadInput) const;
  Diagnostic unsupported(std::string message, std::string hint, std::string node) const;
};

/// Parses a file and orders the nodes that `outputs` need; an empty list means all outputs. Fails
/// with kBadInput if one of them is not an output of the graph.
Result<Part> open_part(FileSet& files, const std::string& name, FileRole role,
                       std::vector<std::string> outputs = {});

/// Fails with kBadInput if the part does not read past_key_values, because such a model cannot
/// generate text.
Status require_cache(const Part& part);

/// Returns the dims that the file declares for input `name`, with nullopt for a symbol. The result
/// is empty if the part does not have the input.
std::vector<std::optional<std::int64_t>> declared_sizes(const Part& part, const std::string& name);
/// Returns the last declared dim of input `name` if it is in [1, kMaxHidden], otherwise 0.
std::int64_t declared_width(const Part& part, const std::string& name);

/// Returns the first of `names` that is a used input of the part; empty if there is none.
std::string used_input(const Part& part, std::initializer_list<const char*> names);

/// Returns the shape of one layer's cache, from the configuration or the declared type of
/// past_key_values. If a Concat appends to the cache, its axis determines the layout. `leading` is
/// the number of dims before [2, 1, …]: 1 if the layers are stacked, otherwise 0. Fails with
/// kBadInput if neither determines the shape.
Result<CacheShape> find_cache_shape(const Part& part, const LlmConfig& config,
                                    std::int64_t leading);

/// Returns f32[2, 1, length, kv_heads, D], or the type with heads first.
ir::TensorType cache_type(const CacheShape& shape, const ir::Dim& length);

/// Returns the hidden rows `value` (f32, seq * hidden elements in some shape) in the shape that the
/// file declares for input `name`: [seq, 1, H], [1, seq, H] or [seq, H]. Returns `value` unchanged
/// if another shape is declared, or if it has the declared rank and the graph only reshapes the
/// input.
Result<ir::ValueId> fit_hidden(ir::Builder& builder, const Part& part, const std::string& name,
                               ir::ValueId value);

/// Casts `value` to the integer type that input `name` declares. Fails with kUnsupported if that is
/// not i32 or i64.
Result<ir::ValueId> fit_integers(ir::Builder& builder, const Part& part, const std::string& name,
                                 ir::ValueId value);

/// Fails with kUnsupported if input `name` is not declared as f16, bf16 or f32.
Status require_float(const Part& part, const std::string& name);

}  // namespace llmc::importer
