#include "compiler/plan/weight_formats.h"

#include <algorithm>
#include <iterator>
#include <ranges>

#include "compiler/support/name_list.h"

namespace llmc::plan {
namespace {

using ir::WeightFormat;

constexpr auto& kNames = ir::kWeightFormatNames;

consteval bool table_is_complete() {
  for (std::size_t i = 1; i < kNames.size(); ++i)
    if (std::ranges::count(kWeightFormats, static_cast<WeightFormat>(i),
                           &WeightFormatInfo::format) != 1)
      return false;
  return std::ranges::all_of(kWeightFormats, [](const WeightFormatInfo& info) {
    return static_cast<std::size_t>(info.format) < kNames.size() &&
           is_quantized(info.format) == is_quantized(info.kind);
  });
}
static_assert(table_is_complete(), "kWeightFormats lacks a format, or kWeightFormatNames its name");

}  // namespace

const WeightFormatInfo& weight_format_info(WeightFormat format) {
  if (format == WeightFormat::kUnset) format = WeightFormat::kF32;
  return *std::ranges::find(kWeightFormats, format, &WeightFormatInfo::format);
}

const WeightFormatInfo* find_weight_format(WeightKind kind) {
  const auto* const info =
      std::ranges::find(kWeightFormats, unsplit(kind), &WeightFormatInfo::kind);
  return info == std::end(kWeightFormats) ? nullptr : info;
}

std::string_view weight_format_name(WeightFormat format) {
  return kNames[static_cast<std::size_t>(weight_format_info(format).format)];
}

std::optional<WeightFormat> parse_weight_format(std::string_view name) {
  for (const WeightFormatInfo& info : kWeightFormats)
    if (weight_format_name(info.format) == name) return info.format;
  return std::nullopt;
}

std::string weight_format_list(std::string_view last_separator) {
  return name_list(kWeightFormats | std::views::transform([](const WeightFormatInfo& info) {
                     return weight_format_name(info.format);
                   }),
                   last_separator);
}

}  // namespace llmc::plan
