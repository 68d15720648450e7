#include <algorithm>

#include "compiler/onnx/bind/bind.h"
#include "compiler/onnx/bind/decoder.h"
#include "compiler/onnx/operators.h"
#include "compiler/support/counted.h"

namespace llmc::importer {
namespace {

using ir::ValueId;

/// Opens lm.onnx. Its output is `logits`, or the operand of the ArgMax that computes `token_id`.
Result<Part> open_head(FileSet& files, const std::string& name) {
  Part part;
  LLMC_TRY(part.file, files.parse(name, FileRole::kHead));
  if (part.has_output("logits")) return open_part(files, name, FileRole::kHead, {"logits"});
  if (!part.has_output("token_id")) return part.bad("the graph has no output 'logits'");
  // Follow the id backwards through views to the ArgMax.
  std::map<std::string, const onnx::NodeProto*> makers;
  for (const auto& node : part.file->model.graph().node())
    for (const auto& output : node.output()) makers[output] = &node;
  std::string at = "token_id";
  for (std::size_t steps = 0; steps <= makers.size() && makers.contains(at); ++steps) {
    const auto& node = *makers[at];
    if (node.input_size() == 0) break;
    at = node.input(0);
    if (node.op_type() == "ArgMax") {
      LLMC_TRY(part.graph, order_graph(*part.file, {at}));
      return part;
    }
    static const std::set<std::string> kViews = {"Reshape",  "Squeeze", "Unsqueeze",
                                                 "Identity", "Cast",    "Flatten"};
    if (!kViews.contains(node.op_type())) break;
  }
  return part.bad("token_id is not the ArgMax of logits",
                  "export lm.onnx with logits as its output");
}

/// The graphs of a split model.
struct Parts {
  std::vector<Part> blocks;
  Part head;
  std::optional<Part> embedding;  // set if the embedding is a graph
};

Result<Parts> open_parts(FileSet& files, const FolderContents& contents) {
  Parts parts;
  if (!contents.head) {
    return file_failure(ErrorKind::kBadInput, "lm.onnx",
                        "the file is missing; it computes logits from hidden states",
                        "copy lm.onnx into the folder");
  }
  if (!contents.embedding_table && !contents.embedding_graph) {
    return file_failure(ErrorKind::kBadInput, "embeddings_bf16.bin",
                        "neither embeddings_bf16.bin nor embedding.onnx is in the folder",
                        "copy the model's embedding into the folder");
  }
  for (const auto& name : contents.blocks) {
    LLMC_TRY(Part part, open_part(files, name, FileRole::kBlock, {"hidden_states", "presents"}));
    LLMC_RETURN_IF_ERROR(require_cache(part));
    parts.blocks.push_back(std::move(part));
  }
  LLMC_TRY(parts.head, open_head(files, *contents.head));
  if (!contents.embedding_table) {
    LLMC_TRY(parts.embedding,
             open_part(files, *contents.embedding_graph, FileRole::kEmbedding, {"inputs_embeds"}));
  }
  return parts;
}

/// Fails with kUnsupported if any file has unsupported operators, and lists all of them.
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

/// Returns the width of the hidden rows, from the configuration or the declared input of the first
/// block. If the width is wrong, shape inference of the products with weights fails.
Result<std::int64_t> find_hidden(const LlmConfig& config, const Part& block) {
  if (config.hidden) return *config.hidden;
  const std::string rows = used_input(block, {"inputs_embeds", "hidden_states"});
  if (const std::int64_t width = declared_width(block, rows); width > 0) return width;
  return block.bad("the graph does not determine the width of the hidden states",
                   "give hidden_size in llm_config.json");
}

/// Appends all parts and returns the logits. Continues after a block with unsupported nodes, so
/// that the error lists the nodes of all blocks.
Result<ValueId> append_parts(Decoder& decoder, const FolderContents& contents, const Parts& parts) {
  LLMC_TRY(ValueId hidden, decoder.embed(contents, parts.blocks[0]));
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
    auto next = decoder.append_block(parts.blocks[i], static_cast<std::int64_t>(i), hidden);
    if (!next.ok() && !keep(next.error())) return std::move(next).error();
    hidden = next.ok() ? *next : rows;
  }
  auto logits = decoder.append_head(parts.head, hidden);
  if (!logits.ok() && !keep(logits.error())) return std::move(logits).error();
  if (!unsupported.empty()) return Error(std::move(unsupported));
  return logits;
}

}  // namespace

Result<ImportedModel> bind_split_blocks(FileSet& files, const FolderContents& contents) {
  LLMC_TRY(const LlmConfig config, read_config(files, contents));
  LLMC_TRY(const Parts parts, open_parts(files, contents));
  LLMC_RETURN_IF_ERROR(require_supported(parts));

  Decoder::Shape shape;
  shape.layers = static_cast<std::int64_t>(parts.blocks.size());
  if (config.layers && *config.layers != shape.layers) {
    return file_failure(ErrorKind::kBadInput, *contents.config,
                        "'layer_nums' is " + std::to_string(*config.layers) +
                            ", but the folder holds " + counted(shape.layers, "block"),
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

  Decoder decoder(files, shape);
  LLMC_TRY(const ValueId logits, append_parts(decoder, contents, parts));
  LLMC_TRY(ImportedModel model, decoder.finish(contents, parts.head, logits, decoder.presents()));
  model.prompt_template = config.prompt_template;
  if (contents.embedding_table && contents.embedding_graph)
    files.note(*contents.embedding_graph, FileRole::kIgnored);
  for (const auto& name : contents.others) files.note(name, FileRole::kIgnored);
  return model;
}

}  // namespace llmc::importer
