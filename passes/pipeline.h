#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "passes/pass.h"

namespace llmc::passes {

struct PassEntry {
  std::string_view name;
  PassFunction run = nullptr;
  std::string_view why;  // why it stands where it stands
};

/// The passes from an imported graph to stages, in order; some stand there twice.
std::span<const PassEntry> pipeline();
/// The passes from an imported graph to one that is emitted as a function (docs/functions.md).
std::span<const PassEntry> function_pipeline();
/// Every pass once, for llmc-opt.
std::vector<PassEntry> registry();
/// The pass of that name, or nullptr.
const PassEntry* find_pass(std::string_view name);

/// What one pass did.
struct PassReport {
  std::string_view name;
  double seconds = 0;
  std::size_t nodes_before = 0, nodes_after = 0;
  std::vector<std::string> dropped_inputs;  // graph inputs that nothing reads any more
};

/// Called with the graph after each pass; number 0 is the graph before the first.
using DumpHook =
    std::function<Status(std::size_t number, std::string_view pass, const ir::Graph& graph)>;

struct PipelineOptions {
  PassContext context;
  bool verify = true;  // after each pass; an error names the pass
  DumpHook dump;       // may be empty
};

struct PipelineResult {
  ir::Graph graph;
  std::vector<PassReport> reports;
};

/// Runs `passes` in order. A broken graph is kInternal, with the pass's name in the message.
Result<PipelineResult> run_passes(ir::Graph graph, std::span<const PassEntry> passes,
                                  const PipelineOptions& options);
/// run_passes with pipeline().
Result<PipelineResult> run_pipeline(ir::Graph graph, const PipelineOptions& options = {});

/// Writes NN-pass.ir files into an existing folder (`--dump-ir`).
DumpHook dump_ir_to(std::filesystem::path folder);

}  // namespace llmc::passes
