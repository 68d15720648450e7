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

/// Compiles functions and runs them immediately, in this process or in a runner.
namespace llmc::exec {

/// A set of compiled functions, loaded into this process or in a runner under an emulator
/// (emulator.h).
class FunctionLibrary {
 public:
  struct Job {
    const ir::Graph* graph = nullptr;
    std::string name;  // a unique C identifier
    /// The plan, if it already exists; then `graph`, `quant` and `open_dims` are unused.
    /// Of its options only threads_max is used.
    const plan::Plan* plan = nullptr;
    passes::QuantScheme quant = {};  // as for plan_graph()
    plan::DimRanges open_dims = {};  // ranges of the symbols in the shapes of the graph's inputs
    std::uint32_t threads = 1;  // maximum number that run() is called with, if `plan` is not set
    bool stage_times = false;   // whether the code can measure stages: at most one job
  };
  /// For each job, the error because of which it has no code; nullopt if it has code.
  using Outcome = std::vector<std::optional<Error>>;

  /// Compiles graphs with one run of clang and loads them. A graph that cannot be planned gets an
  /// error in `outcome` and no code. `emulator` as for find_emulator(), `cc` as for
  /// find_toolchain(); `cflags` are appended to clang's arguments. Fails only for an unknown
  /// target, invalid weights, or if the toolchain or the emulator fails.
  static Result<std::unique_ptr<FunctionLibrary>> compile(
      std::span<const Job> jobs, const std::string& target, const std::vector<std::string>& cflags,
      Outcome& outcome, std::uint32_t opt_level = target::kMaxOptLevel,
      const std::string& emulator = {}, const std::string& cc = {});
  static Result<std::unique_ptr<FunctionLibrary>> compile(
      std::span<const Job> jobs, const std::string& target, const std::string& optimization,
      Outcome& outcome, std::uint32_t opt_level = target::kMaxOptLevel,
      const std::string& emulator = {}) {
    return compile(jobs, target, std::vector{optimization}, outcome, opt_level, emulator);
  }
  /// Compiles `plan` as job 0, with the compiler and flags of `options`.
  static Result<std::unique_ptr<FunctionLibrary>> compile(const driver::CompileOptions& options,
                                                          const plan::Plan& plan,
                                                          const std::string& emulator,
                                                          bool stage_times = false);
  /// Plans and compiles the plain graph in `source` for options.target, as job 0.
  static Result<std::unique_ptr<FunctionLibrary>> compile(const driver::CompileOptions& options,
                                                          driver::Source source,
                                                          const std::string& emulator,
                                                          const driver::Progress& progress);
  ~FunctionLibrary();
  FunctionLibrary(const FunctionLibrary&) = delete;
  FunctionLibrary& operator=(const FunctionLibrary&) = delete;

  /// Runs job `index`, which must have code, on `threads` threads (in a runner: 1). `inputs` must
  /// have the order and element types of its signature; their dims give the sizes of the open dims.
  /// Not thread-safe. Fails like dim_sizes(), with kBadInput if the code reports an invalid index
  /// or too many threads, and with kOverBudget if memory cannot be allocated. Fails with kToolchain
  /// if the runner ends; the next call restarts it.
  Result<std::vector<ir::ConstantPtr>> run(std::size_t index,
                                           std::span<const ir::ConstantPtr> inputs,
                                           std::uint32_t threads = 1) const;
  /// Runs job `index` once to warm up and then `repetitions` times. Returns the seconds of each
  /// repetition, without the allocation of inputs and outputs. In a runner, the time to send both
  /// is included. Fails like run().
  Result<std::vector<double>> time(std::size_t index, std::span<const ir::ConstantPtr> inputs,
                                   std::uint32_t repetitions, std::uint32_t threads = 1) const;
  /// Like time(), but returns the seconds of each stage, in the order of Program::forward, in the
  /// repetition with the median total. The job must have stage_times, and run in this process, and
  /// `repetitions` be at least 1.
  Result<std::vector<double>> stage_seconds(std::size_t index,
                                            std::span<const ir::ConstantPtr> inputs,
                                            std::uint32_t repetitions,
                                            std::uint32_t threads = 1) const;
  const plan::Plan& plan(std::size_t index) const;
  /// Returns the emulator's command; empty if the code runs in this process.
  std::string emulator() const;

 private:
  struct State;
  using DimSizes = std::map<std::string, std::int64_t>;
  /// Returns the sizes of the open dims by name. Fails like dim_sizes().
  Result<DimSizes> check_inputs(std::size_t index, std::span<const ir::ConstantPtr> inputs) const;
  explicit FunctionLibrary(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace llmc::exec
