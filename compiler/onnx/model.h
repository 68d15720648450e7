#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/support/result.h"

/// Import of ONNX models: converts the files of a model to a module of the IR.
namespace llmc::importer {

/// Purpose of a file in a model.
enum class FileRole : std::uint8_t {
  kBlock,         // block_i.onnx
  kEmbedding,     // embeddings_bf16.bin, embedding.onnx or embed_tokens*.onnx
  kHead,          // lm.onnx
  kModel,         // a model in one file
  kImageEncoder,  // vision_encoder*.onnx
  kAudioEncoder,  // audio_encoder*.onnx
  kConfig,        // llm_config.json
  kTokenizer,     // tokenizer.txt, tokenizer.model
  kExternalData,  // tensors stored next to an .onnx file
  kIgnored,       // not used
};
std::string_view to_string(FileRole role);  // "block", "embedding", …
/// Returns the role of a media encoder's file, by its name: kAudioEncoder if it begins with
/// "audio_encoder", otherwise kImageEncoder.
FileRole encoder_role(std::string_view name);

struct FileInfo {
  std::filesystem::path path;
  std::string name;  // relative to the model's folder
  FileRole role = FileRole::kIgnored;
  std::uint64_t size_bytes = 0;
};

enum class TokenizerKind : std::uint8_t {
  kSentencePieceText,   // tokenizer.txt, type 0
  kTiktokenText,        // tokenizer.txt, type 1
  kBertText,            // tokenizer.txt, type 2
  kHuggingFaceText,     // tokenizer.txt, type 3
  kSentencePieceModel,  // tokenizer.model
};
std::string_view to_string(TokenizerKind kind);

/// A tokenizer file. The structure of tokenizer.txt has been checked: special ids are below
/// `tokens`, stop and prefix ids below the number of logits.
struct TokenizerFile {
  std::filesystem::path path;
  TokenizerKind kind = TokenizerKind::kSentencePieceText;
  /// Number of tokens in the file; 0 for kSentencePieceModel, which is not read.
  std::int64_t tokens = 0;
  std::vector<std::int64_t> special_ids, stop_ids, prefix_ids;
};

struct ImportedModel {
  /// Inputs of a decoder's `forward`; all except input_ids are present only if used:
  ///   input_ids       i64[seq]
  ///   attention_mask  f32[1, 1, seq, past + seq], additive
  ///   position_ids    i64[1, seq]
  ///   position_axes   i64[n, seq]
  ///   past.0 …        f32[2, 1, past, kv_heads, D] or [2, 1, kv_heads, past, D]
  ///   source.0 …      f32[2, kv_heads, source, D]
  ///   state.0 …       f32[seq, …]
  /// Outputs:
  ///   logits          f32[…, vocabulary], for the last token or for each token
  ///   present.0 …     like past, with past + seq tokens
  ///   next_state.0 …  like state
  /// A plain graph's `run` and a decoder's `encode_image` keep their own inputs. Large
  /// constants are views of mapped files, which the graph keeps alive.
  ir::Module module;
  /// Whether a plain graph has token ids, logits and symbolic sizes like a decoder, but no cache.
  bool lacks_cache = false;
  std::filesystem::path path;   // as given
  std::vector<FileInfo> files;  // sorted by name
  std::string prompt_template;  // llm_config.json, with %s for the user's text; may be empty
  std::optional<TokenizerFile> tokenizer;
  /// Contradictions in the files that do not affect results (at most kMaxWarnings). Also says if a
  /// media encoder, or its positions, are not compiled.
  std::vector<Diagnostic> warnings;

