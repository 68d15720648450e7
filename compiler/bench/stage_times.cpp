#include "compiler/bench/stage_times.h"

#include <dlfcn.h>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/toolchain.h"
#include "compiler/emit/stage_marks.h"
#include "compiler/exec/native_library.h"
#include "compiler/support/file.h"
#include "compiler/support/temporary_directory.h"

namespace llmc::bench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSource = "src/model.cpp";

/// Sets the hook of a loaded library. Returns false if the library has none.
bool set_hook(const fs::path& library, StageHook hook) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  const bool has_hook = exec::set_stage_hook(handle, hook);
  ::dlclose(handle);
  return has_hook;
}

}  // namespace

Diagnostic stage_times_under(const std::string& emulator) {
  return usage_error("stage times need native execution, but the code runs under " + emulator,
                     "tools/instructions.py counts the instructions of each function");
}

Result<std::unique_ptr<exec::NativeModel>> load_with_stage_times(
    const exec::NativeModel& model, const driver::CompileOptions& compile,
    exec::HugePageOptions huge_pages, exec::StageClock& clock) {
  if (!model.emulator().empty()) return stage_times_under(model.emulator());
  const auto bad_bundle = [&](const char* message) {
    return file_failure(ErrorKind::kBadInput, model.bundle().string(), message,
                        "compile the model again");
  };
  exec::LinkedModel linked;
  linked.path = linked.bundle = model.bundle();
  std::error_code error;
  if (!fs::is_regular_file(linked.bundle / kSource, error))
    return bad_bundle("src/model.cpp is missing, and has to be compiled with times of stages");
  LLMC_TRY(const std::string source, read_file(linked.bundle / kSource));
  LLMC_TRY(linked.facts, driver::read_bundle(linked.bundle));
  LLMC_TRY(const target::Target* const target,
           target::find(linked.facts.target, linked.facts.opt_level));
  LLMC_TRY(const driver::Toolchain toolchain, driver::find_toolchain(compile.cc));
  LLMC_TRY(TemporaryDirectory folder, TemporaryDirectory::create());
  const std::string& name = linked.facts.name;
  const bool has_function = source.find("\"llmc/graph_call.h\"") != source.npos;
  std::vector<std::string> arguments =
      has_function ? driver::function_arguments(*target, name, compile.cflags)
                   : driver::model_arguments(*target, name, compile.cflags);
  arguments.emplace_back("-DLLMC_STAGE_TIMES");
  const fs::path marked = folder.path() / "model.cpp", object = folder.path() / "model.o";
  LLMC_RETURN_IF_ERROR(write_file(marked, emit::with_stage_marks(source)));
  LLMC_RETURN_IF_ERROR(driver::compile_source(toolchain, linked.bundle, std::move(arguments),
                                              marked.string(), object.string()));
  linked.binary = folder.path() / "model.so";
  LLMC_RETURN_IF_ERROR(driver::link_shared(toolchain, *target,
                                           fs::absolute(linked.bundle / ("lib" + name + ".a")),
                                           linked.binary, object));
  const fs::path library = linked.binary;
  LLMC_TRY(auto loaded, exec::load_library(std::move(linked), huge_pages));
  if (!set_hook(library, clock.hook()))
    return bad_bundle("the source of this bundle has no marks at the ends of stages");
  return loaded;
}

}  // namespace llmc::bench
