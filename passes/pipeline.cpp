#include "passes/pipeline.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <unordered_set>

#include "compiler/ir/text.h"
#include "compiler/ir/verify.h"
#include "compiler/support/check.h"
#include "passes/assign_weight_formats.h"
#include "passes/fusions.h"
#include "passes/transforms.h"

namespace llmc::passes {

namespace {

constexpr PassEntry kPipeline[] = {
    {"choose_by_length", choose_by_length, "before constants are folded, which it makes",
     PassGraphs::kDecoders},
    {"fold_constants", fold_constants, "first: fusions match constant bounds and shapes"},
    {"simplify", simplify, "casts, views and stacks without effect separate the parts of patterns"},
    {"fuse_softmax", fuse_softmax, "before attention and experts, which match softmax"},
    {"dense_rows", dense_rows, "before fusions, which match the experts' operators"},
    {"fuse_dynamic_quant", fuse_dynamic_quant,
     "before products are fused, after their scales are constants"},
    {"eliminate_common", eliminate_common,
     "blocks compute equal angles and masks; fusions compare operands by identity"},
    {"fold_products", fold_products, "after equal products are one; before fusions take them",
     PassGraphs::kPlain},
    {"fuse_rms_norm", fuse_rms_norm, "before other fusions match a norm's factors as a scale"},
    {"fuse_layer_norm", fuse_layer_norm, "an RMS norm of centred rows is a layer norm"},
    {"fuse_rope", fuse_rope, "before attention, whose pattern ends at the rotated keys",
     PassGraphs::kDecoders},
    {"fuse_attention", fuse_attention,
     "needs constant scales and shapes; drops the mask and the repeated heads",
     PassGraphs::kDecoders},
    {"latent_cache", latent_cache, "after attention; before products become layers",
     PassGraphs::kDecoders},
    {"fuse_cross_attention", fuse_cross_attention, "like fuse_attention", PassGraphs::kDecoders},
    {"fuse_scaled_attention", fuse_scaled_attention,
     "after attention with a cache; before products become layers", PassGraphs::kPlain},
    {"canonical_positions", canonical_positions,
     "after rope and attention, which match positions of any form", PassGraphs::kDecoders},
    {"fuse_gelu", fuse_gelu, "before gates: an activation is one of their factors"},
    {"fuse_gated_activation", fuse_gated_activation,
     "before products become layers: its factors are plain nodes"},
    {"choose_experts", choose_experts, "before fuse_experts, which includes the biases",
     PassGraphs::kDecoders},
    {"fuse_experts", fuse_experts, "before products become layers, and their views",
     PassGraphs::kDecoders},
    {"channels_last_conv", channels_last_conv,
     "after activations and norms, which it moves or leaves", PassGraphs::kPlain},
    {"to_linear", to_linear, "the remaining matrix products are layers; includes their biases"},
    {"sink_transposes", sink_transposes, "after the layers whose transposes it moves",
     PassGraphs::kPlain},
    {"simplify", simplify, "cancels transposes left by rope, attention and convolutions"},
    {"split_linear", split_linear, "splits fused projections before they are merged again"},
    {"eliminate_common", eliminate_common, "one constant for the frequencies of all layers"},
    {"merge_qkv", merge_qkv, "before norm and residual are fused"},
    {"merge_gate_up", merge_gate_up, "likewise"},
    {"fuse_activation", fuse_activation, "the remaining activations of layers"},
    {"select_row_early", select_row_early, "before the norm is fused into the head"},
    {"simplify", simplify, "views that became adjacent"},
    {"fuse_norm", fuse_norm, "after merging, so that a norm has one reader"},
    {"fuse_residual", fuse_residual, "after merging, which matches layers without residual"},
    {"eliminate_common", eliminate_common, "duplicates left by fusions"},
    {"eliminate_dead", eliminate_dead, "removes unused nodes before planning"},
    {"roll_layers", roll_layers, "after all passes that match across layers",
     PassGraphs::kDecoders},
    {"assign_weight_formats", assign_weight_formats,
     "after roll_layers: one format for a loop's matrices"},
    {"requantize", requantize, "after formats: floats keep their codes"},
    {"hadamard_inputs", hadamard_inputs, "last: after formats, which decide about it"},
};

}  // namespace

std::span<const PassEntry> pipeline() {
  return kPipeline;
}

std::vector<PassEntry> registry() {
  std::vector<PassEntry> found;
  for (const PassEntry& entry : kPipeline)
    if (std::ranges::find(found, entry.name, &PassEntry::name) == found.end())
      found.push_back(entry);
  return found;
}

const PassEntry* find_pass(std::string_view name) {
  const auto* it = std::ranges::find(kPipeline, name, &PassEntry::name);
  return it == std::end(kPipeline) ? nullptr : it;
}

Result<PipelineResult> run_passes(ir::Graph graph, std::span<const PassEntry> passes,
                                  const PipelineOptions& options) {
  PipelineResult result{std::move(graph), {}};
  if (options.dump) LLMC_RETURN_IF_ERROR(options.dump(0, "imported", result.graph));
  for (const PassEntry& entry : passes) {
    const bool is_decoder = result.graph.is_decoder();
    if (entry.graphs == (is_decoder ? PassGraphs::kPlain : PassGraphs::kDecoders)) continue;
    PassReport report;
    report.name = entry.name;
    report.nodes_before = result.graph.nodes().size();
    std::vector<std::string> before;
    for (ir::ValueId input : result.graph.inputs())
      before.push_back(result.graph.value(input).name);

    const auto begin = std::chrono::steady_clock::now();
    auto next = entry.run(std::move(result.graph), options.context);
    report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const auto in_pass = [&](Error error) {
      std::vector<Diagnostic> diagnostics = error.diagnostics();
      for (Diagnostic& d : diagnostics)
        d.message = "pass " + std::string(entry.name) + ": " + d.message;
      return Error(std::move(diagnostics));
    };
    if (!next.ok()) return in_pass(std::move(next).error());
    result.graph = std::move(next).value();
    if (options.verify)
      if (auto status = ir::verify(result.graph); !status.ok())
        return in_pass(std::move(status).error());

    report.nodes_after = result.graph.nodes().size();
    std::unordered_set<std::string_view> kept;
    for (ir::ValueId input : result.graph.inputs()) kept.insert(result.graph.value(input).name);
    for (std::string& name : before)
      if (!kept.contains(name)) report.dropped_inputs.push_back(std::move(name));
    // Inputs of a plain graph are parameters of the compiled function.
    LLMC_CHECK(is_decoder || report.dropped_inputs.empty());
    result.reports.push_back(std::move(report));
    if (options.dump)
      LLMC_RETURN_IF_ERROR(options.dump(result.reports.size(), entry.name, result.graph));
  }
  return result;
}

Result<PipelineResult> run_pipeline(ir::Graph graph, const PipelineOptions& options) {
  return run_passes(std::move(graph), kPipeline, options);
}

DumpHook dump_ir_to(std::filesystem::path folder) {
  return [folder = std::move(folder)](std::size_t number, std::string_view pass,
                                      const ir::Graph& graph) -> Status {
    char prefix[24];
    std::snprintf(prefix, sizeof prefix, "%02zu-", number);
    const auto path = folder / (prefix + std::string(pass) + ".ir");
    std::ofstream file(path, std::ios::binary);
    file << ir::print(graph);
    if (!file.flush())
      return file_failure(ErrorKind::kUsage, path.string(), "cannot write the IR dump",
                          "--dump-ir takes an existing folder");
    return ok_status();
  };
}

}  // namespace llmc::passes
