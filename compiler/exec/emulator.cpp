#include "compiler/exec/emulator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "compiler/support/subprocess.h"

namespace llmc::exec {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> words(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n";
  std::vector<std::string> result;
  for (;;) {
    const std::size_t begin = text.find_first_not_of(kBlanks);
    if (begin == text.npos) return result;
    text.remove_prefix(begin);
    const std::size_t end = std::min(text.find_first_of(kBlanks), text.size());
    result.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

/// Returns the path of a program in the cross folders or, if it is not there, in PATH; empty if it
/// is not found. Returns a name with a slash unchanged.
fs::path search(const std::string& program) {
  if (program.find('/') != program.npos) return program;
  for (const fs::path& folder : cross_folders()) {
    fs::path path = find_program((folder / "bin" / program).string());
    if (!path.empty()) return path;
  }
  return find_program(program);
}

Result<std::optional<Emulator>> named(const std::string& command, std::string_view where) {
  Emulator emulator{words(command)};
  if (emulator.command.empty()) {
    return failure(ErrorKind::kUsage, fmt::format("{} is an empty command", where),
                   "write a command, such as 'qemu-aarch64 -cpu max'");
  }
  // A program name without a folder may be the qemu in a cross folder.
  std::string& program = emulator.command.front();
  if (const fs::path path = search(program); !path.empty()) program = path.string();
  return std::optional(std::move(emulator));
}

std::string no_emulator_hint() {
  return "use a target that runs here (llmc targets), or give an emulator by --emulator; qemu "
         "cannot emulate this one";
}

}  // namespace

std::string Emulator::text() const {
  return printable(fmt::format("{}", fmt::join(command, " ")), 400);
}

std::string emulator_of_environment() {
  const char* const command = std::getenv("LLMC_EMULATOR");
  return command == nullptr ? std::string() : command;
}

std::vector<fs::path> cross_folders() {
  std::vector<fs::path> folders;
  const char* const cross = std::getenv("LLMC_CROSS_DIR");
  if (cross != nullptr && *cross != 0) folders.push_back(fs::absolute(cross));
  std::error_code unknown;
  const fs::path self = fs::read_symlink("/proc/self/exe", unknown);
  if (!unknown) folders.push_back(self.parent_path() / "cross");
  return folders;
}

Result<std::optional<Emulator>> find_emulator(const target::Target& target,
                                              const std::string& given) {
  if (!given.empty()) return named(given, "--emulator");
  if (target::runs_here(target)) return std::optional<Emulator>();
  if (const std::string command = emulator_of_environment(); !command.empty())
    return named(command, "LLMC_EMULATOR");
  const std::string program(target.emulator);
  if (target.architecture == target::host_architecture()) {
    std::vector<std::string_view> missing;
    const auto& here = target::best_here().features;
    for (const std::string_view feature : target.features)
      if (std::ranges::find(here, feature) == here.end()) missing.push_back(feature);
    return failure(
        ErrorKind::kUnsupported,
        fmt::format("this machine cannot run code for {}: the CPU lacks {}{}",
                    target::described(target), missing.size() == 1 ? "" : "at least one of ",
                    fmt::join(missing, ", ")),
        program.empty()
            ? no_emulator_hint()
            : fmt::format("use a target that runs here (llmc targets), or --emulator '{} -cpu {}'",
                          program, target.emulated_cpu));
  }
  if (program.empty()) {
    return failure(ErrorKind::kUnsupported,
                   fmt::format("this machine cannot run code for {}", target::described(target)),
                   no_emulator_hint());
  }
  const fs::path path = search(program);
  if (path.empty()) {
    return failure(ErrorKind::kToolchain,
                   fmt::format("this machine cannot run code for {}, and {} was not found",
                               target::described(target), program),
                   "run tools/cross.sh to fetch one (LASX needs qemu 8, Debian 12 has 7.2), or set "
                   "--emulator or LLMC_EMULATOR; `llmc compile` needs none");
  }
  return std::optional(Emulator{{path.string(), "-cpu", std::string(target.emulated_cpu)}});
}

}  // namespace llmc::exec
