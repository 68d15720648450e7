#include "compiler/driver/toolchain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "compiler/emit/elf_object.h"
#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"

namespace llmc::driver {
namespace {

/// Optimization levels of the model's source and of the runtime's sources.
constexpr const char *kModelLevel = "-O3", *kCoreLevel = "-O2", *kNoDebug = "-g0";
/// Flags that disable C++20's modules, which no source uses. clang's header of intrinsics then
/// includes only headers that the target needs (simd/avx2.h). The other headers would take a third
/// of the time of a compilation at -O0.
constexpr const char *kFrontEnd = "-Xclang", *kNoModules = "-fno-cxx-modules";

constexpr std::string_view kInstallHint =
    "install it (on Debian: apt install clang-19 llvm-19), or name one with --cc or LLMC_CC";

std::string found(const std::string& program) {
  const std::filesystem::path path = find_program(program);
  return path.empty() ? std::string()
                      : std::filesystem::absolute(path).string();  // commands run in another folder
}

/// Returns the first lines of a tool's output without escape codes.
std::string first_lines(std::string_view text, int lines = 8) {
  std::string out;
  while (lines-- > 0 && !text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += fmt::format("\n  {}", printable(text.substr(0, end), 400));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

constexpr const char* kUsualHint =
    "is this clang 15 or newer, is every --cflag valid, and is the disk not full?";

/// Returns the hint for a compiler that failed but was not ended by a signal. Says so if `program`
/// is not clang.
std::string compiler_hint(const std::string& program) {
  const auto version = run_command({program, "--version"}, {});
  if (version.ok() && version->ok() &&
      version->standard_output.find("clang") == std::string::npos) {
    return fmt::format("{} is not clang: name clang++ 15 or newer with --cc or LLMC_CC",
                       printable(std::filesystem::path(program).filename().string()));
  }
  return kUsualHint;
}

Status run_tool(const std::vector<std::string>& argv, const std::filesystem::path& folder,
                std::string_view what) {
  LLMC_TRY(const CommandOutput output, run_command(argv, {.working_directory = folder}));
  if (output.ok()) return ok_status();
  const std::string& text =
      output.standard_error.empty() ? output.standard_output : output.standard_error;
  const std::string tool = std::filesystem::path(argv[0]).filename().string();
  return failure(ErrorKind::kToolchain,
                 fmt::format("{} failed to {} (exit code {}){}", printable(tool), what,
                             output.exit_code, first_lines(text)),
                 output.exit_code > 128         ? "it was ended by a signal: out of memory?"
                 : what.starts_with("compile ") ? compiler_hint(argv[0])
                                                : kUsualHint);
}

/// Returns the arguments for every source of a bundle. tools/cmake/LlmcResources.cmake has the same
/// flags for the runtime.
std::vector<std::string> common_arguments(const target::Target& target) {
  std::vector<std::string> arguments{fmt::format("--target={}", target.triple)};
  arguments.insert(arguments.end(), target.core_flags.begin(), target.core_flags.end());
  for (const char* flag :
       {"-std=c++20", "-ffreestanding", "-nostdlibinc", "-fno-exceptions", "-fno-rtti",
        "-fno-threadsafe-statics", "-ffp-contract=off", "-fno-math-errno", "-fPIC",
        "-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-ffunction-sections",
        "-fdata-sections", "-fno-ident", kFrontEnd, kNoModules, kNoDebug}) {
    arguments.emplace_back(flag);
  }
  return arguments;
}

/// Returns the triple that flag `i` selects (--target=T, -target T); empty if it is another flag.
std::string_view triple_of(const std::vector<std::string>& cflags, std::size_t i) {
  const std::string_view flag = cflags[i];
  if (flag.starts_with("--target=")) return flag.substr(flag.find('=') + 1);
  const bool apart = flag == "-target" || flag == "--target";
  return apart && i + 1 < cflags.size() ? std::string_view(cflags[i + 1]) : std::string_view();
}

/// Returns a target's name in a form that is valid inside a C++ identifier.
std::string identifier(std::string_view name) {
  std::string result(name);
  std::ranges::replace(result, '-', '_');
  return result;
}

/// Joins arguments to a shell command. If `indent` is not empty, breaks the command into lines of
/// about 100 columns that begin with `indent`.
std::string joined(const std::vector<std::string>& arguments, std::string_view indent = {}) {
  constexpr std::size_t kColumns = 98;
  std::string text;
  std::size_t column = indent.size();
  for (const std::string& argument : arguments) {
    const std::string word = shell_quoted(argument);
    if (!text.empty()) {
      const bool wraps = !indent.empty() && column + 1 + word.size() > kColumns;
      text += wraps ? fmt::format(" \\\n{}", indent) : " ";
      column = wraps ? indent.size() : column + 1;
    }
    text += word;
    column += word.size();
  }
  return text;
}

}  // namespace

std::string_view processor_of(std::string_view triple) {
  const std::string_view name = triple.substr(0, triple.find('-'));
  if (name == "amd64") return "x86_64";
  if (name == "arm64") return "aarch64";
  return name;
}

Result<Toolchain> find_toolchain(const std::string& cc) {
  Toolchain toolchain;
  const char* environment = std::getenv("LLMC_CC");
  std::string wanted = cc;
  if (wanted.empty() && environment != nullptr) wanted = environment;
  if (!wanted.empty()) {
    toolchain.compiler = found(wanted);
    if (toolchain.compiler.empty()) {
      return failure(ErrorKind::kToolchain,
                     fmt::format("the compiler '{}' was not found", printable(wanted)),
                     std::string(kInstallHint));
    }
  }
  for (const char* name : {"clang++-19", "clang++"}) {
    if (toolchain.compiler.empty()) toolchain.compiler = found(name);
  }
  if (toolchain.compiler.empty()) {
    return failure(ErrorKind::kToolchain, "clang++ was not found", std::string(kInstallHint));
  }
  for (const char* name : {"llvm-ar-19", "llvm-ar", "ar"}) {
    if (toolchain.archiver.empty()) toolchain.archiver = found(name);
  }
  if (toolchain.archiver.empty()) {
    return failure(ErrorKind::kToolchain, "no archiver (llvm-ar or ar) was found",
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
  arguments.push_back(fmt::format("-DLLMC_TARGET={}", identifier(target.name)));
  arguments.push_back(fmt::format("-DLLMC_OPT_LEVEL={}", target.opt_level));
  // Two models must never share an inline function of the kernels, with any compiler flags.
  arguments.push_back(fmt::format("-DLLMC_ISA={}_{}", name, identifier(target.name)));
  arguments.insert(arguments.end(), {kModelLevel, "-fvisibility=hidden", "-I.", "-Isrc"});
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  return arguments;
}

std::vector<std::string> core_arguments(const target::Target& target) {
  std::vector<std::string> arguments = common_arguments(target);
  arguments.insert(arguments.end(), {kCoreLevel, "-I.", "-Isrc"});
  return arguments;
}

std::vector<std::string> function_arguments(const target::Target& target, std::string_view name,
                                            const std::vector<std::string>& extra) {
  std::vector<std::string> arguments = model_arguments(target, name, extra);
  arguments.emplace_back("-fno-strict-aliasing");
  return arguments;
}

Status check_cflags(const std::vector<std::string>& cflags, const target::Target& target) {
  for (std::size_t i = 0; i < cflags.size(); ++i) {
    const std::string_view triple = triple_of(cflags, i);
    if (triple.empty()) continue;
    if (target::names_other_system(triple)) {
      return usage_error(
          fmt::format("--cflag {}: '{}' is not supported: libraries are ELF objects, which macOS, "
                      "Windows and some other systems do not have",
                      printable(cflags[i], 80), printable(triple, 80)),
          "leave it out: no target of `llmc targets` is for such a system yet");
    }
    if (processor_of(triple) == processor_of(target.triple)) continue;
    return usage_error(
        fmt::format(
            "--cflag {}: libraries for {} are ELF objects for {}, and those of '{}' are not",
            printable(cflags[i], 80), target.name, target.triple, printable(triple, 80)),
        "leave it out, and choose the processor with --target: `llmc targets` lists them");
  }
  return ok_status();
}

Status check_object(const std::filesystem::path& object, const target::Target& target) {
  LLMC_TRY(const std::string content, read_file(object));
  if (emit::is_object_for(content, target.architecture)) return ok_status();
  return failure(
      ErrorKind::kToolchain,
      fmt::format("the compiler made {}, and a library for {} needs ELF objects for {}",
                  emit::describe_format(content), target.name, target.triple),
      emit::is_bitcode(content)
          ? "leave out --cflag=-flto: objects for link-time optimization are not supported"
          : "leave out the --cflag that changes the processor or the format of objects");
}

Status compile_source(const Toolchain& toolchain, const std::filesystem::path& folder,
                      std::vector<std::string> arguments, const std::string& source,
                      const std::string& object) {
  arguments.insert(arguments.begin(), toolchain.compiler);
  arguments.insert(arguments.end(), {"-c", source, "-o", object});
  LLMC_RETURN_IF_ERROR(run_tool(arguments, folder, "compile " + source));
  std::error_code error;
  if (std::filesystem::is_regular_file(folder / object, error)) return ok_status();
  return failure(ErrorKind::kToolchain,
                 fmt::format("{} ended without an error but compiled nothing of {}",
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
  // With this flag, the first of two definitions takes precedence.
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
  // lld links for every architecture; the system's linker supports only one.
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
  // Every source begins with the same flags. g++ does not need some of them and rejects them.
  std::vector<std::string> common = common_arguments(target), only_clang, own;
  own.assign(arguments.begin() + static_cast<std::ptrdiff_t>(common.size()), arguments.end());
  std::erase(own, kModelLevel);
  std::erase(common, kNoDebug);
  std::erase_if(common, [&](const std::string& flag) {
    const bool erased = flag.starts_with("--target=") || flag == "-nostdlibinc" ||
                        flag == kFrontEnd || flag == kNoModules;
    if (erased) only_clang.push_back(flag);
    return erased;
  });
  std::string script = fmt::format(
      R"(#!/bin/sh
# Builds lib{name}.a again from the sources beside this script, as llmc did.
# CXX or CC: the compiler, clang++ or g++. CPPFLAGS, CXXFLAGS or CFLAGS: further flags for it.
# AR: the archiver.
set -eu
cd "$(dirname "$0")/.."
first_of() {{
  for tool; do command -v "$tool" >/dev/null && break; done
  echo "$tool"
}}
CXX=${{CXX:-${{CC:-$(first_of {compiler} clang++ g++)}}}}
AR=${{AR:-$(first_of {archiver} llvm-ar ar)}}
FLAGS="${{CPPFLAGS:-}} ${{CXXFLAGS:-${{CFLAGS:-}}}}"
case $($CXX --version) in
  *clang*) FLAGS="$FLAGS {only_clang}" ;;
  *) FLAGS="$FLAGS -Wno-psabi" ;;
esac
# compile LEVEL SOURCE OBJECT FLAGS...
compile() {{
  level=$1 source=$2 object=$3
  shift 3
  $CXX "$level" {no_debug} $FLAGS \
    {common} \
    -I. -Isrc "$@" -c "$source" -o "build/$object"
}}
# Whatever is left of build/ would make this folder something else than a bundle.
trap 'rm -rf build' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir -p build
)",
      fmt::arg("name", name), fmt::arg("compiler", base(toolchain.compiler)),
      fmt::arg("archiver", base(toolchain.archiver)), fmt::arg("only_clang", joined(only_clang)),
      fmt::arg("common", joined(common, "    ")), fmt::arg("no_debug", kNoDebug));
  if (!kept.empty()) {
    script += fmt::format(
        "# {} out of the library that is there.\n"
        "(cd build && $AR x ../lib{}.a {})\n",
        kept.size() == 1 ? "One object of data comes" : "Objects of data come", name,
        fmt::join(kept, " "));
  }
  script += fmt::format("compile {0} src/model.cpp {1}_model.o \\\n  {2}\nobjects={1}_model.o\n",
                        kModelLevel, name, joined(own, "  "));
  if (!core_sources.empty()) {
    std::vector<std::string> parts;
    const std::string folder = std::filesystem::path(core_sources[0]).parent_path().string();
    for (const std::string& source : core_sources) {
      LLMC_CHECK(std::filesystem::path(source).parent_path() == folder);
      parts.push_back(std::filesystem::path(source).stem().string());
    }
    script += fmt::format(
        "for part in {}; do\n"
        "  compile {} {}/$part.cpp llmc_$part.o\n"
        "  objects=\"$objects llmc_$part.o\"\n"
        "done\n",
        fmt::join(parts, " "), kCoreLevel, folder);
  }
  script +=
      fmt::format("(cd build && $AR rcsD lib{0}.a $objects{1}{2})\nmv -f build/lib{0}.a lib{0}.a\n",
                  name, kept.empty() ? "" : " ", fmt::join(kept, " "));
  return script;
}

}  // namespace llmc::driver
