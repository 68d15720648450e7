#include <xxhash.h>

#include <algorithm>

#include "compiler/onnx/bind/bind.h"
#include "compiler/onnx/bind/decoder_inputs.h"
#include "compiler/onnx/model_files.h"
#include "compiler/support/file.h"

namespace llmc::importer {
namespace fs = std::filesystem;
namespace {

/// Returns the path of a file for messages, in the folder as the user gave it. `file` is its name
/// in the model's folder.
std::string shown_path(const ModelFiles& model, const std::string& file) {
  if (!model.whole_folder && file == model.name) return model.shown.string();
  std::error_code error;
  const fs::path& root = model.files.root();
  const fs::path given = model.shown.parent_path();
  const bool is_given =
      !model.whole_folder && fs::equivalent(given.empty() ? "." : given, root, error);
  const fs::path& folder = is_given ? given : root;
  const bool has_folder =
      fs::path(file).is_absolute() || folder.empty() || file.starts_with((folder / "").string());
  return file.empty() || has_folder || file == folder ? file : (folder / file).string();
}

/// Replaces file names in messages by shown_path(). If the name of a single-file model does not end
/// in .onnx, replaces an error about the whole file by "is not an ONNX file".
Error in_shown_paths(const Error& error, const ModelFiles& model) {
  std::vector<Diagnostic> diagnostics = error.diagnostics();
  for (Diagnostic& d : diagnostics) {
    const bool is_model = !model.whole_folder && d.file == model.name;
    d.file = shown_path(model, d.file);
    if (!is_model || d.kind != ErrorKind::kBadInput || !d.node.empty() ||
        model.shown.extension() == ".onnx")
      continue;
    std::error_code unknown;
    if (!fs::is_regular_file(model.files.root() / model.name, unknown) ||
        d.message.starts_with("is a "))
      continue;  // the message already says what is wrong with the file
    d.message = "is not an ONNX file";
    d.hint = "give the folder of a split export, or the path of one .onnx file";
  }
  return Error(std::move(diagnostics));
}

/// Adds a general hint to errors about a graph that have none.
Error with_hints(const Error& error) {
  std::vector<Diagnostic> diagnostics = error.diagnostics();
  for (Diagnostic& d : diagnostics) {
    if (!d.hint.empty() || !d.file.ends_with(".onnx")) continue;
    if (d.kind == ErrorKind::kBadInput)
      d.hint =
          "the model breaks a rule of ONNX or is damaged; onnx.checker.check_model(path, "
          "full_check=True) may give details; export it again";
    if (d.kind == ErrorKind::kUnsupported)
      d.hint =
          "docs/inputs.md lists what is supported; another opset or export option may avoid it";
  }
  return Error(std::move(diagnostics));
}

/// Finds the files of a model. Fails with kBadInput if the path does not exist or leads outside the
/// folder, or if the folder cannot be read. If the folder has no model, sets `refused` instead of
/// failing.
Result<ModelFiles> find_files(const fs::path& path, const ImportOptions& options) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return system_error(path, "open", error ? error.value() : ENOENT);
  const bool is_folder = fs::is_directory(status);
  // A single-file model may be a link; its folder is that of the link's target.
  fs::path real = path;
  if (!is_folder) {
    LLMC_TRY(real, resolve_model_file(path));
  }
  const auto chosen = find_model(path);
  const bool below = is_folder && chosen.ok() && !chosen->folder.empty();
  if (below) {
    const fs::path relative = chosen->folder / chosen->name;
    LLMC_TRY(const FileSet folder, FileSet::open(path));
    LLMC_RETURN_IF_ERROR(folder.resolve(relative.string()));  // refuses links out of the folder
    real = path / relative;
  }
  const bool whole = is_folder && !below;
  LLMC_TRY(FileSet files,
           FileSet::open(whole ? path : real.parent_path(), options.max_structure_bytes));
  ModelFiles model{path, below ? real : path, std::move(files), whole};
  if (!chosen.ok())
    model.refused = in_shown_paths(chosen.error(), model);
  else
    model.parts = chosen->parts;
  if (is_folder && chosen.ok()) model.media_encoder = chosen->media_encoder;
  if (!whole) {
    model.contents = known_files(model.files.root());
    model.name = real.filename().string();
    return model;
  }
  auto contents = list_folder(path);
  if (!contents.ok())
    return model.refused ? *model.refused : with_hints(in_shown_paths(contents.error(), model));
  model.contents = *std::move(contents);
  if (chosen.ok()) model.name = chosen->name;
  return model;
}

/// Binds the model as a plain graph with `inputs`. If `inputs` is nullptr, binds it as a decoder if
/// possible. Ignores a media encoder.
Result<ImportedModel> bind_main_graph(const ModelFiles& model, FileSet& files,
                                      const PlainInputs* inputs, bool float_products) {
  PlainInputs plain = inputs ? *inputs : PlainInputs();
  plain.float_products = float_products;
  if (model.name.empty()) return bind_split_blocks(files, model.contents);
  if (model.parts && !inputs) return bind_encoder_decoder(files, *model.parts, model.contents);
  LLMC_TRY(const Part part, open_part(files, model.name, FileRole::kModel));
  if (inputs) return bind_plain_graph(files, part, plain);
  LLMC_TRY(auto recurrent, bind_recurrent(files, part, model.contents));
  if (recurrent) return *std::move(recurrent);
  LLMC_TRY(auto bound, bind_layer_caches(files, part, model.contents));
  if (bound) return *std::move(bound);
  LLMC_TRY(bound, bind_stacked_cache(files, part, model.contents));
  if (bound) return *std::move(bound);
  return bind_plain_graph(files, part, plain);
}

/// Adds the hint to an error about the media encoder that the decoder can be compiled without it.
Error with_decoder_hint(const Error& error, const ModelFiles& model) {
  std::vector<Diagnostic> diagnostics = with_hints(error).diagnostics();
  std::string& hint = diagnostics.back().hint;
  hint += (hint.empty() ? "" : "; ") + ("give the path of " + model.name) +
          " to compile the decoder without this encoder";
  return Error(std::move(diagnostics));
}

/// Appends a warning if the decoder takes separate positions for image rows, but is bound without
/// them.
Status note_image_positions(const ModelFiles& model, FileSet& files, ImportedModel& bound) {
  LLMC_TRY(const Part part, open_part(files, model.name, FileRole::kModel));
  if (has_position_axes(part) && !bound.graph().input(ir::InputKind::kPositionAxes).exists())
    bound.warnings.push_back(without_image_positions(model.name));
  return ok_status();
}

/// Binds the model and, if `inputs` is nullptr and the model is a decoder, its media encoder.
/// Omits a media encoder that is not supported, with a warning.
Result<ImportedModel> bind_graphs(const ModelFiles& model, FileSet& files,
                                  const PlainInputs* inputs, bool float_products) {
  LLMC_TRY(ImportedModel bound, bind_main_graph(model, files, inputs, float_products));
  if (model.media_encoder.empty() || inputs || !bound.is_decoder()) return bound;
  auto encoder = bind_media_encoder(files, model.media_encoder);
  if (!encoder.ok() && encoder.error().first().kind == ErrorKind::kUnsupported) {
    bound.warnings.push_back(without_media_encoder(encoder.error()));
    return bound;
  }
  if (!encoder.ok()) return with_decoder_hint(encoder.error(), model);
  bound.module.entries.push_back({ir::EntryKind::kEncodeMedia, *std::move(encoder)});
  if (encoder_role(model.media_encoder) == FileRole::kImageEncoder)
    LLMC_RETURN_IF_ERROR(note_image_positions(model, files, bound));
  return bound;
}

Result<ImportedModel> bind_files(const ModelFiles& model, const ImportOptions& options,
                                 const PlainInputs* inputs) {
  if (model.refused) return *model.refused;
  FileSet files = model.files;
  auto bound = bind_graphs(model, files, inputs, options.float_products);
  if (!bound.ok()) return with_hints(in_shown_paths(bound.error(), model));
  bound->path = model.path;
  bound->files = files.list();
  const std::vector<Diagnostic> warnings = files.warnings();
  bound->warnings.insert(bound->warnings.begin(), warnings.begin(), warnings.end());
  for (Diagnostic& warning : bound->warnings) warning.file = shown_path(model, warning.file);
  if (options.on_warning) std::ranges::for_each(bound->warnings, options.on_warning);
  return bound;
}

}  // namespace

