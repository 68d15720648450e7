#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "passes/pass.h"

namespace llmc::passes {

/// The graphs that a pass is run on: Graph::is_decoder() tells decoders from plain graphs.
enum class PassGraphs : std::uint8_t { kAll, kDecoders, kPlain };

struct PassEntry {
  std::string_view name;
  PassFunction run = nullptr;
  std::string_view why;  // reason for its position in the pipeline
  PassGraphs graphs = PassGraphs::kAll;
};

/// Returns the passes that convert an imported graph to stages, in order. Some occur several times.
std::span<const PassEntry> pipeline();
/// Returns every pass once, for llmc-opt.
std::vector<PassEntry> registry();
/// Returns the pass of that name, or nullptr.
const PassEntry* find_pass(std::string_view name);

/// Statistics of one pass.
struct PassReport {
  std::string_view name;
  double seconds = 0;
  std::size_t nodes_before = 0, nodes_after = 0;
  std::vector<std::string> dropped_inputs;  // names of the graph inputs that the pass removed
};

/// Callback with the graph after each pass. Number 0 is the graph before the first pass. An error
/// ends run_passes().
using DumpHook =
    std::function<Status(std::size_t number, std::string_view pass, const ir::Graph& graph)>;

struct PipelineOptions {
  PassContext context;
  bool verify = true;  // verify the graph after each pass; an error names the pass
  DumpHook dump;       // may be empty
};

struct PipelineResult {
  ir::Graph graph;
  std::vector<PassReport> reports;
};

/// Runs `passes` in order, except those that are for other graphs (PassEntry::graphs). Returns the
/// error of a pass or of the hook, or kInternal if PipelineOptions::verify is set and the result of
/// a pass is not a valid graph. The message names the pass, unless the hook failed.
Result<PipelineResult> run_passes(ir::Graph graph, std::span<const PassEntry> passes,
                                  const PipelineOptions& options);
/// Calls run_passes() with pipeline().
Result<PipelineResult> run_pipeline(ir::Graph graph, const PipelineOptions& options = {});

/// Returns a hook that writes each graph to a file NN-PASS.ir in an existing folder (`--dump-ir`).
/// It fails with kUsage if a file cannot be written.
DumpHook dump_ir_to(std::filesystem::path folder);

}  // namespace llmc::passes
