#include <fmt/format.h>

#include <algorithm>

#include "compiler/plan/weight_formats.h"
#include "tools/llmc/options.h"

/// --quant, and hints for formats of other programs.
namespace llmc::cli {
namespace {

/// The format with at least the bits of llama.cpp's format ("Q4_K_M", "q5_0", "BF16"); empty for
/// other names.
std::string_view format_like(std::string name) {
  std::ranges::transform(name, name.begin(), [](char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  struct Family {
    std::string_view prefix, format;
  };
  constexpr Family kFamilies[] = {{"iq", "q4"},    {"q2", "q4"},   {"q3", "q4"},
                                  {"q4", "q4"},    {"q5", "q6"},   {"q6", "q6"},
                                  {"q8", "q8"},    {"f16", "f16"}, {"bf16", "f16"},
                                  {"fp16", "f16"}, {"f32", "f32"}, {"fp32", "f32"}};
  for (const Family& family : kFamilies) {
    const std::string_view rest =
        std::string_view(name).substr(std::min(name.size(), family.prefix.size()));
    const bool whole = rest.empty() || rest.front() == '_' || family.prefix == "iq";
    if (name.starts_with(family.prefix) && whole) return family.format;
  }
  return {};
}

}  // namespace

Result<ir::WeightFormat> parse_quant(const std::string& name) {
  if (const auto format = plan::parse_weight_format(name)) return *format;
  const std::string_view like = format_like(name);
  return usage_error(fmt::format("--quant {} is not a weight format", printable(name)),
                     like.empty() ? "use " + plan::weight_format_list(" or ")
                                  : fmt::format("use {}, the nearest of {}; "
                                                "docs/quality.md compares them",
                                                like, plan::weight_format_list(" and ")));
}

}  // namespace llmc::cli
