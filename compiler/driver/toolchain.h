#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/result.h"
#include "compiler/target/target.h"

/// clang and the archiver, run with argument lists and never through a shell.
namespace llmc::driver {

struct Toolchain {
  std::string compiler;  // path
  std::string archiver;  // path
};

/// `cc`, or when it is empty $LLMC_CC, clang++-19, clang++; llvm-ar-19, llvm-ar or ar. kToolchain
/// with what to install when one is missing.
Result<Toolchain> find_toolchain(const std::string& cc);

/// Whether the compiler makes code for `target`: compiles an empty source with the model's
/// arguments. kToolchain when it knows the architecture or one of the flags not.
Status try_target(const Toolchain& toolchain, const target::Target& target);

/// Arguments after the compiler for the model's source and for a source of the runtime core; both
/// are meant to be run in a bundle's folder and name no file outside it.
std::vector<std::string> model_arguments(const target::Target& target, std::string_view name,
                                         const std::vector<std::string>& extra);
std::vector<std::string> core_arguments(const target::Target& target);
/// The same for the source of a function, whose arena holds one type after another.
std::vector<std::string> function_arguments(const target::Target& target, std::string_view name,
                                            const std::vector<std::string>& extra);

/// kUsage for a flag that names another processor or system than the target's, such as
/// `--target=arm64-apple-macos`.
Status check_cflags(const std::vector<std::string>& cflags, const target::Target& target);

/// kToolchain unless the file is an ELF object for the target's processor; LLVM bitcode (-flto) is
/// refused because linkers without the LTO plugin cannot read it.
Status check_object(const std::filesystem::path& object, const target::Target& target);

/// Runs the compiler in `folder` with `arguments`, `-c source -o object`. kToolchain with the first
/// lines of what it printed when it fails.
Status compile_source(const Toolchain& toolchain, const std::filesystem::path& folder,
                      std::vector<std::string> arguments, const std::string& source,
                      const std::string& object);

/// A deterministic archive with an index, made in `folder`.
Status make_archive(const Toolchain& toolchain, const std::filesystem::path& folder,
                    const std::string& archive, const std::vector<std::string>& objects);

/// A shared library with everything in the archive, for this machine. What the object `instead`
/// defines, unless it is empty, takes the place of the archive's.
Status link_shared(const Toolchain& toolchain, const target::Target& target,
                   const std::filesystem::path& archive, const std::filesystem::path& library,
                   const std::filesystem::path& instead = {});

/// One source as a shared library, for this machine.
Status compile_shared(const Toolchain& toolchain, const std::filesystem::path& folder,
                      std::vector<std::string> arguments, const std::string& source,
                      const std::string& library);

/// A static program of C++ `sources` and an archive or object, without any C library. The sources
/// are found and compiled in `folder`, `input` and `program` are absolute paths.
Status link_program(const Toolchain& toolchain, const target::Target& target,
                    const std::filesystem::path& folder, const std::vector<std::string>& defines,
                    const std::vector<std::string>& sources, const std::filesystem::path& input,
                    const std::filesystem::path& program);

/// src/build.sh: what llmc did, for a person to run, with g++ or clang. `model_arguments` begin as
/// core_arguments do; the core's sources are in one folder. `kept`: objects of data, such as
/// NAME_weights.o, in the archive's order, which are taken out of the library that is there.
std::string build_script(const Toolchain& toolchain, const target::Target& target,
                         std::string_view name, const std::vector<std::string>& model_arguments,
                         const std::vector<std::string>& core_sources,
                         const std::vector<std::string>& kept);

/// `text` as one word of a shell command.
std::string shell_quoted(std::string_view text);

}  // namespace llmc::driver
