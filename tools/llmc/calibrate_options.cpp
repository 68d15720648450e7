#include "tools/llmc/calibrate_options.h"

#include <fmt/format.h>

#include "compiler/driver/calibration.h"
#include "compiler/exec/own_text.h"
#include "tools/llmc/text.h"

namespace llmc::cli {

CLI::Option* add_calibrate(CLI::App& app, CalibrateOptions& options) {
  return app
      .add_option("--calibrate", options.text,
                  "Text for which weights are rounded: a file (-: standard input), self: the "
                  "model writes it, or none (default: none); with --fit and --max-kl also the "
                  "text that measures formats (default: self)")
      ->type_name("FILE");
}

CLI::Option* add_parse_special(CLI::App& app, CalibrateOptions& options, const char* texts) {
  return app.add_flag("--parse-special", options.parse_special,
                      fmt::format("Read names of control tokens in {} as tokens", texts));
}

Diagnostic no_text_to_parse(const char* options) {
  return {.kind = ErrorKind::kUsage,
          .message = "--parse-special has no text to read",
          .hint = fmt::format("give a text by {}, or remove the option", options)};
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

Status apply_calibrate(const CalibrateOptions& options, driver::CompileOptions& compile) {
  if (options.text == "none") return ok_status();
  if (options.text.empty()) return usage_error("--calibrate is empty", "give a file, self or none");
  driver::CalibrationText text;
  if (options.has_file()) {
    text.source = options.text == "-" ? "standard input" : options.text;
    text.parse_special = options.parse_special;
    LLMC_TRY(text.text, read_text(options.text));
  } else {
    text = own_calibration_text(compile);
  }
  compile.calibration = std::move(text);
  return ok_status();
}

}  // namespace llmc::cli
