#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/result.h"
#include "compiler/target/target.h"

/// Runs clang and the archiver with argument lists, never through a shell.
namespace llmc::driver {

struct Toolchain {
  std::string compiler;  // path
  std::string archiver;  // path
};

/// Finds the compiler and the archiver. The compiler is `cc` or, if that is empty, $LLMC_CC,
/// clang++-19 or clang++; the archiver is llvm-ar-19, llvm-ar or ar. Fails with kToolchain if one
/// is missing; the hint names what to install.
Result<Toolchain> find_toolchain(const std::string& cc);

/// Checks that the compiler supports `target` by compiling an empty source with the model's
/// arguments. Fails with kToolchain if the compiler does not support the architecture or one of the
/// flags.
Status try_target(const Toolchain& toolchain, const target::Target& target);

/// Return the compiler arguments for the model's source and for a source of the runtime core. Run
/// the compiler in the bundle's folder; the arguments name no file outside it.
std::vector<std::string> model_arguments(const target::Target& target, std::string_view name,
                                         const std::vector<std::string>& extra);
std::vector<std::string> core_arguments(const target::Target& target);
/// Returns the arguments for the source of a function. They allow its arena to hold values of
/// different types in the same memory.
std::vector<std::string> function_arguments(const target::Target& target, std::string_view name,
                                            const std::vector<std::string>& extra);

/// Returns the architecture of a target triple, in the spelling of the targets' triples, such as
/// "x86_64" for "amd64".
std::string_view processor_of(std::string_view triple);

/// Checks the user's compiler flags. Fails with kUsage if one selects another CPU architecture than
/// the target's, or a system whose objects are not ELF, such as `--target=arm64-apple-macos`.
Status check_cflags(const std::vector<std::string>& cflags, const target::Target& target);

/// Checks that the file is an ELF object for the target's architecture. Fails with kToolchain if it
/// is not. LLVM bitcode (-flto) is rejected, because linkers without the LTO plugin cannot read it.
Status check_object(const std::filesystem::path& object, const target::Target& target);

/// Runs the compiler in `folder` with `arguments` and `-c source -o object`. Fails with kToolchain;
/// the message contains the first lines of the compiler's output.
Status compile_source(const Toolchain& toolchain, const std::filesystem::path& folder,
                      std::vector<std::string> arguments, const std::string& source,
                      const std::string& object);

/// Creates a deterministic archive with a symbol index in `folder`.
Status make_archive(const Toolchain& toolchain, const std::filesystem::path& folder,
                    const std::string& archive, const std::vector<std::string>& objects);

/// Links the whole archive into a shared library for the host. If `instead` is not empty, the
/// definitions in that object replace those in the archive.
Status link_shared(const Toolchain& toolchain, const target::Target& target,
                   const std::filesystem::path& archive, const std::filesystem::path& library,
                   const std::filesystem::path& instead = {});

/// Compiles one source to a shared library for the host.
Status compile_shared(const Toolchain& toolchain, const std::filesystem::path& folder,
                      std::vector<std::string> arguments, const std::string& source,
                      const std::string& library);

/// Links the C++ sources and an archive or object (`input`) into a static program without a C
/// library. `sources` are relative to `folder`, where they are compiled; `input` and `program` are
/// absolute paths.
Status link_program(const Toolchain& toolchain, const target::Target& target,
                    const std::filesystem::path& folder, const std::vector<std::string>& defines,
                    const std::vector<std::string>& sources, const std::filesystem::path& input,
                    const std::filesystem::path& program);

/// Returns the content of src/build.sh, a script with which a user repeats the build with g++ or
/// clang. `model_arguments` must begin with the flags that core_arguments() also begins with. All
/// core sources must be in one folder. `kept`: data objects, such as NAME_weights.o, in archive
/// order; the script extracts them from the existing library.
std::string build_script(const Toolchain& toolchain, const target::Target& target,
                         std::string_view name, const std::vector<std::string>& model_arguments,
                         const std::vector<std::string>& core_sources,
                         const std::vector<std::string>& kept);

/// Returns `text` quoted as one word of a shell command.
std::string shell_quoted(std::string_view text);

}  // namespace llmc::driver
