#include "compiler/onnx/split_model.h"

#include <algorithm>

#include "compiler/onnx/limits.h"
#include "compiler/onnx/operators.h"
#include "compiler/onnx/tokenizer_file.h"

namespace llmc::importer {
namespace {

using ir::ValueId;

constexpr std::uint64_t kMaxConfigBytes = 1 << 20;

Result<std::string_view> read_text(FileSet& files, const std::string& name, FileRole role,
                                   std::uint64_t max_bytes) {
  LLMC_TRY(const auto mapped, files.map(name, role));
  const auto bytes = mapped->bytes();
  if (bytes.size() > max_bytes) {
    return file_failure(
        ErrorKind::kBadInput, name,
        "is larger than the " + std::to_string(max_bytes) + " bytes that are allowed");
  }
  // The set of files keeps the mapping.
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

/// All of a split model's graphs, opened and ordered.
struct Parts {
  std::vector<Part> blocks;
  Part head;
  std::optional<Part> embedding;
};

Result<Parts> open_parts(FileSet& files, const FolderContents& contents,
                         const ImportOptions& options) {
  Parts parts;
  if (!contents.head) {
    return file_failure(ErrorKind::kBadInput, "lm.onnx",
                        "the file is missing: nothing turns hidden states into logits",
                        "copy lm.onnx into the folder");
  }
  if (!contents.embedding_table && !contents.embedding_graph) {
    return file_failure(ErrorKind::kBadInput, "embeddings_bf16.bin",
                        "neither embeddings_bf16.bin nor embedding.onnx is in the folder",
                        "copy the model's embedding into the folder");
  }
  for (const auto& name : contents.blocks) {
    LLMC_TRY(Part part,
             open_part(files, name, FileRole::kBlock, options, {"hidden_states", "presents"}));
    LLMC_RETURN_IF_ERROR(require_cache(part));
    parts.blocks.push_back(std::move(part));
  }
  LLMC_TRY(parts.head, open_head(files, *contents.head, FileRole::kHead, options));
  if (!contents.embedding_table) {
    LLMC_TRY(parts.embedding, open_part(files, *contents.embedding_graph, FileRole::kEmbedding,
                                        options, {"inputs_embeds"}));
  }
  return parts;
}

/// Every unsupported operator of every file at once.
Status require_supported(const Parts& parts) {
  std::vector<Diagnostic> all;
  const auto look = [&](const Part& part) {
    auto found = unsupported_operators(*part.file, part.file->model.graph(), part.graph.nodes);
    std::move(found.begin(), found.end(), std::back_inserter(all));
  };
  std::for_each(parts.blocks.begin(), parts.blocks.end(), look);
  look(parts.head);
  if (parts.embedding) look(*parts.embedding);
  if (!all.empty()) return Error(std::move(all));
  return ok_status();
}

/// Width of the hidden rows: what the configuration says, or else what the first block declares.
/// The weights decide: a wrong one fails where it meets them.
Result<std::int64_t> find_hidden(const LlmConfig& config, const Part& block) {
  if (config.hidden) return *config.hidden;
  const auto* declared = block.input(used_input(block, {"inputs_embeds", "hidden_states"}));
  if (declared) {
    const auto& shape = declared->type().tensor_type().shape();
    if (shape.dim_size() > 0) {
      const auto size = shape.dim(shape.dim_size() - 1).dim_value();
      if (size > 0 && size <= kMaxHidden) return size;
    }
  }
  return block.bad("the width of the hidden states cannot be told from the graph",
                   "give hidden_size in llm_config.json");
}

/// Appends all parts. A block that holds something unsupported is stepped over, so that the others
/// are looked at too: the error then lists what all of them hold.
Result<ValueId> append_parts(Decoder& decoder, FileSet& files, const FolderContents& contents,
                             const Parts& parts) {
  auto embedded = contents.embedding_table
                      ? decoder.embed_with_table(files, *contents.embedding_table)
                      : decoder.embed_with_graph(files, *parts.embedding);
  LLMC_TRY(ValueId hidden, std::move(embedded));
  const ValueId rows = hidden;
  std::vector<Diagnostic> unsupported;
  const auto keep = [&](const Error& error) {
    const auto& list = error.diagnostics();
    const bool all = std::all_of(list.begin(), list.end(), [](const Diagnostic& d) {
      return d.kind == ErrorKind::kUnsupported;
    });
    if (all) unsupported.insert(unsupported.end(), list.begin(), list.end());
    return all;
  };
  for (std::size_t i = 0; i < parts.blocks.size(); ++i) {
    auto next = decoder.append_block(files, parts.blocks[i], static_cast<std::int64_t>(i), hidden);
    if (!next.ok() && !keep(next.error())) return std::move(next).error();
    hidden = next.ok() ? *next : rows;
  }
  auto logits = decoder.append_head(files, parts.head, hidden);
  if (!logits.ok() && !keep(logits.error())) return std::move(logits).error();
  if (!unsupported.empty()) return Error(std::move(unsupported));
  return logits;
}

}  // namespace

Result<LlmConfig> read_config(FileSet& files, const FolderContents& contents) {
  if (!contents.config) return LlmConfig{};
  LLMC_TRY(const auto text, read_text(files, *contents.config, FileRole::kConfig, kMaxConfigBytes));
  return parse_config(text, *contents.config);
}

Status read_tokenizer(FileSet& files, const FolderContents& contents, ImportedModel& model) {
  if (contents.tokenizer_text) {
    LLMC_TRY(const auto text, read_text(files, *contents.tokenizer_text, FileRole::kTokenizer,
                                        std::uint64_t{1} << 28));
    LLMC_TRY(model.tokenizer,
             check_tokenizer_text(text, *contents.tokenizer_text, model.facts.vocabulary));
    model.tokenizer->path = files.root() / *contents.tokenizer_text;
    if (contents.tokenizer_model) files.note(*contents.tokenizer_model, FileRole::kIgnored);
  } else if (contents.tokenizer_model) {
    LLMC_RETURN_IF_ERROR(files.map(*contents.tokenizer_model, FileRole::kTokenizer));
    model.tokenizer = TokenizerFile{files.root() / *contents.tokenizer_model,
                                    TokenizerKind::kSentencePieceModel,
                                    0,
                                    {},
                                    {},
                                    {}};
  }
  return ok_status();
}

Result<ImportedModel> import_split(FileSet& files, const FolderContents& contents,
                                   const ImportOptions& options) {
  LLMC_TRY(const LlmConfig config, read_config(files, contents));
  LLMC_TRY(const Parts parts, open_parts(files, contents, options));
  LLMC_RETURN_IF_ERROR(require_supported(parts));

  Decoder::Shape shape;
  shape.layers = static_cast<std::int64_t>(parts.blocks.size());
  if (config.layers && *config.layers != shape.layers) {
    return file_failure(ErrorKind::kBadInput, *contents.config,
                        "'layer_nums' is " + std::to_string(*config.layers) +
                            ", but the folder holds " + std::to_string(shape.layers) + " blocks",
                        "copy the missing blocks, or correct the configuration");
  }
  LLMC_TRY(shape.hidden, find_hidden(config, parts.blocks[0]));
  LLMC_TRY(shape.cache, find_cache_shape(parts.blocks[0], config, 0));
  const auto any_uses = [&](const char* name) {
    return parts.head.uses(name) || std::any_of(parts.blocks.begin(), parts.blocks.end(),
                                                [&](const Part& part) { return part.uses(name); });
  };
  shape.uses_mask = any_uses("attention_mask");
  shape.uses_positions = any_uses("position_ids");

  Decoder decoder(shape);
  LLMC_TRY(const ValueId logits, append_parts(decoder, files, contents, parts));
  ImportedModel model;
  LLMC_RETURN_IF_ERROR(decoder.finish(parts.head, logits, decoder.presents(), model));
  model.prompt_template = config.prompt_template;
  LLMC_RETURN_IF_ERROR(read_tokenizer(files, contents, model));
  if (contents.embedding_table && contents.embedding_graph)
    files.note(*contents.embedding_graph, FileRole::kIgnored);
  for (const auto& name : contents.others) files.note(name, FileRole::kIgnored);
  return model;
}

}  // namespace llmc::importer
