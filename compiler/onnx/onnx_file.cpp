#include "compiler/onnx/onnx_file.h"

#include <google/protobuf/unknown_field_set.h>

#include <cstring>
#include <mutex>
#include <set>
#include <string_view>

#include "compiler/onnx/check_model.h"
#include "compiler/onnx/inline_functions.h"
#include "compiler/onnx/operators.h"
#include "compiler/onnx/wire.h"
#include "compiler/support/file.h"

namespace llmc::importer {
namespace fs = std::filesystem;
namespace {

/// Returns the error for a file that starts with the magic bytes of another format.
std::optional<Diagnostic> other_format(const std::string& file, std::span<const std::byte> bytes) {
  const auto begins_with = [&](std::string_view magic) {
    return bytes.size() >= magic.size() &&
           std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
  };
  if (begins_with("version https://git-lfs.github.com/spec/"))
    return file_failure(ErrorKind::kBadInput, file, "is a Git LFS pointer, not the file itself",
                        "run git lfs pull in the repository to fetch the file");
  if (begins_with("GGUF"))
    return file_failure(ErrorKind::kBadInput, file, "is a GGUF file; llmc reads ONNX",
                        "export the original model: optimum-cli export onnx --model "
                        "NAME_OR_FOLDER --task text-generation-with-past FOLDER");
  if (begins_with("!<arch>\n"))
    return file_failure(ErrorKind::kBadInput, file, "is a static library, not a model",
                        "a bundle that llmc compiled is the folder of the library: give that");
  return std::nullopt;
}

/// Number of the field, unknown to NodeProto, that stores a node's own operator-set version. It is
/// the highest valid number. Unlike an entry in a map, the field moves with the node.
constexpr int kOwnOpsetField = (1 << 29) - 1;

bool is_inside(const fs::path& folder, const fs::path& path) {
  auto at = path.begin();
  for (const auto& part : folder) {
    if (part.empty()) continue;  // a trailing slash
    if (at == path.end() || *at != part) return false;
    ++at;
  }
  return at != path.end();
}

/// If `folder` (canonical) is in a snapshot of a Hugging Face repository, returns the repository's
/// folder blobs/; otherwise an empty path.
fs::path blobs_of(fs::path folder) {
  constexpr int kMaxDepth = 3;  // snapshots/COMMIT/onnx/
  for (int depth = 0; depth < kMaxDepth; ++depth, folder = folder.parent_path()) {
    const fs::path snapshots = folder.parent_path();
    if (snapshots.filename() != "snapshots") continue;
    const fs::path blobs = snapshots.parent_path() / "blobs";
    std::error_code error;
    return fs::is_directory(fs::symlink_status(blobs, error)) ? blobs : fs::path();
  }
  return {};
}

Result<std::shared_ptr<const OnnxFile>> parse_file(const std::string& name,
                                                   std::shared_ptr<const MappedFile> mapped,
                                                   std::uint64_t max_structure_bytes) {
  auto file = std::make_shared<OnnxFile>();
  file->name = name;
  file->mapped = std::move(mapped);
  if (file->mapped->bytes().empty())
    return file_failure(ErrorKind::kBadInput, name, "the file is empty", "copy or export it again");
  auto stripped = strip_tensor_data(file->mapped->bytes(), max_structure_bytes);
  if (!stripped.ok()) return std::move(stripped).error().in_file(name);
  if (stripped->size() > INT32_MAX ||
      !file->model.ParseFromArray(stripped->data(), static_cast<int>(stripped->size())))
    return file_failure(ErrorKind::kBadInput, name,
                        "not a valid ONNX file: its protobuf message does not parse",
                        "the file may be truncated or damaged; copy or export it again");
  if (!file->model.has_graph())
    return file_failure(ErrorKind::kBadInput, name, "not a valid ONNX file: it has no graph",
                        "the file may be truncated or damaged; copy or export it again");
  LLMC_RETURN_IF_ERROR(check_model(*file));
  LLMC_RETURN_IF_ERROR(inline_functions(*file, max_structure_bytes));
  return std::shared_ptr<const OnnxFile>(std::move(file));
}

/// Parse counts of this process, by path.
struct ParseCounts {
  std::mutex mutex;
  std::map<fs::path, int> counts;
};
ParseCounts& counted_parses() {
  static ParseCounts counts;
  return counts;
}

void count_parse(const fs::path& file) {
  ParseCounts& all = counted_parses();
  const std::scoped_lock lock(all.mutex);
  ++all.counts[file];
}

}  // namespace

std::map<fs::path, int> parse_counts() {
  ParseCounts& all = counted_parses();
  const std::scoped_lock lock(all.mutex);
  return all.counts;
}

Result<fs::path> resolve_model_file(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) return system_error(path, "open", error.value());
  const fs::path folder = fs::canonical(path.has_parent_path() ? path.parent_path() : ".", error);
  if (error) return system_error(path, "open", error.value());
  const fs::path blobs = blobs_of(folder);
  return !blobs.empty() && is_inside(blobs, real) ? folder / path.filename() : real;
}

Result<FileSet> FileSet::open(const fs::path& root, std::uint64_t max_structure_bytes) {
  std::error_code error;
  FileSet files;
  files.max_structure_bytes_ = max_structure_bytes;
  files.root_ = root;
  files.canonical_ = fs::canonical(root, error);
  if (error) return system_error(root, "open", error.value());
  files.blobs_ = blobs_of(files.canonical_);
  return files;
}

