#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/driver/toolchain.h"
#include "compiler/exec/emulator.h"
#include "compiler/support/child_process.h"
#include "compiler/support/result.h"
#include "runtime/runner/protocol.h"

/// Processes that execute compiled code (runtime/runner) under an emulator.
namespace llmc::exec {

/// Links the archive of model `name` with its runner. `has_grammar`: whether the archive defines
/// NAME_grammar.
Status link_model_runner(const driver::Toolchain& toolchain, const target::Target& target,
                         const std::filesystem::path& archive, std::string_view name,
                         bool has_grammar, const std::filesystem::path& program);

/// Links a runner with an object that contains functions and the table llmc_runner_functions
/// (function_runner.cpp).
Status link_function_runner(const driver::Toolchain& toolchain, const target::Target& target,
                            const std::filesystem::path& object,
                            const std::filesystem::path& program);

/// Checks that the emulator can run code for `target`: links and runs a program without functions,
/// which checks the CPU features. Fails with kToolchain if the program cannot be linked, does not
/// run or does not reply within 15 seconds. Fails with kUnsupported if CPU features are missing.
Status try_emulator(const driver::Toolchain& toolchain, const target::Target& target,
                    const Emulator& emulator);

/// Calls find_emulator(), and try_emulator() for its result.
Result<std::optional<Emulator>> find_working_emulator(const driver::Toolchain& toolchain,
                                                      const target::Target& target,
                                                      const std::string& given);

/// A running runner process; terminated on destruction.
class RunnerProcess {
 public:
  using Limit = std::chrono::milliseconds;
  /// Maximum time until the hello message arrives. It is long because the machine may be busy; an
  /// emulator usually starts in much less than a second.
  static constexpr Limit kHelloLimit{60'000};

  /// Starts the program and waits for its hello. Fails with kToolchain if the emulator is missing
  /// or ends, or if no valid hello arrives within `limit`.
  static Result<std::unique_ptr<RunnerProcess>> start(const Emulator& emulator,
                                                      const std::filesystem::path& program,
                                                      runner::Kind kind, Limit limit = kHelloLimit);

  /// Starts a runner of functions, which loads the file of their constants (empty: none). Fails
  /// like start(), with kUnsupported if the CPU lacks instructions that the functions use, and with
  /// kBadInput if the file cannot be loaded.
  static Result<std::unique_ptr<RunnerProcess>> start_functions(
      const Emulator& emulator, const std::filesystem::path& program,
      const std::filesystem::path& constants, Limit limit = kHelloLimit);

  const runner::Hello& hello() const { return hello_; }

  /// A reply: its data, and the numbers of its runner::ReplyHeader.
  struct Reply {
    std::uint32_t status = 0;
    std::int32_t value = 0;
    std::uint64_t position = 0;
    std::vector<std::byte> data;  // an error message if the status is not 0

    std::string message() const {
      return {reinterpret_cast<const char*>(data.data()), data.size()};
    }
  };
  using Bytes = std::span<const std::byte>;
  /// Waits, for at most kHelloLimit, until the process exits by itself, so that an emulator's
  /// plugin can write its results. Call it only after the last request. Fails with kToolchain if
  /// the process does not exit, or exits with an error.
  Status finish();

  /// Sends a request with the concatenation of `parts`, and waits for the reply of at most
  /// `max_bytes` or an error message. Fails with kToolchain if the request has more than
  /// runner::kMaxRequestBytes, or if the runner ends, sends an invalid reply, or does not reply
  /// within `limit` (nullopt: no limit).
  Result<Reply> request(runner::Request what, std::uint32_t argument, std::span<const Bytes> parts,
                        std::uint64_t max_bytes, std::optional<Limit> limit = std::nullopt);

 private:
  RunnerProcess(std::string emulator, std::unique_ptr<ChildProcess> child)
      : emulator_(std::move(emulator)), child_(std::move(child)) {}
  Diagnostic broken(const std::string& what);

  std::string emulator_;  // for messages
  std::unique_ptr<ChildProcess> child_;
  runner::Hello hello_{};
};

}  // namespace llmc::exec
