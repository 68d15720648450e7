#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/onnx/model.h"
#include "compiler/support/mapped_file.h"

namespace llmc::importer {

struct OnnxFile;

/// The files in a model's folder. Maps and parses each file once, and opens no file outside the
/// folder, except in the blobs/ of a Hugging Face snapshot (map()). Copies share mapped and parsed
/// files, but have separate lists of files and warnings.
class FileSet {
 public:
  /// Opens the existing folder `root`. parse() fails if a file, not counting raw tensor data, is
  /// larger than `max_structure_bytes`.
  static Result<FileSet> open(const std::filesystem::path& root,
                              std::uint64_t max_structure_bytes = 1u << 30);

  /// Maps `root/relative`. Fails with kBadInput if the path is absolute, contains "..", or leads
  /// outside the root by a symbolic link, and if the file cannot be mapped or has the first bytes
  /// of another format, such as GGUF. If the root is in a snapshot of Hugging Face's cache
  /// (models--OWNER--NAME/snapshots/COMMIT), links to the repository's blobs/ are allowed, because
  /// all files of a snapshot are such links.
  Result<std::shared_ptr<const MappedFile>> map(const std::string& relative, FileRole role);
  /// Parses the graph of an .onnx file, or returns the result of an earlier call. Fails if the file
  /// is not a valid protobuf message, is too large (open()), has no graph, breaks a rule of
  /// check_model.h, or has functions that cannot be inlined (inline_functions.h).
  Result<std::shared_ptr<const OnnxFile>> parse(const std::string& relative, FileRole role);
  /// Returns the path of an existing file without links, after the checks of map().
  Result<std::filesystem::path> resolve(const std::string& relative) const;
  /// Adds a file to list() without mapping it. A file that is already listed keeps its role.
  void note(const std::string& relative, FileRole role);

  /// Replaces the warnings about one file.
  void set_warnings(const std::string& file, std::vector<Diagnostic> warnings) {
    warnings_[file] = std::move(warnings);
  }
  /// Returns at most kMaxWarnings warnings. Equal warnings about several files, such as blocks of a
  /// split model, become one.
  std::vector<Diagnostic> warnings() const;

  const std::filesystem::path& root() const { return root_; }
  /// Returns the files that were mapped or noted, sorted by name.
  std::vector<FileInfo> list() const;

 private:
  std::filesystem::path root_;       // as given
  std::filesystem::path canonical_;  // without links
  std::filesystem::path blobs_;      // blobs/ folder of the snapshot; otherwise empty
  std::uint64_t max_structure_bytes_ = 0;
  struct Shared {
    std::map<std::filesystem::path, std::shared_ptr<const MappedFile>> mapped;
    std::map<std::string, Result<std::shared_ptr<const OnnxFile>>> parsed;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::map<std::string, FileInfo> infos_;
  std::map<std::string, std::vector<Diagnostic>> warnings_;  // by file
};

/// Returns the canonical path of a model file. Follows links, because external data is in the
/// folder of the link's target, but not a link in a Hugging Face snapshot to its blobs/
/// (FileSet::map).
Result<std::filesystem::path> resolve_model_file(const std::filesystem::path& path);

/// A parsed .onnx file. Raw tensor data is not copied from the mapping.
struct OnnxFile {
  std::string name;  // relative to the model's folder, for messages
  std::shared_ptr<const MappedFile> mapped;
  /// Every raw_data field holds a DataWindow (wire.h); local functions are inlined.
  onnx::ModelProto model;

  /// Returns the imported operator-set version of `domain` ("" and "ai.onnx" are the same); 0 if it
  /// is not imported.
  std::int64_t opset(const std::string& domain) const;
  /// Returns the operator-set version of `node`.
  std::int64_t opset(const onnx::NodeProto& node) const;
};

/// Returns the node's attribute `name`, or nullptr.
const onnx::AttributeProto* find_attribute(const onnx::NodeProto& node, std::string_view name);

/// Sets the operator-set version of a node from an inlined function. nullopt means that the model's
/// version applies.
void set_own_opset(onnx::NodeProto& node, std::optional<std::int64_t> version);

}  // namespace llmc::importer
