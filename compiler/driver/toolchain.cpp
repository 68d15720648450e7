#include "compiler/driver/toolchain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "compiler/support/subprocess.h"

namespace llmc::driver {
namespace {

Diagnostic toolchain_error(std::string message, std::string hint) {
  return Diagnostic{
      .kind = ErrorKind::kToolchain, .message = std::move(message), .hint = std::move(hint)};
}

constexpr std::string_view kInstallHint =
    "install it (on Debian: apt install clang-19 llvm-19), or name one with --cc or LLMC_CC";

std::string found(const std::string& program) {
  const std::filesystem::path path = find_program(program);
  return path.empty() ? std::string() : std::filesystem::absolute(path).string();  // run elsewhere
}

/// The first lines of what a tool printed, without escape codes.
std::string first_lines(std::string_view text, int lines = 8) {
  std::string out;
  while (lines-- > 0 && !text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += fmt::format("\n  {}", printable(text.substr(0, end), 400));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

Status run_tool(const std::vector<std::string>& argv, const std::filesystem::path& folder,
                std::string_view what) {
  LLMC_TRY(const CommandOutput output, run_command(argv, {.working_directory = folder}));
  if (output.ok()) return ok_status();
  const std::string& text =
      output.standard_error.empty() ? output.standard_output : output.standard_error;
  const std::string tool = std::filesystem::path(argv[0]).filename().string();
  return toolchain_error(fmt::format("{} failed to {} (exit code {}){}", printable(tool), what,
                                     output.exit_code, first_lines(text)),
                         output.exit_code > 128
                             ? "it was ended by a signal: out of memory?"
                             : "is this clang 15 or newer, and the disk not full?");
}

/// What all sources of a bundle are compiled with.
std::vector<std::string> common_arguments(const target::Target& target) {
  std::vector<std::string> arguments{fmt::format("--target={}", target.triple)};
  arguments.insert(arguments.end(), target.core_flags.begin(), target.core_flags.end());
  for (const char* flag :
       {"-std=c++20", "-ffreestanding", "-nostdlibinc", "-fno-exceptions", "-fno-rtti",
        "-fno-threadsafe-statics", "-ffp-contract=off", "-fno-math-errno", "-fPIC",
        "-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-ffunction-sections",
        "-fdata-sections", "-fno-ident", "-g0"}) {
    arguments.emplace_back(flag);
  }
  return arguments;
}

/// A target's name inside a C++ identifier.
std::string identifier(std::string_view name) {
  std::string result(name);
  std::ranges::replace(result, '-', '_');
  return result;
}

std::string joined(const std::vector<std::string>& arguments) {
  std::string text;
  for (const std::string& argument : arguments) {
    if (!text.empty()) text += ' ';
    text += shell_quoted(argument);
  }
  return text;
}

std::string core_object(const std::string& source) {
  return "llmc_" + std::filesystem::path(source).stem().string() + ".o";
}

}  // namespace

Result<Toolchain> find_toolchain(const std::string& cc) {
  Toolchain toolchain;
  const char* environment = std::getenv("LLMC_CC");
  std::string wanted = cc;
  if (wanted.empty() && environment != nullptr) wanted = environment;
  if (!wanted.empty()) {
    toolchain.compiler = found(wanted);
    if (toolchain.compiler.empty()) {
      return toolchain_error(fmt::format("the compiler '{}' was not found", printable(wanted)),
                             std::string(kInstallHint));
    }
  }
  for (const char* name : {"clang++-19", "clang++"}) {
    if (toolchain.compiler.empty()) toolchain.compiler = found(name);
  }
  if (toolchain.compiler.empty()) {
    return toolchain_error("clang++ was not found", std::string(kInstallHint));
  }
  for (const char* name : {"llvm-ar-19", "llvm-ar", "ar"}) {
    if (toolchain.archiver.empty()) toolchain.archiver = found(name);
  }
  if (toolchain.archiver.empty()) {
    return toolchain_error("no archiver (llvm-ar or ar) was found",
                           "install it (on Debian: apt install llvm-19)");
  }
  return toolchain;
}

Status try_target(const Toolchain& toolchain, const target::Target& target) {
  std::vector<std::string> argv{toolchain.compiler};
  for (std::string& argument : model_arguments(target, "trial", {}))
    argv.push_back(std::move(argument));
  argv.insert(argv.end(), {"-x", "c++", "-c", "/dev/null", "-o", "/dev/null"});
  return run_tool(argv, {}, fmt::format("compile for {}", target.name));
}

std::vector<std::string> model_arguments(const target::Target& target, std::string_view name,
                                         const std::vector<std::string>& extra) {
  std::vector<std::string> arguments = common_arguments(target);
  arguments.insert(arguments.end(), target.model_flags.begin(), target.model_flags.end());
  if (!target.simd_define.empty()) arguments.push_back(fmt::format("-D{}=1", target.simd_define));
  arguments.push_back(fmt::format("-DLLMC_OPT_LEVEL={}", target.opt_level));
  // Kernels of two models never share an inline function, whatever they were compiled with.
  arguments.push_back(fmt::format("-DLLMC_ISA={}_{}", name, identifier(target.name)));
  arguments.insert(arguments.end(), {"-O3", "-fvisibility=hidden", "-I.", "-Isrc"});
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  return arguments;
}

std::vector<std::string> core_arguments(const target::Target& target) {
  std::vector<std::string> arguments = common_arguments(target);
  arguments.insert(arguments.end(), {"-O2", "-I.", "-Isrc"});
  return arguments;
}

std::vector<std::string> function_arguments(const target::Target& target, std::string_view name,
                                            const std::vector<std::string>& extra) {
  std::vector<std::string> arguments = model_arguments(target, name, extra);
  arguments.emplace_back("-fno-strict-aliasing");
  return arguments;
}

Status compile_source(const Toolchain& toolchain, const std::filesystem::path& folder,
                      std::vector<std::string> arguments, const std::string& source,
                      const std::string& object) {
  arguments.insert(arguments.begin(), toolchain.compiler);
  arguments.insert(arguments.end(), {"-c", source, "-o", object});
  LLMC_RETURN_IF_ERROR(run_tool(arguments, folder, "compile " + source));
  std::error_code error;
  if (std::filesystem::is_regular_file(folder / object, error)) return ok_status();
  return toolchain_error(fmt::format("{} ended without an error but compiled nothing of {}",
                                     printable(toolchain.compiler), source),
                         "--cc and LLMC_CC have to name a clang++");
}

Status make_archive(const Toolchain& toolchain, const std::filesystem::path& folder,
                    const std::string& archive, const std::vector<std::string>& objects) {
  std::vector<std::string> argv{toolchain.archiver, "rcsD", archive};
  argv.insert(argv.end(), objects.begin(), objects.end());
  return run_tool(argv, folder, "write " + archive);
}

Status link_shared(const Toolchain& toolchain, const target::Target& target,
                   const std::filesystem::path& archive, const std::filesystem::path& library,
                   const std::filesystem::path& instead) {
  std::vector<std::string> argv{toolchain.compiler, fmt::format("--target={}", target.triple),
                                "-shared", "-nostdlib", "-Wl,-Bsymbolic"};
  // Of two definitions the first one counts.
  if (!instead.empty()) argv.insert(argv.end(), {"-Wl,-z,muldefs", instead.string()});
  argv.insert(argv.end(), {"-Wl,--whole-archive", archive.string(), "-Wl,--no-whole-archive", "-lc",
                           "-o", library.string()});
  return run_tool(argv, {}, "link the model");
}

Status compile_shared(const Toolchain& toolchain, const std::filesystem::path& folder,
                      std::vector<std::string> arguments, const std::string& source,
                      const std::string& library) {
  arguments.insert(arguments.begin(), toolchain.compiler);
  arguments.insert(arguments.end(),
                   {"-shared", "-nostdlib", "-Wl,-Bsymbolic", source, "-lc", "-o", library});
  return run_tool(arguments, folder, "compile " + source);
}

Status link_program(const Toolchain& toolchain, const target::Target& target,
                    const std::filesystem::path& folder, const std::vector<std::string>& defines,
                    const std::vector<std::string>& sources, const std::filesystem::path& input,
                    const std::filesystem::path& program) {
  std::vector<std::string> argv{toolchain.compiler};
  const std::vector<std::string> arguments = core_arguments(target);
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  for (const std::string& define : defines) argv.push_back("-D" + define);
  // lld, because it links for every architecture; the system's linker knows one.
  argv.insert(argv.end(), {"-static", "-nostdlib", "-fuse-ld=lld", "-Wl,--gc-sections"});
  argv.insert(argv.end(), sources.begin(), sources.end());
  argv.insert(argv.end(), {input.string(), "-o", program.string()});
  return run_tool(argv, folder, "link a program that runs the code");
}

std::string shell_quoted(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string build_script(const Toolchain& toolchain, const target::Target& target,
                         std::string_view name, const std::vector<std::string>& arguments,
                         const std::vector<std::string>& core_sources,
                         const std::vector<std::string>& kept) {
  const auto base = [](const std::string& path) {
    return shell_quoted(std::filesystem::path(path).filename().string());
  };
  std::string script = fmt::format(
      "#!/bin/sh\n"
      "# Builds lib{0}.a again from the sources beside this script, with the commands llmc used.\n"
      "set -e\n"
      "cd \"$(dirname \"$0\")/..\"\n"
      "CXX=${{CXX:-{1}}}\n"
      "AR=${{AR:-{2}}}\n"
      "mkdir -p build\n",
      name, base(toolchain.compiler), base(toolchain.archiver));
  std::string objects = fmt::format("{}_model.o", name);
  const std::string data = fmt::format("{}", fmt::join(kept, " "));
  if (!kept.empty()) {
    script += fmt::format(
        "# {} out of the library that is there.\n"
        "(cd build && \"$AR\" x ../lib{}.a {})\n",
        kept.size() == 1 ? "One object of data comes" : "Objects of data come", name, data);
  }
  script +=
      fmt::format("\"$CXX\" {} -c src/model.cpp -o build/{}_model.o\n", joined(arguments), name);
  const std::string core = joined(core_arguments(target));
  for (const std::string& source : core_sources) {
    script += fmt::format("\"$CXX\" {} -c {} -o build/{}\n", core, source, core_object(source));
    objects += " " + core_object(source);
  }
  if (!kept.empty()) objects += " " + data;
  script += fmt::format("rm -f lib{0}.a\n(cd build && \"$AR\" rcsD ../lib{0}.a {1})\nrm -r build\n",
                        name, objects);
  return script;
}

}  // namespace llmc::driver
