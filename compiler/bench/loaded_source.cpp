#include "compiler/bench/loaded_source.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "compiler/bench/gemm_operands.h"
#include "compiler/support/temporary_directory.h"

namespace llmc::bench {

Result<std::unique_ptr<LoadedSource>> LoadedSource::compile(
    const driver::Toolchain& toolchain, const target::Target& target, const std::string& source,
    const char* function, const std::vector<std::string>& cflags, const std::string* tiles) {
  LLMC_TRY(TemporaryDirectory folder, TemporaryDirectory::create());
  LLMC_RETURN_IF_ERROR(write_kernel_sources(folder.path(), source));
  if (tiles != nullptr) LLMC_RETURN_IF_ERROR(write_tiles(folder.path(), target, *tiles));
  std::vector<std::string> arguments = driver::model_arguments(target, "gemm", cflags);
  arguments.emplace_back("-fvisibility=default");
  LLMC_RETURN_IF_ERROR(driver::compile_shared(toolchain, folder.path(), std::move(arguments),
                                              "gemm.cpp", "gemm.so"));
  std::unique_ptr<LoadedSource> loaded(new LoadedSource);
  loaded->handle_ = ::dlopen((folder.path() / "gemm.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  loaded->address_ = loaded->handle_ != nullptr ? ::dlsym(loaded->handle_, function) : nullptr;
  if (loaded->address_ != nullptr) return loaded;
  const char* reason = ::dlerror();
  return failure(ErrorKind::kToolchain, fmt::format("cannot load the compiled kernel: {}",
                                                    reason != nullptr ? reason : ""));
}

LoadedSource::~LoadedSource() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

}  // namespace llmc::bench
