#include "tools/llmc/calibrate_options.h"

#include <fmt/format.h>

#include "compiler/driver/calibration.h"
#include "compiler/exec/own_text.h"
#include "tools/llmc/text.h"

namespace llmc::cli {

bool has_file(const std::string& calibrate) {
  return calibrate != "none" && calibrate != "self" && calibrate != "builtin";
}

CLI::Option* add_calibrate(CLI::App& app, std::string& calibrate) {
  return app
      .add_option("--calibrate", calibrate,
                  "Text that rounding of weights is optimized for: a file (-: standard input), "
                  "builtin (comes with llmc), self (the model generates it) or none (default: "
                  "none); --fit and --max-kl measure formats on it, too (default then: self)")
      ->type_name("FILE");
}

CLI::Option* add_parse_special(CLI::App& app, bool& parse_special, const char* texts) {
  return app.add_flag("--parse-special", parse_special,
                      fmt::format("Read names of control tokens in {} as tokens", texts));
}

Diagnostic no_text_to_parse(const char* options) {
  return usage_error(
      fmt::format("--parse-special changes the text of {}, and none is given", options),
      "remove the option: it applies to files only; in run, --special is for the prompt");
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

Status apply_calibrate(const std::string& calibrate, bool parse_special,
                       driver::CompileOptions& compile) {
  if (calibrate == "none") return ok_status();
  driver::CalibrationText text;
  if (has_file(calibrate)) {
    text.source = calibrate == "-" ? "standard input" : calibrate;
    text.parse_special = parse_special;
    auto content = read_text(calibrate);
    if (!content.ok()) {
      Diagnostic failed = content.error().first();
      failed.hint =
          "--calibrate takes a readable text file, - (standard input), builtin, self or none";
      return failed;
    }
    text.text = *std::move(content);
  } else if (calibrate == "builtin") {
    text.source = calibrate;
    text.builtin = true;
  } else {
    text = own_calibration_text(compile);
  }
  compile.calibration = std::move(text);
  return ok_status();
}

}  // namespace llmc::cli
