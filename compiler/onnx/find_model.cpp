#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "compiler/onnx/folder.h"
#include "compiler/onnx/model.h"
#include "compiler/onnx/storage.h"
#include "compiler/support/file.h"
#include "compiler/support/model_folders.h"

namespace llmc::importer {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kOnnx = ".onnx";

/// Stems of model file names in order of preference. The storage of the weights decides among files
/// with the same stem.
struct ModelName {
  std::string_view stem, why;
};
constexpr ModelName kModelNames[] = {
    {"model", ""},
    {"llm", ""},
    {"decoder_model_merged", "the decoder with and without a cache in one graph"},
    {"decoder_with_past_model", "the decoder that takes a cache"},
    {"decoder_model", ""},
};

/// A file that may be the model. The lowest rank is preferred.
struct Candidate {
  std::size_t name_rank, storage_rank;
  std::string file;

  auto key() const { return std::tie(name_rank, storage_rank, file); }
};

std::optional<Candidate> candidate(const std::string& file) {
  if (!file.ends_with(kOnnx)) return std::nullopt;
  const std::string_view stem = std::string_view(file).substr(0, file.size() - kOnnx.size());
  for (std::size_t i = 0; i < std::size(kModelNames); ++i) {
    if (!stem.starts_with(kModelNames[i].stem)) continue;
    const std::string_view suffix = stem.substr(kModelNames[i].stem.size());
    if (!suffix.empty() && suffix.front() != '_') continue;
    const auto storage = std::ranges::find(storages(), suffix, &Storage::suffix);
    return Candidate{i, static_cast<std::size_t>(storage - storages().begin()), file};
  }
  return std::nullopt;
}

std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMaxListed = 6;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMaxListed); ++i)
    text += (i == 0 ? "" : ", ") + printable(names[i], 400);
  if (names.size() > kMaxListed) text += ", …";
  return text;
}

std::vector<std::string> graphs_of(const FolderContents& contents) {
  std::vector<std::string> graphs;
  for (const std::string& name : contents.others)
    if (name.ends_with(kOnnx)) graphs.push_back(name);
  return graphs;
}

/// Returns the best of `graphs`, with a note on the choice if there are several. `folder` is the
/// relative path used in the note.
std::optional<ModelFile> best_of(const std::vector<std::string>& graphs, const fs::path& folder) {
  std::vector<Candidate> candidates;
  for (const std::string& name : graphs)
    if (auto found = candidate(name)) candidates.push_back(*std::move(found));
  if (candidates.empty()) return std::nullopt;
  std::ranges::sort(candidates, {}, &Candidate::key);
  const Candidate& best = candidates.front();
  ModelFile file{.folder = folder, .name = best.file, .note = {}};
  file.media_encoder = best_named(graphs, "vision_encoder");
  if (file.media_encoder.empty()) file.media_encoder = best_named(graphs, kAudioEncoder);
  if (candidates.size() == 1) return file;
  std::vector<std::string> others;
  for (std::size_t i = 1; i < candidates.size(); ++i) others.push_back(candidates[i].file);
  const bool known = best.storage_rank < storages().size();
  std::string why(kModelNames[best.name_rank].why);
  if (why.empty()) why = known ? storages()[best.storage_rank].why : "the first by name";
  file.note = printable((folder / best.file).string(), 120) + " is used: " + why +
              "; to use another file, give its path: " + list_of(others);
  return file;
}

/// Returns the files of an encoder-decoder, or nullopt if there is no encoder or the folder also
/// has a model in one file. Fails with kBadInput if a file is missing.
Result<std::optional<ModelFile>> encoder_decoder(const std::vector<std::string>& graphs,
                                                 const fs::path& path, const fs::path& folder) {
  EncoderDecoderFiles parts{.encoder = best_named(graphs, "encoder_model"),
                            .first_decoder = best_named(graphs, "decoder_model"),
                            .decoder = best_named(graphs, "decoder_with_past_model")};
  if (parts.encoder.empty() || std::ranges::count(graphs, "model.onnx") != 0)
    return std::optional<ModelFile>();
  const std::string merged = best_named(graphs, "decoder_model_merged");
  if (!merged.empty() && (parts.first_decoder.empty() || parts.decoder.empty()))
    parts.first_decoder = parts.decoder = merged;
  if (parts.first_decoder.empty() || parts.decoder.empty()) {
    return file_failure(
        ErrorKind::kBadInput, path.string(),
        std::string("an encoder-decoder without ") +
            (parts.first_decoder.empty() ? "decoder_model.onnx" : "decoder_with_past_model.onnx"),
        "llmc reads encoder_model.onnx, decoder_model.onnx and decoder_with_past_model.onnx, or "
        "decoder_model_merged.onnx in place of both, as Optimum writes them for the task "
        "text2text-generation-with-past");
  }
  ModelFile file{.folder = folder, .name = parts.decoder, .note = {}};
  file.parts = std::move(parts);
  return std::optional(std::move(file));
}

