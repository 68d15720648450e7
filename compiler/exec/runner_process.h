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

/// Programs that execute compiled code in a process of their own (runtime/runner), perhaps under an
/// emulator.
namespace llmc::exec {

/// Links the archive of a model `name`, which has a NAME_grammar or has none, with its runner.
Status link_model_runner(const driver::Toolchain& toolchain, const target::Target& target,
                         const std::filesystem::path& archive, std::string_view name,
                         bool has_grammar, const std::filesystem::path& program);

/// Links an object with functions and the table llmc_runner_functions (function_runner.cpp) with
/// their runner.
Status link_function_runner(const driver::Toolchain& toolchain, const target::Target& target,
                            const std::filesystem::path& object,
                            const std::filesystem::path& program);

/// Whether the emulator runs code for `target`: a program without functions is linked for it, run,
/// and asked whether its processor has the features. kToolchain when it cannot be linked, does not
/// run or does not answer within seconds, kUnsupported when features are missing.
Status try_emulator(const driver::Toolchain& toolchain, const target::Target& target,
                    const Emulator& emulator);

/// find_emulator, and what it found is tried.
Result<std::optional<Emulator>> find_working_emulator(const driver::Toolchain& toolchain,
                                                      const target::Target& target,
                                                      const std::string& given);

/// A runner that runs. It ends with the object.
class RunnerProcess {
 public:
  using Limit = std::chrono::milliseconds;
  /// An emulator starts in much less than a second; a machine that is busy is waited for.
  static constexpr Limit kHelloLimit{60'000};

  /// Waits for its hello. kToolchain when the emulator is missing, ends or is not heard of within
  /// `limit`, or when what answers is no runner.
  static Result<std::unique_ptr<RunnerProcess>> start(const Emulator& emulator,
                                                      const std::filesystem::path& program,
                                                      runner::Kind kind, Limit limit = kHelloLimit);

  const runner::Hello& hello() const { return hello_; }

  struct Reply {
    std::uint32_t status = 0;
    std::int32_t value = 0;
    std::uint64_t position = 0;
    std::vector<std::byte> data;  // a message when the status is not 0

    std::string message() const {
      return {reinterpret_cast<const char*>(data.data()), data.size()};
    }
  };
  using Bytes = std::span<const std::byte>;
  /// Lets it end by itself, so that an emulator's plugin can write what it saw. kToolchain when it
  /// does not, or fails. Nothing can be asked afterwards.
  Status finish();

  /// Sends the request and waits for its reply of at most `max_bytes`, or of a message. kToolchain
  /// when the runner ends instead, or says nothing within `limit` (by default it is waited for).
  Result<Reply> ask(runner::Request what, std::uint32_t argument, std::span<const Bytes> parts,
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
