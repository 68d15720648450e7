#include "compiler/emit/stage_marks.h"

#include <fmt/format.h>

#include <optional>
#include <sstream>

#include "compiler/emit/names.h"
#include "compiler/plan/parts.h"

namespace llmc::emit {
namespace {

constexpr std::string_view kComment = "  // ";

/// Returns the part of the stage whose comment begins with `line`.
Part tagged_part(std::string_view line) {
  line.remove_prefix(kComment.size());
  return plan::parse_part(line.substr(0, line.find(':'))).value_or(Part::kRest);
}

}  // namespace

std::string part_tag(Part part) {
  return part == Part::kRest ? std::string() : fmt::format("{}: ", plan::part_name(part));
}

std::string with_stage_marks(std::string_view source) {
  std::string text;
  std::optional<Part> stage;  // part of the stage that contains the current line
  bool begins = false;        // whether the current line begins a paragraph
  std::istringstream lines{std::string(source)};
  for (std::string line; std::getline(lines, line);) {
    if (stage && (line.empty() || line == "}")) {
      const std::string name(plan::part_name(*stage));
      text += fmt::format("  finished(Part::{});\n", constant_name(name));
      stage.reset();
    }
    if (begins && line.starts_with(kComment)) stage = tagged_part(line);
    text += line + "\n";
    begins = line.empty();
  }
  return text;
}

}  // namespace llmc::emit
