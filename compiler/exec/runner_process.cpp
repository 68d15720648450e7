#include "compiler/exec/runner_process.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>
#include <string_view>

#include "compiler/driver/library_status.h"
#include "compiler/driver/resources.h"
#include "compiler/emit/runner_table.h"
#include "compiler/support/file.h"
#include "compiler/support/temporary_directory.h"
#include "llmc/llmc.h"

namespace llmc::exec {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

/// Time limit for each reply in try_emulator().
constexpr milliseconds kTrialLimit{15'000};
/// Time that a runner that no longer replies gets to end by itself.
constexpr milliseconds kPatience{2'000};
constexpr std::uint64_t kMaxMessage = 4096;
constexpr std::string_view kFeaturesHint =
    "the emulator must support the target's architecture and instructions: qemu-user 10 does, 7.2 "
    "is too old for LASX; give another emulator by --emulator";

template <class T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

/// Returns the last lines of a program's output, such as an emulator's error, without escape codes.
std::string last_lines(std::string_view text, int lines = 6) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  std::size_t begin = text.size();
  while (lines-- > 0 && begin > 0 && begin != text.npos) begin = text.rfind('\n', begin - 1);
  if (begin != text.npos && begin < text.size()) text.remove_prefix(begin);
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) out += fmt::format("\n  {}", printable(text.substr(0, end), 400));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

Status link(const driver::Toolchain& toolchain, const target::Target& target,
            const std::vector<std::string>& defines, const char* main, const fs::path& input,
            const fs::path& program) {
  LLMC_TRY(const TemporaryDirectory folder, TemporaryDirectory::create());
  LLMC_RETURN_IF_ERROR(driver::write_resources(folder.path(), driver::runner_resources()));
  return driver::link_program(toolchain, target, folder.path(), defines,
                              {"src/runner/system.cpp", "src/runner/workers.cpp", main},
                              fs::absolute(input), fs::absolute(program));
}

}  // namespace

Status link_model_runner(const driver::Toolchain& toolchain, const target::Target& target,
                         const fs::path& archive, std::string_view name, bool has_grammar,
                         const fs::path& program) {
  std::vector<std::string> defines{fmt::format("LLMC_RUNNER_MODEL={}_model", name),
                                   fmt::format("LLMC_RUNNER_INIT={}_init", name)};
  if (has_grammar) defines.push_back(fmt::format("LLMC_RUNNER_GRAMMAR={}_grammar", name));
  return link(toolchain, target, defines, "src/runner/model_runner.cpp", archive, program);
}

Status link_function_runner(const driver::Toolchain& toolchain, const target::Target& target,
                            const fs::path& object, const fs::path& program) {
  return link(toolchain, target, {fmt::format("LLMC_RUNNER_CPU_CHECK=llmc::{}", target.cpu_check)},
              "src/runner/function_runner.cpp", object, program);
}

Status try_emulator(const driver::Toolchain& toolchain, const target::Target& target,
                    const Emulator& emulator) {
  LLMC_TRY(const TemporaryDirectory folder, TemporaryDirectory::create());
  const fs::path source = folder.path() / "none.cpp", object = folder.path() / "none.o";
  LLMC_RETURN_IF_ERROR(write_file(source, emit::runner_table({})));
  LLMC_RETURN_IF_ERROR(
      driver::compile_source(toolchain, folder.path(), driver::core_arguments(target),
                             source.filename().string(), object.filename().string()));
  LLMC_RETURN_IF_ERROR(link_function_runner(toolchain, target, object, folder.path() / "none"));
  const auto process =
      RunnerProcess::start_functions(emulator, folder.path() / "none", {}, kTrialLimit);
  if (process.ok()) return ok_status();
  if (process.error().first().kind != ErrorKind::kUnsupported) return process.error();
  return failure(
      ErrorKind::kUnsupported,
      fmt::format("{} emulates a CPU without the instructions of {}", emulator.text(), target.name),
      std::string(kFeaturesHint));
}

Result<std::optional<Emulator>> find_working_emulator(const driver::Toolchain& toolchain,
                                                      const target::Target& target,
                                                      const std::string& given) {
  LLMC_TRY(std::optional<Emulator> emulator, find_emulator(target, given));
  if (emulator) LLMC_RETURN_IF_ERROR(try_emulator(toolchain, target, *emulator));
  return emulator;
}

Result<std::unique_ptr<RunnerProcess>> RunnerProcess::start(const Emulator& emulator,
                                                            const fs::path& program,
                                                            runner::Kind kind, Limit limit) {
  std::vector<std::string> argv = emulator.command;
  argv.push_back(fs::absolute(program).string());
  auto child = ChildProcess::start(argv);
  if (!child.ok()) {
    Diagnostic d = child.error().first();
    d.hint = "check --emulator, LLMC_EMULATOR, LLMC_CROSS_DIR and PATH";
    return d;
  }
  std::unique_ptr<RunnerProcess> process(new RunnerProcess(emulator.text(), *std::move(child)));
  runner::Hello& hello = process->hello_;
  if (!process->child_->receive(bytes_of(hello.magic), limit))
    return process->broken("did not run the compiled program");
  if (std::memcmp(hello.magic, runner::kMagic, sizeof hello.magic) != 0 ||
      !process->child_->receive(bytes_of(hello).subspan(sizeof hello.magic), limit) ||
      hello.version != runner::kVersion || hello.kind != kind)
    return process->broken("sent an invalid reply");
  hello.model.target[sizeof hello.model.target - 1] = 0;
  return process;
}

Result<std::unique_ptr<RunnerProcess>> RunnerProcess::start_functions(const Emulator& emulator,
                                                                      const fs::path& program,
                                                                      const fs::path& constants,
                                                                      Limit limit) {
  LLMC_TRY(auto process, start(emulator, program, runner::Kind::kFunctions, limit));
  const runner::Start start{1, 0};
  const std::string path = constants.string();
  const Bytes parts[] = {std::as_bytes(std::span(&start, 1)), std::as_bytes(std::span(path))};
  LLMC_TRY(const Reply reply, process->request(runner::Request::kStart, 0, parts, 0, limit));
  if (reply.status != LLMC_OK)
    return failure(driver::kind_of(static_cast<llmc_status>(reply.status)),
                   printable(reply.message()));
  return process;
}

Result<RunnerProcess::Reply> RunnerProcess::request(runner::Request what, std::uint32_t argument,
                                                    std::span<const Bytes> parts,
                                                    std::uint64_t max_bytes,
                                                    std::optional<Limit> limit) {
  runner::RequestHeader request{what, argument, 0};
  for (const Bytes part : parts) request.bytes += part.size();
  bool sent = request.bytes <= runner::kMaxRequestBytes && child_->send(bytes_of(request));
  for (const Bytes part : parts) sent = sent && child_->send(part);
  runner::ReplyHeader header{};
  if (!sent || !child_->receive(bytes_of(header), limit))
    return broken("did not reply while the compiled program was running");
  Reply reply{header.status, header.value, header.position, {}};
  if (header.bytes > (header.status == 0 ? max_bytes : kMaxMessage))
    return broken("sent an invalid reply");
  reply.data.resize(header.bytes);
  if (!child_->receive(reply.data, limit)) return broken("ended during a reply");
  return reply;
}

Status RunnerProcess::finish() {
  const ChildProcess::End& end = child_->end(kHelloLimit);
  if (!end.was_killed && end.exit_code == 0) return ok_status();
  return broken("did not exit normally");
}

Diagnostic RunnerProcess::broken(const std::string& what) {
  const ChildProcess::End& end = child_->end(kPatience);
  constexpr int kSignals = 128, kLastSignal = kSignals + 64;
  std::string how = " (it was killed)";
  std::string_view hint = kFeaturesHint;
  if (!end.was_killed) {
    const bool signal = end.exit_code > kSignals && end.exit_code <= kLastSignal;
    how = signal ? fmt::format(" (signal {})", end.exit_code - kSignals)
                 : fmt::format(" (exit code {})", end.exit_code);
    // After the handshake, only an illegal instruction can mean that CPU features are missing.
    if (hello_.version == runner::kVersion && end.exit_code != kSignals + SIGILL)
      hint = end.exit_code == kSignals + SIGKILL ? "out of memory?" : "";
  }
  return failure(ErrorKind::kToolchain,
                 fmt::format("{} {}{}{}", emulator_, what, how, last_lines(end.standard_error)),
                 std::string(hint));
}

}  // namespace llmc::exec
