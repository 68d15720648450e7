#include <fmt/format.h>

#include "compiler/driver/bundle_files.h"
#include "tools/llmc/huge_page_options.h"
#include "tools/llmc/options.h"
#include "tools/llmc/plan_text.h"

namespace llmc::cli {

Result<exec::NativeOptions> native_options(const ModelOptions& options, const Globals& globals) {
  LLMC_TRY(driver::CompileOptions compile, compile_options(options));
  note_model_file(globals, options.model);
  const bool chooses = compile.budget || options.use == ModelUse::kCompare;
  if (compile.calibration && !chooses && !ir::is_quantized(compile.quant.format)) {
    remark(globals,
           fmt::format("--calibrate has no effect: --quant {} rounds no weights", options.quant));
    compile.calibration.reset();
  }
  exec::NativeOptions result;
  result.compile = std::move(compile);
  result.use_cache = !options.no_cache;
  result.emulator = options.emulator;
  result.huge_pages = options.huge_pages;
  result.opencl_device = options.opencl_device;
  result.ranks = globals.ranks;
  return result;
}

void note_without_effect(const ModelOptions& options, const Globals& globals) {
  std::string names;
  for (const CLI::Option* const option : options.decoder_only)
    if (option != nullptr && option->count() > 0)
      names += (names.empty() ? "" : ", ") + option->get_name();
  if (names.empty()) return;
  note(globals,
       fmt::format("llmc: warning: no effect on {}, which is compiled as a function of its inputs: "
                   "{}\nhint: remove what is listed; docs/functions.md says what a function takes",
                   printable(options.model, 200), names));
}

driver::Progress progress_of(Progress& line) {
  return [&line](std::string_view phase, std::uint64_t done, std::uint64_t total) {
    line.update(phase, done, total);
  };
}

Result<std::unique_ptr<exec::NativeModel>> load(const ModelOptions& options,
                                                const Globals& globals) {
  LLMC_TRY(const exec::NativeOptions native, native_options(options, globals));
  Progress line(globals);
  LLMC_TRY(auto loaded, exec::load_native(native, progress_of(line)));
  line.clear();
  note_huge_pages(options.huge_pages.when, *loaded, globals);
  const bool quant_given = native.compile.quant_given;
  const bool requantize = native.compile.requantize;
  if (native.compile.ctx_given || quant_given || requantize) {
    LLMC_TRY(const driver::BundleFacts facts, driver::read_bundle(loaded->bundle()));
    if (quant_given) note_kept_codes(globals, facts.rounding, options.quant, requantize);
    if (requantize) note_requantized(globals, facts.rounding);
    if (native.compile.ctx_given && facts.trained_ctx != 0 &&
        loaded->model().ctx > facts.trained_ctx) {
      const plan::Warning warning =
          plan::beyond_training("a context", loaded->model().ctx, facts.trained_ctx);
      note(globals, "llmc: warning: " + warning.message);
    }
  }
  return loaded;
}

}  // namespace llmc::cli
