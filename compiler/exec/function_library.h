#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/plan/plan.h"
#include "compiler/support/result.h"
#include "compiler/target/target.h"

/// Functions that are compiled and run at once, in this process or in a runner.
namespace llmc::exec {

/// Compiled functions: loaded into this process, or in a runner under an emulator (emulator.h).
class FunctionLibrary {
 public:
  struct Job {
    const ir::Graph* graph = nullptr;
    std::vector<ir::Value> inputs = {};  // of the signature (plan_graph)
    std::string name;                    // a C identifier, different in each
    /// Its plan, for any place of the weights, if it has been planned; graph and inputs are unused.
    const plan::Plan* plan = nullptr;
    ir::WeightFormat quant = ir::WeightFormat::kUnset;  // as for plan_graph
    plan::DimRanges open_dims = {};  // of the graph: ranges of the symbols in its inputs' shapes
  };
  /// Why a job has no code, or nothing.
  using Outcome = std::vector<std::optional<Error>>;

  /// Compiles many graphs with one run of clang and loads them: for tests of many small ones. A
  /// graph that is not supported has its error in `outcome` and no code; only a failing toolchain
  /// or emulator is an error. `emulator` as for find_emulator, `cc` as for find_toolchain; `cflags`
  /// come last.
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
  ~FunctionLibrary();
  FunctionLibrary(const FunctionLibrary&) = delete;
  FunctionLibrary& operator=(const FunctionLibrary&) = delete;

  /// Runs job `index`, which has code, on `threads` threads (in a runner: one). `inputs` in the
  /// order of its signature; they must have its types, and their dims are the sizes of the open
  /// dims. kBadInput when the code reports a bad index or a size is out of its range;
  /// kToolchain when a runner ends, after which the next call starts it anew. One call at a time.
  Result<std::vector<ir::ConstantPtr>> run(std::size_t index,
                                           std::span<const ir::ConstantPtr> inputs,
                                           std::uint32_t threads = 1) const;
  /// Runs job `index` `repetitions` times after one run that does not count: seconds of each call,
  /// without making inputs and outputs. In a runner the time includes sending both. Errors as
  /// run().
  Result<std::vector<double>> time(std::size_t index, std::span<const ir::ConstantPtr> inputs,
                                   std::uint32_t repetitions, std::uint32_t threads = 1) const;
  const plan::Plan& plan(std::size_t index) const;
  /// The emulator's command; empty when the code runs in this process.
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
