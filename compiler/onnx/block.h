#pragma once

#include <memory>
#include <optional>
#include <string>

#include "compiler/onnx/config.h"
#include "compiler/onnx/graph_import.h"

namespace llmc::importer {

/// One file of a split model (or a model in one file of the same form) and the part of its graph
/// that is wanted.
struct Part {
  std::shared_ptr<const OnnxFile> file;
  OrderedGraph graph;

  const onnx::ValueInfoProto* input(const std::string& name) const;
  bool uses(const std::string& name) const { return graph.used_inputs.contains(name); }
  bool has_output(const std::string& name) const;
  Diagnostic bad(std::string message, std::string hint = {}, std::string node = {}) const;
};

/// Opens a file and orders what `outputs` need. Fails when one of them is no output of the graph.
Result<Part> open_part(FileSet& files, const std::string& name, FileRole role,
                       const ImportOptions& options, std::vector<std::string> outputs);

/// Refuses a part that does not read its cache, because it cannot generate.
Status require_cache(const Part& part);

/// The first of `names` that is an input the part uses; empty when there is none.
std::string used_input(const Part& part, std::initializer_list<const char*> names);

/// The axis along which the part appends to its cache, as a layout: found by following
/// past_key_values to the Concat it ends in. `leading` is the number of dims before [2, 1, …] (1
/// when the layers are stacked). nullopt when the graph does it in some other way.
std::optional<ir::CacheLayout> written_layout(const Part& part, std::int64_t leading);

/// Cache shape from the configuration and the declared type, with the layout that the graph writes.
Result<CacheShape> find_cache_shape(const Part& part, const LlmConfig& config,
                                    std::int64_t leading);

/// f32[2, 1, past + extra…, kv, D] or heads first.
ir::TensorType cache_type(const CacheShape& shape, const ir::Dim& length);

/// The hidden rows `value` (f32, seq x hidden in some shape) as input `name` of the part expects
/// them: [seq, 1, H], [1, seq, H] or [seq, H] where the file declares which and its graph might
/// care; the value itself otherwise.
Result<ir::ValueId> fit_hidden(ir::Builder& builder, const Part& part, const std::string& name,
                               ir::ValueId value);

/// `value` cast to the integer type that input `name` declares.
Result<ir::ValueId> fit_integers(ir::Builder& builder, const Part& part, const std::string& name,
                                 ir::ValueId value);

/// Fails with kUnsupported when input `name` is declared as anything but a float.
Status require_float(const Part& part, const std::string& name);

}  // namespace llmc::importer
