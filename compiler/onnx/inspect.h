#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "compiler/onnx/model.h"

namespace llmc::importer {

/// An input or output as the file declares it, with dims as the file spells them ("seq_len", "1").
/// A dim without a size or name is unnamed_dim() for an input and "?" for an output. Names are
/// untrusted text.
struct DeclaredValue {
  std::string name;
  std::string element;  // "f32", "i64", …; else the name in ONNX; "?" if not declared
  std::vector<std::string> dims;
};

struct InspectedOnnx {
  std::string file;
  std::string producer;
  std::int64_t ir_version = 0;
  std::map<std::string, std::int64_t> opsets;     // domain ("" is ai.onnx) -> version
  std::vector<DeclaredValue> inputs, outputs;     // inputs without an initializer
  std::map<std::string, std::int64_t> operators;  // "MatMul" or "com.microsoft.X" -> nodes
  std::int64_t nodes = 0, initializers = 0;
  std::uint64_t weight_bytes = 0;  // of initializers and constants, including external data
};

/// Description of a model's files, as printed by `llmc inspect`.
struct Inspection {
  std::filesystem::path path;
  std::vector<FileInfo> files;
  /// The files that parse. Of a split model: blocks in order, then embedding and head. Of others:
  /// the model's file and, if there are any, the embedding and the media encoder.
  std::vector<InspectedOnnx> onnx;
  std::vector<Diagnostic> warnings;    // ImportedModel::warnings
  std::optional<ImportedModel> model;  // if binding succeeded
  std::optional<Error> refused;        // otherwise, the error of binding
};

/// Describes the files of a model and binds it. Fails only if there is nothing to describe: the
/// path does not exist, is unreadable, is not a model or is not protobuf.
Result<Inspection> inspect_model(const std::filesystem::path& path, const ModelReader& reader = {});

}  // namespace llmc::importer
