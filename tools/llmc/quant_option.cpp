#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>

#include "compiler/plan/weight_formats.h"
#include "compiler/support/lower_case.h"
#include "tools/llmc/options.h"

/// --quant, and hints for formats of other programs.
namespace llmc::cli {
namespace {

/// Returns the first number in `name`; 0 if there is none.
int bits_of(std::string_view name) {
  int bits = 0;
  name.remove_prefix(std::min(name.find_first_of("0123456789"), name.size()));
  std::from_chars(name.data(), name.data() + name.size(), bits);
  return bits;
}

/// Returns the format with at least the bits of another program's format ("Q4_K_M", "iq3_xs",
/// "BF16", "int8", "fp8"); empty for other names.
std::string_view format_like(const std::string& given_name) {
  const std::string name = lower_case(given_name);
  const int bits = bits_of(name);
  const bool is_format =
      std::ranges::any_of(std::initializer_list<const char*>{"q", "iq", "int", "uint", "f", "fp",
                                                             "bf", "nf", "float", "bfloat"},
                          [&](const char* family) {
                            const std::string stem = fmt::format("{}{}", family, bits);
                            return name == stem || name.starts_with(stem + "_");
                          });
  if (!is_format) return {};
  for (const plan::WeightFormatInfo& info : plan::kWeightFormats)
    if (bits <= bits_of(plan::weight_format_name(info.format)))
      return plan::weight_format_name(info.format);
  return {};
}

}  // namespace

Result<passes::QuantScheme> parse_quant(const std::string& name) {
  if (const auto format = passes::parse_quant_scheme(name)) return *format;
  const std::string_view like = format_like(name);
  const std::string use = fmt::format("{}{}", like == "q4" ? "q4m, the default, or " : "", like);
  return usage_error(fmt::format("--quant {} is not a weight format", printable(name)),
                     like.empty() ? "use " + passes::quant_scheme_list(" or ")
                                  : fmt::format("use {}, the nearest of {}; "
                                                "docs/quality.md compares them",
                                                use, passes::quant_scheme_list(" and ")));
}

}  // namespace llmc::cli