Result<fs::path> FileSet::resolve(const std::string& relative) const {
  const fs::path path(relative);
  if (relative.empty() || relative.find('\0') != std::string::npos)
    return file_failure(ErrorKind::kBadInput, relative, "is not a file name");
  if (path.is_absolute())
    return file_failure(ErrorKind::kBadInput, relative,
                        "is an absolute path; a model may only refer to files in its own folder");
  for (const auto& part : path)
    if (part == "..")
      return file_failure(ErrorKind::kBadInput, relative, "leads outside the model's folder",
                          "put all of the model's files into one folder");
  std::error_code error;
  const fs::path real = fs::canonical(canonical_ / path, error);
  if (error) {
    Diagnostic d = system_error(root_ / path, "open", error.value());
    d.file = relative;
    return d;
  }
  if (!is_inside(canonical_, real) && (blobs_.empty() || !is_inside(blobs_, real)))
    return file_failure(ErrorKind::kBadInput, relative,
                        "is a symbolic link that leads outside the model's folder",
                        "put a copy of the file in its place");
  return real;
}

Result<std::shared_ptr<const MappedFile>> FileSet::map(const std::string& relative, FileRole role) {
  LLMC_TRY(const fs::path real, resolve(relative));
  auto& mapped = shared_->mapped[real];
  if (!mapped) {
    auto opened = MappedFile::open(real);
    if (!opened.ok()) {
      Diagnostic d = opened.error().first();
      d.file = relative;
      return d;
    }
    if (auto other = other_format(relative, (*opened)->bytes())) return *std::move(other);
    mapped = *std::move(opened);
  }
  infos_[relative] = {root_ / relative, relative, role, mapped->bytes().size()};
  return mapped;
}

Result<std::shared_ptr<const OnnxFile>> FileSet::parse(const std::string& relative, FileRole role) {
  LLMC_TRY(auto mapped, map(relative, role));
  if (const auto known = shared_->parsed.find(relative); known != shared_->parsed.end())
    return known->second;
  count_parse(canonical_ / relative);
  return shared_->parsed
      .emplace(relative, parse_file(relative, std::move(mapped), max_structure_bytes_))
      .first->second;
}

void FileSet::note(const std::string& relative, FileRole role) {
  std::error_code error;
  const auto size = fs::file_size(root_ / relative, error);
  infos_.try_emplace(relative, FileInfo{root_ / relative, relative, role, error ? 0 : size});
}

std::vector<FileInfo> FileSet::list() const {
  std::vector<FileInfo> result;
  result.reserve(infos_.size());
  for (const auto& [name, info] : infos_) result.push_back(info);
  return result;
}

std::vector<Diagnostic> FileSet::warnings() const {
  std::vector<Diagnostic> result;
  std::vector<std::size_t> files;  // number of files with warning result[i]
  std::map<std::pair<std::string, std::string>, std::size_t> known;  // node, message -> index
  std::size_t left_out = 0;
  for (const auto& [file, warnings] : warnings_) {
    std::set<std::pair<std::string, std::string>> in_file;
    for (const Diagnostic& warning : warnings) {
      if (!in_file.emplace(warning.node, warning.message).second) continue;
      const auto [at, is_new] =
          known.emplace(std::pair(warning.node, warning.message), known.size());
      if (at->second + 1 >= kMaxWarnings) {
        left_out += is_new ? 1 : 0;
      } else if (is_new) {
        result.push_back(warning);
        files.push_back(1);
      } else {
        ++files[at->second];
      }
    }
  }
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (files[i] > 1)
      result[i].message += "; the same in " + std::to_string(files[i] - 1) + " more file" +
                           (files[i] > 2 ? "s" : "");
  }
  if (left_out > 0) {
    Diagnostic rest;
    rest.file = result.front().file;
    rest.message = std::to_string(left_out) + " more warning" + (left_out > 1 ? "s" : "") +
                   " of this kind not shown";
    result.push_back(std::move(rest));
  }
  return result;
}

const onnx::AttributeProto* find_attribute(const onnx::NodeProto& node, std::string_view name) {
  for (const auto& attribute : node.attribute())
    if (attribute.name() == name) return &attribute;
  return nullptr;
}

std::int64_t OnnxFile::opset(const std::string& domain) const {
  for (const auto& set : model.opset_import())
    if (plain_domain(set.domain()) == plain_domain(domain)) return set.version();
  return 0;
}

std::int64_t OnnxFile::opset(const onnx::NodeProto& node) const {
  const auto& fields = node.GetReflection()->GetUnknownFields(node);
  for (int i = 0; i < fields.field_count(); ++i)
    if (fields.field(i).number() == kOwnOpsetField)
      return static_cast<std::int64_t>(fields.field(i).varint());
  return opset(node.domain());
}

void set_own_opset(onnx::NodeProto& node, std::optional<std::int64_t> version) {
  auto& fields = *node.GetReflection()->MutableUnknownFields(&node);
  if (!fields.empty()) fields.DeleteByNumber(kOwnOpsetField);
  if (version) fields.AddVarint(kOwnOpsetField, static_cast<std::uint64_t>(*version));
}

}  // namespace llmc::importer