/// Returns the folders in `path`, sorted.
std::vector<std::string> folders_in(const fs::path& path) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    std::error_code unknown;
    if (it->is_directory(unknown)) found.push_back(it->path().string());
  }
  std::ranges::sort(found);
  return found;
}

/// Returns the subfolders of `path` that are bundles, such as those of several targets or shards.
std::vector<std::string> bundles_in(const fs::path& path) {
  std::vector<std::string> found = folders_in(path);
  std::erase_if(found, [](const std::string& folder) {
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
      if (it->path().filename().string().ends_with(".plan.json")) return false;
    return true;
  });
  return found;
}

/// Returns the name of the bundle whose library, header and CMake file are among `files`, and whose
/// plan.json is not; empty if there is none.
std::string incomplete_bundle(const std::vector<std::string>& files) {
  const auto has = [&](const std::string& name) { return std::ranges::count(files, name) != 0; };
  for (const std::string& file : files) {
    if (!file.starts_with("lib") || !file.ends_with(".a")) continue;
    const std::string name = file.substr(3, file.size() - 5);
    if (has(name + ".h") && has(name + ".cmake") && !has(name + ".plan.json")) return name;
  }
  return {};
}

/// Returns the error for a folder without a model. `graphs` are .onnx files with other names;
/// `others` are all files in the folder itself.
Diagnostic no_model(const fs::path& path, const std::vector<std::string>& graphs,
                    const std::vector<std::string>& others) {
  Diagnostic d;
  d.file = path.string();
  d.message = "the folder has neither block_0.onnx nor model.onnx";
  d.hint = "give the folder of a split export, or the path of one .onnx file";
  if (!graphs.empty()) {
    d.message += "; it has " + list_of(graphs);
    d.hint = "give the path of the model's file";
    return d;
  }
  if (const auto bundles = bundles_in(path); !bundles.empty()) {
    d.message += "; it has the bundles " + list_of(bundles);
    d.hint = fs::path(bundles.front()).filename() == "stage-0"
                 ? "run the shards of a model together: mpirun -n " +
                       std::to_string(bundles.size()) + " llmc-mpi-run run " +
                       printable(path.string(), 400)
                 : "commands that run a compiled model take the path of one of them";
    return d;
  }
  if (const auto snapshots = folders_in(path / "snapshots"); !snapshots.empty()) {
    d.message += "; it is an entry of the Hugging Face cache";
    d.hint = "give one of its snapshots: " + list_of(snapshots);
    return d;
  }
  // Weight files in the formats of other programs.
  std::vector<std::string> weights;
  for (const std::string& name : others) {
    const fs::path extension = fs::path(name).extension();
    if (extension == ".safetensors" || extension == ".gguf" || name == "pytorch_model.bin")
      weights.push_back(name);
  }
  if (const std::string name = incomplete_bundle(others); weights.empty() && !name.empty()) {
    d.message = fmt::format("damaged bundle: it has lib{0}.a and {0}.h, but no {0}.plan.json",
                            printable(name, 100));
    d.hint = "copy the whole folder that llmc compile wrote, or compile the model again";
    return d;
  }
  const bool export_it = !weights.empty() || std::ranges::count(others, "config.json") != 0;
  if (!weights.empty()) d.message += "; it has " + list_of(weights) + ", but llmc reads ONNX";
  if (!export_it) return d;
  const bool gguf =
      std::ranges::all_of(weights, [](const std::string& name) { return name.ends_with(".gguf"); });
  const std::string model = gguf && !weights.empty()
                                ? "NAME_OR_FOLDER"  // the export needs the original model
                                : printable(path.string(), 400);
  d.hint = "export it with Hugging Face's Optimum: optimum-cli export onnx --model " + model +
           " --task text-generation-with-past FOLDER";
  return d;
}

}  // namespace

Result<ModelFile> find_model(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error))
    return ModelFile{.folder = {}, .name = path.filename().string(), .note = {}};
  LLMC_TRY(const FolderContents contents, list_folder(path));
  if (!contents.blocks.empty()) return ModelFile{};
  std::vector<std::string> graphs = graphs_of(contents);
  LLMC_TRY(auto parts, encoder_decoder(graphs, path, {}));
  if (parts) return *std::move(parts);
  if (auto best = best_of(graphs, {})) return *std::move(best);
  if (!fs::is_directory(path / kGraphFolder, error)) return no_model(path, graphs, contents.others);
  LLMC_TRY(const FolderContents below, list_folder(path / kGraphFolder));
  const std::vector<std::string> graphs_below = graphs_of(below);
  LLMC_TRY(parts, encoder_decoder(graphs_below, path, kGraphFolder));
  if (parts) return *std::move(parts);
  if (auto best = best_of(graphs_below, kGraphFolder)) return *std::move(best);
  for (const std::string& name : graphs_below)
    graphs.push_back((fs::path(kGraphFolder) / name).string());
  return no_model(path, graphs, contents.others);
}

}  // namespace llmc::importer
