#include <xxhash.h>

#include <algorithm>

#include "compiler/onnx/model.h"
#include "compiler/onnx/single_model.h"
#include "compiler/onnx/split_model.h"
#include "compiler/support/file.h"

namespace llmc::importer {
namespace fs = std::filesystem;
namespace {

Result<ImportedModel> import_folder(FileSet& files, const fs::path& path, const std::string& name,
                                    const ImportOptions& options) {
  LLMC_TRY(const FolderContents contents, list_folder(path));
  if (name.empty()) return import_split(files, contents, options);
  return import_single(files, name, contents, options);
}

/// Diagnostics of a model given as one file name it as the user did; a file that does not even call
/// itself ONNX is said to be none.
Error in_typed_path(const Error& error, const fs::path& path, const fs::path& real) {
  std::vector<Diagnostic> diagnostics = error.diagnostics();
  for (Diagnostic& d : diagnostics) {
    if (d.file != real.filename().string()) continue;
    d.file = path.string();
    if (d.kind != ErrorKind::kBadInput || !d.node.empty() || path.extension() == ".onnx") continue;
    std::error_code unknown;
    if (!fs::is_regular_file(real, unknown) || d.message.starts_with("is a "))
      continue;  // it is said
    d.message = "is not an ONNX file";
    d.hint = "give the folder of a split export, or the path of one .onnx file";
  }
  return Error(std::move(diagnostics));
}

/// Errors about a graph that say nothing of what to do get a hint that holds for all of them.
Error with_hints(const Error& error) {
  std::vector<Diagnostic> diagnostics = error.diagnostics();
  for (Diagnostic& d : diagnostics) {
    if (!d.hint.empty() || !d.file.ends_with(".onnx")) continue;
    if (d.kind == ErrorKind::kBadInput)
      d.hint =
          "the model breaks a rule of ONNX or is damaged; onnx.checker.check_model(path, "
          "full_check=True) may say more; export it again";
    if (d.kind == ErrorKind::kUnsupported)
      d.hint =
          "docs/inputs.md lists what is supported; another opset or export option may avoid it";
  }
  return Error(std::move(diagnostics));
}

}  // namespace

std::string_view to_string(FileRole role) {
  switch (role) {
    case FileRole::kBlock:
      return "block";
    case FileRole::kEmbedding:
      return "embedding";
    case FileRole::kHead:
      return "head";
    case FileRole::kModel:
      return "model";
    case FileRole::kConfig:
      return "config";
    case FileRole::kTokenizer:
      return "tokenizer";
    case FileRole::kExternalData:
      return "external data";
    case FileRole::kIgnored:
      return "ignored";
  }
  return "";
}

std::string_view to_string(TokenizerKind kind) {
  switch (kind) {
    case TokenizerKind::kSentencePieceText:
      return "sentencepiece (tokenizer.txt)";
    case TokenizerKind::kTiktokenText:
      return "tiktoken (tokenizer.txt)";
    case TokenizerKind::kBertText:
      return "bert (tokenizer.txt)";
    case TokenizerKind::kHuggingFaceText:
      return "Hugging Face (tokenizer.txt)";
    case TokenizerKind::kSentencePieceModel:
      return "sentencepiece (tokenizer.model)";
  }
  return "";
}

Result<ImportedModel> import_model(const fs::path& path, const ImportOptions& options) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return system_error(path, "open", error ? error.value() : ENOENT);
  const bool is_folder = fs::is_directory(status);
  // A model that is named directly may be a link; its folder is where the link's target stands.
  fs::path real = path;
  if (!is_folder) {
    LLMC_TRY(real, resolve_model_file(path));
  }
  LLMC_TRY(const ModelFile chosen, find_model(path));
  const bool below = is_folder && !chosen.folder.empty();
  if (below) {
    const fs::path relative = chosen.folder / chosen.name;
    LLMC_TRY(const FileSet folder, FileSet::open(path));
    LLMC_RETURN_IF_ERROR(folder.resolve(relative.string()));  // not led out of it by a link
    real = path / relative;
  }
  const bool whole_folder = is_folder && !below;
  LLMC_TRY(FileSet files, FileSet::open(whole_folder ? real : real.parent_path()));
  auto imported = whole_folder ? import_folder(files, path, chosen.name, options)
                               : import_single(files, real.filename().string(),
                                               known_files(files.root()), options);
  if (!imported.ok())
    return with_hints(whole_folder ? std::move(imported).error()
                                   : in_typed_path(imported.error(), below ? real : path, real));
  ImportedModel model = *std::move(imported);
  model.path = path;
  model.files = files.list();
  model.warnings = files.warnings();
  if (options.on_warning) std::ranges::for_each(model.warnings, options.on_warning);
  return model;
}

Result<std::string> content_hash(const ImportedModel& model) {
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  const std::unique_ptr<XXH3_state_t, Free> state(XXH3_createState());
  LLMC_CHECK(state != nullptr && XXH3_128bits_reset(state.get()) == XXH_OK);
  const auto update = [&](const void* data, std::size_t size) {
    LLMC_CHECK(XXH3_128bits_update(state.get(), data, size) == XXH_OK);
  };
  for (const auto& info : model.files) {
    if (info.role == FileRole::kIgnored) continue;
    LLMC_TRY(const auto mapped, MappedFile::open(info.path));
    const auto bytes = mapped->bytes();
    const std::uint64_t sizes[] = {info.name.size(), bytes.size()};
    update(sizes, sizeof sizes);
    update(info.name.data(), info.name.size());
    constexpr std::size_t kPiece = std::size_t{32} << 20;
    for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
      const auto piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
      update(piece.data(), piece.size());
      mapped->drop_pages();
    }
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  std::string text;
  for (const std::uint64_t half : {hash.high64, hash.low64})
    for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[half >> shift & 15];
  return text;
}

}  // namespace llmc::importer
