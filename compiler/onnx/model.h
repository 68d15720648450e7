#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/result.h"

/// From ONNX files to the IR: what a model's files say, as one graph and plain data.
namespace llmc::importer {

/// What a file of a model is used for.
enum class FileRole : std::uint8_t {
  kBlock,         // block_i.onnx
  kEmbedding,     // embeddings_bf16.bin or embedding.onnx
  kHead,          // lm.onnx
  kModel,         // a model in one file
  kConfig,        // llm_config.json
  kTokenizer,     // tokenizer.txt, tokenizer.model
  kExternalData,  // tensors kept beside an .onnx file
  kIgnored,       // present, not used
};
std::string_view to_string(FileRole role);  // "block", "embedding", …

struct FileInfo {
  std::filesystem::path path;
  std::string name;  // relative to the model's folder
  FileRole role = FileRole::kIgnored;
  std::uint64_t size_bytes = 0;
};

/// kDecoder: the graph has the inputs and outputs listed at ImportedModel::graph, so text can be
/// generated with it. kGeneric: any other graph, with its own inputs and outputs.
enum class GraphKind : std::uint8_t { kDecoder, kGeneric };

enum class TokenizerKind : std::uint8_t {
  kSentencePieceText,   // tokenizer.txt, type 0
  kTiktokenText,        // tokenizer.txt, type 1
  kBertText,            // tokenizer.txt, type 2
  kHuggingFaceText,     // tokenizer.txt, type 3
  kSentencePieceModel,  // tokenizer.model
};
std::string_view to_string(TokenizerKind kind);

/// A tokenizer file whose structure has been checked (every id below the number of tokens).
struct TokenizerFile {
  std::filesystem::path path;
  TokenizerKind kind = TokenizerKind::kSentencePieceText;
  std::int64_t tokens = 0;  // how many the file lists; 0 for kSentencePieceModel (not read here)
  std::vector<std::int64_t> special_ids, stop_ids, prefix_ids;
};

/// What the files say about a decoder. Numbers come from weights and from the graph; the
/// configuration only confirms them. What fusion finds (heads, rope, epsilon) is not here.
struct ModelFacts {
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t vocabulary = 0;  // rows of the embedding table
  ir::CacheLayout cache_layout = ir::CacheLayout::kSequenceFirst;
  bool uses_mask = false;       // the graph reads attention_mask
  bool uses_positions = false;  // the graph reads position_ids
};

struct ImportedModel {
  /// kDecoder: inputs `input_ids` i64[seq]; `attention_mask` f32[1, 1, seq, past + seq], additive,
  /// when used; `position_ids` i64[1, seq], when used; `past.0` … f32[2, 1, past, kv_heads, D] or
  /// [2, 1, kv_heads, past, D]. Outputs: `logits` f32[…, vocabulary] (last row only or a row per
  /// token), `present.0` … with past + seq tokens. Symbols are "seq" and "past".
  /// Constants are windows into mapped files, which the graph keeps alive.
  ir::Graph graph;
  GraphKind kind = GraphKind::kGeneric;
  /// kGeneric: token ids in, logits out and sizes left open, as for a decoder, but no cache.
  bool lacks_cache = false;
  std::filesystem::path path;   // as given
  std::vector<FileInfo> files;  // sorted by name
  ModelFacts facts;             // kDecoder only
  std::string prompt_template;  // llm_config.json, with %s for the user's text; may be empty
  std::optional<TokenizerFile> tokenizer;
  /// Contradictions in the files that do not change what is computed; at most kMaxWarnings.
  std::vector<Diagnostic> warnings;
};

/// Warnings of one import; the last one counts those that were left out.
inline constexpr std::size_t kMaxWarnings = 6;

struct ImportOptions {
  /// Refuses .onnx files whose graph, tensors aside, is larger than this.
  std::uint64_t max_structure_bytes = 1u << 30;
  /// Takes the graph as a function of its own inputs (kGeneric) even when it is a decoder.
  bool as_function = false;
  /// kGeneric only: inputs that become constants of the graph, by name.
  std::map<std::string, ir::ConstantPtr> input_values;
  /// kGeneric only: types of inputs, by name, in place of the declared ones, which real files get
  /// wrong.
  std::map<std::string, ir::TensorType> input_types;
  /// Called with each of ImportedModel::warnings once the model has been read.
  std::function<void(const Diagnostic&)> on_warning;
};

/// The file of a folder that is its model.
struct ModelFile {
  std::filesystem::path folder;  // relative to the given folder; empty: that folder itself
  std::string name;              // in it; empty: the folder holds split blocks
  std::string note;              // why this one, when there are several; else empty
};
/// Lists the folder and its subfolder `onnx`, where Hugging Face models have their graphs; reads no
/// file. The least quantized model is taken, because llmc quantizes itself. A path that is no
/// folder is the model. kBadInput when there is none, kUnsupported for an encoder beside a decoder.
Result<ModelFile> find_model(const std::filesystem::path& path);

/// Reads a folder (find_model) or one `.onnx` file. Errors: kBadInput with file and node;
/// kUnsupported with one diagnostic for each unsupported node kind of each file, all at once.
Result<ImportedModel> import_model(const std::filesystem::path& path,
                                   const ImportOptions& options = {});

/// 128 bits over the names, sizes and contents of the files in use, as 32 hexadecimal digits: the
/// key under which compiled code is cached. Reads every byte once.
Result<std::string> content_hash(const ImportedModel& model);

}  // namespace llmc::importer
