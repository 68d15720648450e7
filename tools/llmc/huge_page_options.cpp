#include "tools/llmc/huge_page_options.h"

#include <fmt/format.h>

namespace llmc::cli {

using exec::HugePages;

CLI::Option* add_huge_pages(CLI::App& app, HugePages& choice) {
  choice = HugePages::kAuto;
  const auto take = [&choice](const std::string& text) {
    choice = text == "always"  ? HugePages::kAlways
             : text == "never" ? HugePages::kNever
                               : HugePages::kAuto;
  };
  return app
      .add_option_function<std::string>(
          "--huge-pages", take,
          "Copy the weights into huge pages, which are read faster: always, never, or auto: if the "
          "weights are large, twice their memory is free and many tokens are asked for (default: "
          "auto)")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN");
}

std::string huge_pages_text(const exec::HugePageUse& use) {
  std::string text = use.weights > 0 ? fmt::format("{} of weights copied in {:.2f} s",
                                                   human_bytes(use.weights), use.seconds)
                                     : "no weights";
  if (use.arena) text += ", arena";
  if (!use.reason.empty()) text += fmt::format(" ({})", use.reason);
  return "huge pages: " + text;
}

void note_huge_pages(HugePages choice, const exec::NativeModel& model, const Globals& globals) {
  if (choice == HugePages::kNever) return;
  const bool always = choice == HugePages::kAlways;
  if (!model.emulator().empty()) {
    if (always) remark(globals, "--huge-pages has no effect under an emulator");
  } else if (globals.verbose > 0 || (always && !model.huge_pages().reason.empty())) {
    remark(globals, huge_pages_text(model.huge_pages()));
  }
}

}  // namespace llmc::cli
