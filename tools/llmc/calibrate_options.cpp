#include "tools/llmc/calibrate_options.h"

#include "compiler/driver/calibration.h"
#include "compiler/exec/own_text.h"
#include "tools/llmc/text.h"

namespace llmc::cli {

CLI::Option* add_calibrate(CLI::App& app, std::string& calibrate) {
  return app
      .add_option("--calibrate", calibrate,
                  "Text for which weights are rounded: a file (-: standard input), self: the "
                  "model writes it, or none (default: none); with --fit and --max-kl also the "
                  "text that measures formats (default: self)")
      ->type_name("FILE");
}

driver::CalibrationText own_calibration_text(const driver::CompileOptions& compile) {
  driver::CalibrationText text;
  text.source = "self";
  text.write = [compile](std::int32_t bos, std::uint32_t tokens) {
    exec::NativeOptions options;
    options.compile = compile;
    return exec::own_text(options, bos, driver::kCalibrationWindow, tokens);
  };
  return text;
}

Status apply_calibrate(const std::string& calibrate, driver::CompileOptions& compile) {
  if (calibrate == "none") return ok_status();
  if (calibrate.empty()) return usage_error("--calibrate is empty", "give a file, self or none");
  driver::CalibrationText text;
  if (calibrate == "self") {
    text = own_calibration_text(compile);
  } else {
    text.source = calibrate == "-" ? "standard input" : calibrate;
    LLMC_TRY(text.text, read_text(calibrate));
  }
  compile.calibration = std::move(text);
  return ok_status();
}

}  // namespace llmc::cli
