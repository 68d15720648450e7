#include "compiler/plan/kv_format.h"

#include <fmt/format.h>

#include <optional>

namespace llmc::plan {
namespace {

struct Name {
  KvFormat format;
  std::string_view name, enumerator;
};
constexpr Name kFormatNames[] = {
    {KvFormat::kF32, "f32", "kF32"},
    {KvFormat::kF16, "f16", "kF16"},
    {KvFormat::kInt8, "int8", "kInt8"},
    {KvFormat::kFp8, "fp8", "kFp8"},
};

const Name& name_of(KvFormat format) {
  return kFormatNames[static_cast<std::size_t>(format)];
}

std::optional<KvFormat> named(std::string_view text) {
  for (const Name& n : kFormatNames) {
    if (n.name == text) return n.format;
  }
  return std::nullopt;
}

/// Parses "K=f16", "V=f32" and similar parts separated by commas; returns false for any other text.
bool parse_parts(std::string_view text, KvFormats& formats) {
  bool keys = false, values = false;
  for (;;) {
    const std::string_view part = text.substr(0, text.find(','));
    if (part.size() < 3 || part[1] != '=') return false;
    const auto format = named(part.substr(2));
    bool& seen = part[0] == 'K' ? keys : values;
    if (!format || (part[0] != 'K' && part[0] != 'V') || seen) return false;
    (part[0] == 'K' ? formats.keys : formats.values) = *format;
    seen = true;
    if (part.size() == text.size()) return true;
    text.remove_prefix(part.size() + 1);
  }
}

}  // namespace

std::string_view kv_format_name(KvFormat format) {
  return name_of(format).name;
}
std::string_view kv_enumerator(KvFormat format) {
  return name_of(format).enumerator;
}

std::string to_string(KvFormats formats) {
  if (formats.keys == formats.values) return std::string(kv_format_name(formats.keys));
  return fmt::format("K={},V={}", kv_format_name(formats.keys), kv_format_name(formats.values));
}

Result<KvFormats> parse_kv_formats(std::string_view text) {
  KvFormats formats;
  const auto both = named(text);
  if (both) formats.keys = formats.values = *both;
  if (!both && !parse_parts(text, formats)) {
    return usage_error(
        fmt::format("--kv {} is not a format of keys and values", printable(text, 40)),
        "write f32, f16 or int8 (llama.cpp's q8_0) for both, or such as K=int8,V=fp8");
  }
  if (formats.keys == KvFormat::kFp8) {
    return usage_error(fmt::format("--kv {}: keys have no fp8", printable(text, 40)),
                       "write K=int8,V=fp8, or K=f16,V=fp8");
  }
  return formats;
}

KvFormats default_kv_formats(ir::WeightFormat weights) {
  if (weights == ir::WeightFormat::kF32) return {};
  return {KvFormat::kF16, KvFormat::kF16};
}

}  // namespace llmc::plan
