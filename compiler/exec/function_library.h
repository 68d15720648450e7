#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/driver/compile_options.h"
#include "compiler/driver/source.h"
#include "compiler/ir/graph.h"
#include "compiler/plan/plan.h"
#include "compiler/support/result.h"
#include "compiler/target/target.h"

/// Functions that are compiled and run in the same command, in this process or in a runner.
namespace llmc::exec {

/// Compiled functions: loaded into this process, or in a runner under an emulator (emulator.h).
class FunctionLibrary {
 public:
  struct Job {
    const ir::Graph* graph = nullptr;
    std::vector<ir::Value> inputs = {};  // of the signature (plan_graph)
    std::string name;                    // a unique C identifier
    /// The plan, if there is one, with any storage of weights; graph and inputs are then unused.
    const plan::Plan* plan = nullptr;
    ir::WeightFormat quant = ir::WeightFormat::kUnset;  // as for plan_graph
    plan::DimRanges open_dims = {};  // of the graph: ranges of the symbols in its inputs' shapes
  };
  /// For each job the error that prevented its code, if any.
  using Outcome = std::vector<std::optional<Error>>;

  /// Compiles graphs with one run of clang and loads them. An unsupported graph gets its error in
  /// `outcome` and no code; only failures of the toolchain or emulator are returned. `emulator` as
  /// for find_emulator, `cc` as for find_toolchain; `cflags` are appended to clang's arguments.
  static Result<std::unique_ptr<FunctionLibrary>> compile(
      std::span<const Job> jobs, const std::string& target, const std::vector<std::string>& cflags,
      Outcome& outcome, std::uint32_t opt_level = target::kMaxOptLevel,
      const std::string& emulator = {}, const std::string& cc = {});
  static Result<std::unique_ptr<FunctionLibrary>> compile(
      std::span<const Job> jobs, const std::string& target, const std::string& optimisation,
      Outcome& outcome, std::uint32_t opt_level = target::kMaxOptLevel,
      const std::string& emulator = {}) {
    return compile(jobs, target, std::vector{optimisation}, outcome, opt_level, emulator);
  }
  /// Plans and compiles the plain graph that `source` holds, for options.target.
  static Result<std::unique_ptr<FunctionLibrary>> compile(const driver::CompileOptions& options,
                                                          driver::Source source,
                                                          const std::string& emulator,
                                                          const driver::Progress& progress);
  ~FunctionLibrary();
  FunctionLibrary(const FunctionLibrary&) = delete;
  FunctionLibrary& operator=(const FunctionLibrary&) = delete;

  /// Runs job `index`, which must have code, on `threads` threads (in a runner: one). `inputs` have
  /// the order and types of its signature; their dims are the sizes of the open dims. kBadInput if
  /// the code reports a bad index or a size is out of its range; kToolchain if the runner ends,
  /// which the next call restarts. Not thread-safe.
  Result<std::vector<ir::ConstantPtr>> run(std::size_t index,
                                           std::span<const ir::ConstantPtr> inputs,
                                           std::uint32_t threads = 1) const;
  /// Runs job `index` once to warm up and `repetitions` times; returns the seconds of each call,
  /// excluding the allocation of inputs and outputs. In a runner, sending both is included. Errors
  /// as run().
  Result<std::vector<double>> time(std::size_t index, std::span<const ir::ConstantPtr> inputs,
                                   std::uint32_t repetitions, std::uint32_t threads = 1) const;
  const plan::Plan& plan(std::size_t index) const;
  /// The emulator's command; empty if the code runs in this process.
  std::string emulator() const;

 private:
  struct State;
  /// The sizes of the open dims, by name; kBadInput for other types than those of the function.
  using DimSizes = std::map<std::string, std::int64_t>;
  Result<DimSizes> check_inputs(std::size_t index, std::span<const ir::ConstantPtr> inputs) const;
  explicit FunctionLibrary(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace llmc::exec
