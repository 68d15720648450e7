#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "compiler/plan/weight_formats.h"
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
/// "BF16", "int8"); empty for other names.
std::string_view format_like(std::string name) {
  constexpr const char* kFloats[] = {"f", "bf", "fp", "float"};
  constexpr const char* kIntegers[] = {"q", "iq", "int", "uint"};
  std::ranges::transform(name, name.begin(), [](char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  for (const plan::WeightFormatInfo& info : plan::kWeightFormats) {
    const std::string_view format = plan::weight_format_name(info.format);
    const int bits = bits_of(name);
    if (bits == 0 || bits > bits_of(format)) continue;
    const bool is_float = format[0] == 'f';
    for (const char* const family : is_float ? kFloats : kIntegers) {
      const std::string stem = fmt::format("{}{}", family, bits);
      if (name == stem || name.starts_with(stem + "_")) return format;
    }
  }
  return {};
}

}  // namespace

Result<passes::QuantScheme> parse_quant(const std::string& name) {
  if (const auto format = passes::parse_quant_scheme(name)) return *format;
  const std::string_view like = format_like(name);
  return usage_error(fmt::format("--quant {} is not a weight format", printable(name)),
                     like.empty() ? "use " + passes::quant_scheme_list(" or ")
                                  : fmt::format("use {}, the nearest of {}; "
                                                "docs/quality.md compares them",
                                                like, passes::quant_scheme_list(" and ")));
}

}  // namespace llmc::cli