  const ir::Graph& graph() const { return module.graph(); }
  bool is_decoder() const { return module.is_decoder(); }
};

/// Maximum number of warnings about the files of one import. If there are at least that many, the
/// last one states how many are omitted.
inline constexpr std::size_t kMaxWarnings = 6;

struct ImportOptions {
  /// Maximum size of an .onnx file in bytes, not counting raw tensor data.
  std::uint64_t max_structure_bytes = 1u << 30;
  /// Called with each of ImportedModel::warnings after the model has been bound.
  std::function<void(const Diagnostic&)> on_warning;
  /// Plain graphs: whether products of dynamically quantized activations with constant matrices
  /// become products of floats, for kernels that quantize activations themselves. Decoders and
  /// their encoders always do so.
  bool float_products = false;
};

/// Values and types for inputs of a plain graph, by name.
struct PlainInputs {
  std::map<std::string, ir::ConstantPtr> values;  // inputs that become constants of the graph
  /// Types that replace the declared ones, which are wrong in some files.
  std::map<std::string, ir::TensorType> types;
  bool wide_outputs = false;    // outputs that are declared f16 or bf16 are f32
  bool float_products = false;  // ImportOptions::float_products
};

/// Names of the files of an encoder-decoder.
struct EncoderDecoderFiles {
  std::string encoder, first_decoder, decoder;  // first_decoder: without a past; may equal decoder
};

/// Prefix of the file names of audio encoders. Those of image encoders begin with "vision_encoder".
inline constexpr std::string_view kAudioEncoder = "audio_encoder";

/// The model chosen in a folder.
struct ModelFile {
  std::filesystem::path folder;  // relative to the given folder; empty: that folder itself
  std::string name;              // in `folder`; empty: the folder holds split blocks
  std::string note;  // reason for the choice if there are several files; otherwise empty
  /// Set for an encoder-decoder; `name` is its decoder with a past.
  std::optional<EncoderDecoderFiles> parts = {};
  /// vision_encoder*.onnx or audio_encoder*.onnx in `folder`; empty: none.
  std::string media_encoder = {};
};
/// Chooses the model among the files of the folder or, if it has none, of its subfolder `onnx`,
/// where Hugging Face repositories store graphs. Among files that differ only in how they store
/// weights, prefers the least quantized one, because llmc quantizes models itself. Uses file names
/// only. A path that is not a folder is the model itself. Fails with kBadInput if there is no
/// model, or if an encoder-decoder lacks one of its files.
Result<ModelFile> find_model(const std::filesystem::path& path);

struct ModelFiles;

/// Reads models. Each file's graph is parsed once, even if its model is bound several times: copies
/// of a reader share the parsed graphs and keep them in memory. Not thread-safe.
class ModelReader {
 public:
  /// Returns the model at `path`, a folder (find_model) or one `.onnx` file: a decoder if a binder
  /// (bind/bind.h) accepts it, otherwise a plain graph. Later calls return the first result again,
  /// without calling on_warning, except for a plain graph with another value of float_products.
  /// Fails with kBadInput, with file and node, or with kUnsupported, with one diagnostic for each
  /// kind of unsupported node in each file.
  Result<ImportedModel> bind(const std::filesystem::path& path,
                             const ImportOptions& options = {}) const;
  /// Returns the graph of one file as a plain graph, even if it is a decoder. Does the same as
  /// bind() for split blocks. Fails like bind().
  Result<ImportedModel> bind_plain(const std::filesystem::path& path,
                                   const PlainInputs& inputs = {},
                                   const ImportOptions& options = {}) const;
  /// Finds the model's files without reading them. The reader owns the result. The
  /// max_structure_bytes of the first call for `path` applies to all later calls.
  Result<ModelFiles*> open(const std::filesystem::path& path,
                           const ImportOptions& options = {}) const;

 private:
  using Models = std::map<std::filesystem::path, std::shared_ptr<ModelFiles>>;
  std::shared_ptr<Models> models_ = std::make_shared<Models>();
};

/// If the diagnostic's file is the name of one of the model's .onnx files, as in ir::Origin,
/// replaces it by the path of the file, in the folder as the user gave it.
Diagnostic with_path(Diagnostic diagnostic, const ImportedModel& model);
Error with_paths(const Error& error, const ImportedModel& model);

/// Returns a warning that a decoder is compiled without its media encoder because of `error`.
Diagnostic without_media_encoder(const Error& error);
/// Returns the warning that the decoder in `file` takes separate positions for image rows (time,
/// height, width), but is compiled without them.
Diagnostic without_image_positions(const std::string& file);

/// Calls ModelReader::bind with a temporary reader.
Result<ImportedModel> import_model(const std::filesystem::path& path,
                                   const ImportOptions& options = {});

/// Returns the number of times that this process parsed the graph of each .onnx file, by path.
std::map<std::filesystem::path, int> parse_counts();

/// Returns a hash of the names, sizes and contents of the used files: 128 bits as 32 hexadecimal
/// digits, used as cache key of compiled code. Reads every byte of the files.
Result<std::string> content_hash(const ImportedModel& model);

}  // namespace llmc::importer
