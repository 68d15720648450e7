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

/// The files one import reads. Maps each file once, and lets nothing outside the model's folder in.
class FileSet {
 public:
  /// `root` is an existing folder.
  static Result<FileSet> open(const std::filesystem::path& root);

  /// Maps `root/relative`. Fails when the path is absolute, contains "..", or is a symbolic link
  /// (or goes through one) that leads outside the root. Where the root is in a snapshot of Hugging
  /// Face's cache (models--OWNER--NAME/snapshots/COMMIT), links into the repository's blobs/ are
  /// followed: all files of a snapshot are such links.
  Result<std::shared_ptr<const MappedFile>> map(const std::string& relative, FileRole role);
  /// The checked path alone, same conditions; the file must exist.
  Result<std::filesystem::path> resolve(const std::string& relative) const;
  /// Notes a file that is present without mapping it; what was mapped keeps its role.
  void note(const std::string& relative, FileRole role);

  /// Sets the warnings about one file; those of an earlier attempt to import it are dropped.
  void set_warnings(const std::string& file, std::vector<Diagnostic> warnings) {
    warnings_[file] = std::move(warnings);
  }
  /// At most kMaxWarnings. Files with the same warning (the blocks of a split model) share one.
  std::vector<Diagnostic> warnings() const;

  const std::filesystem::path& root() const { return root_; }
  /// What was mapped or noted, sorted by name.
  std::vector<FileInfo> list() const;

 private:
  std::filesystem::path root_;       // as given
  std::filesystem::path canonical_;  // without links
  std::filesystem::path blobs_;      // the snapshot's; else empty
  std::map<std::string, FileInfo> infos_;
  std::map<std::filesystem::path, std::shared_ptr<const MappedFile>> mapped_;
  std::map<std::string, std::vector<Diagnostic>> warnings_;  // by file
};

/// Where the file of a model stands that was given as `path`: the target of a link, so that its
/// data files are looked for beside that; but a link of a snapshot (FileSet) is taken as the file
/// itself.
Result<std::filesystem::path> resolve_model_file(const std::filesystem::path& path);

/// One .onnx file: its structure parsed, its weights still in the mapping.
struct OnnxFile {
  std::string name;  // relative to the model's folder, for messages
  std::shared_ptr<const MappedFile> mapped;
  /// Every raw_data field holds a DataWindow (wire.h); local functions are inlined.
  onnx::ModelProto model;

  /// Version of the operator set of `domain` ("" and "ai.onnx" are the same), 0 when not imported.
  std::int64_t opset(const std::string& domain) const;
  /// The version that `node` is of.
  std::int64_t opset(const onnx::NodeProto& node) const;
};

/// Notes the operator-set version of a node that came out of a function which imports another one
/// than the model does; nullopt: the model's.
void set_own_opset(onnx::NodeProto& node, std::optional<std::int64_t> version);

/// Fails when the file is not a protobuf message of ONNX's form, has no graph, or breaks a rule of
/// check_model.h.
Result<std::shared_ptr<const OnnxFile>> open_onnx(FileSet& files, const std::string& name,
                                                  FileRole role, const ImportOptions& options);

}  // namespace llmc::importer