Diagnostic with_path(Diagnostic diagnostic, const ImportedModel& model) {
  const auto found = std::ranges::find(model.files, diagnostic.file, &FileInfo::name);
  if (found == model.files.end() || !diagnostic.file.ends_with(".onnx")) return diagnostic;
  std::error_code error;
  if (fs::is_directory(model.path, error))
    diagnostic.file = found->path.string();
  else if (found->role == FileRole::kModel)
    diagnostic.file = model.path.string();  // which may be a link
  return diagnostic;
}

Error with_paths(const Error& error, const ImportedModel& model) {
  std::vector<Diagnostic> diagnostics = error.diagnostics();
  for (Diagnostic& d : diagnostics) d = with_path(std::move(d), model);
  return Error(std::move(diagnostics));
}

Diagnostic without_media_encoder(const Error& error) {
  Diagnostic warning = error.first();
  const std::string name = fs::path(warning.file).filename().string();
  warning.message = "the decoder is compiled without its " +
                    std::string(to_string(encoder_role(name))) + ": " + warning.message;
  return warning;
}

Diagnostic without_image_positions(const std::string& file) {
  return {.kind = ErrorKind::kUnsupported,
          .file = file,
          .message =
              "the rows of an image get the positions of text, one after the other, in place "
              "of time, height and width"};
}

FileRole encoder_role(std::string_view name) {
  return name.starts_with(kAudioEncoder) ? FileRole::kAudioEncoder : FileRole::kImageEncoder;
}

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
    case FileRole::kImageEncoder:
      return "image encoder";
    case FileRole::kAudioEncoder:
      return "audio encoder";
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

Result<ModelFiles*> ModelReader::open(const fs::path& path, const ImportOptions& options) const {
  std::shared_ptr<ModelFiles>& model = (*models_)[path];
  if (!model) {
    LLMC_TRY(ModelFiles files, find_files(path, options));
    model = std::make_shared<ModelFiles>(std::move(files));
  }
  return model.get();
}

Result<ImportedModel> ModelReader::bind(const fs::path& path, const ImportOptions& options) const {
  LLMC_TRY(ModelFiles* const model, open(path, options));
  const bool differs = model->bound && model->bound->ok() && !(*model->bound)->is_decoder() &&
                       model->float_products != options.float_products;
  if (!model->bound || differs) model->bound = bind_files(*model, options, nullptr);
  model->float_products = options.float_products;
  return *model->bound;
}

Result<ImportedModel> ModelReader::bind_plain(const fs::path& path, const PlainInputs& inputs,
                                              const ImportOptions& options) const {
  LLMC_TRY(const ModelFiles* const model, open(path, options));
  if (model->name.empty()) return bind(path, options);
  return bind_files(*model, options, &inputs);
}

Result<ImportedModel> import_model(const fs::path& path, const ImportOptions& options) {
  return ModelReader().bind(path, options);
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
