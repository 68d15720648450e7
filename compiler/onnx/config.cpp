#include "compiler/onnx/config.h"

#include <nlohmann/json.hpp>

#include "compiler/onnx/limits.h"
#include "compiler/support/text_position.h"

namespace llmc::importer {
namespace {

using Json = nlohmann::json;

/// Reads fields of the object and keeps the first error.
class Reader {
 public:
  Reader(const Json& object, const std::string& file) : object_(object), file_(file) {}

  std::optional<std::int64_t> integer(const char* key, std::int64_t max) {
    const auto it = object_.find(key);
    if (it == object_.end()) return std::nullopt;
    return in_range(*it, key, 1, max);
  }

  std::string text(const char* key) {
    const auto it = object_.find(key);
    if (it == object_.end()) return {};
    if (!it->is_string()) return fail(key, "is not a string"), std::string();
    return it->get<std::string>();
  }

  bool flag(const char* key) {
    const auto it = object_.find(key);
    if (it == object_.end()) return false;
    if (!it->is_boolean()) return fail(key, "is neither true nor false"), false;
    return it->get<bool>();
  }

  /// Reads a cache shape: [2, 1, 0, kv, D] or [2, 1, kv, 0, D], optionally preceded by the number
  /// of layers.
  std::optional<CacheShape> cache_shape(const char* key) {
    const auto it = object_.find(key);
    if (it == object_.end()) return std::nullopt;
    constexpr auto kWrong = "is not of the form [2, 1, 0, heads, dim] or [2, 1, heads, 0, dim]";
    if (!it->is_array() || (it->size() != 5 && it->size() != 6))
      return fail(key, kWrong), std::nullopt;
    std::vector<std::int64_t> dims;
    for (std::size_t i = it->size() - 5; i < it->size(); ++i) {
      const auto dim = in_range((*it)[i], key, 0, std::max(kMaxHeads, kMaxHeadDim));
      if (!dim) return std::nullopt;
      dims.push_back(*dim);
    }
    const bool sequence_first = dims[2] == 0, heads_first = dims[3] == 0;
    if (dims[0] != 2 || dims[1] != 1 || sequence_first == heads_first || dims[4] == 0)
      return fail(key, kWrong), std::nullopt;
    return CacheShape{
        sequence_first ? ir::CacheLayout::kSequenceFirst : ir::CacheLayout::kHeadsFirst,
        sequence_first ? dims[3] : dims[2], dims[4]};
  }

  void fail(const std::string& key, const std::string& what,
            ErrorKind kind = ErrorKind::kBadInput) {
    if (error_) return;
    error_ = {.kind = kind, .file = file_, .message = "'" + key + "' " + what};
  }
  const std::optional<Diagnostic>& error() const { return error_; }

 private:
  std::optional<std::int64_t> in_range(const Json& value, const char* key, std::int64_t min,
                                       std::int64_t max) {
    if (!value.is_number_integer()) return fail(key, "is not a whole number"), std::nullopt;
    const bool too_large =
        value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(max);
    const auto number = too_large ? max + 1 : value.get<std::int64_t>();
    if (number < min || number > max)
      return fail(key, "is not between " + std::to_string(min) + " and " + std::to_string(max)),
             std::nullopt;
    return number;
  }

  const Json& object_;
  const std::string& file_;
  std::optional<Diagnostic> error_;
};

}  // namespace

Result<LlmConfig> parse_config(std::string_view text, const std::string& file) {
  Diagnostic bad;
  bad.file = file;
  bad.hint = "the file may be damaged: copy or export it again";
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& wrong) {
    bad.message = "is not valid JSON: " + line_and_column(text, wrong.byte);
    return bad;
  }
  if (!json.is_object()) {
    bad.message = "is not a JSON object";
    return bad;
  }
  Reader reader(json, file);
  LlmConfig config;
  config.hidden = reader.integer("hidden_size", kMaxHidden);
  config.layers = reader.integer("layer_nums", kMaxLayers);
  config.cache = reader.cache_shape("key_value_shape");
  config.prompt_template = reader.text("prompt_template");
  const std::string mask = reader.text("attention_mask");
  if (!mask.empty() && mask != "float")
    reader.fail("attention_mask",
                "is '" + printable(mask, 20) + "', but only additive float masks are supported",
                ErrorKind::kUnsupported);
  if (reader.flag("is_visual"))
    reader.fail("is_visual", "is true, but models that read images are not supported",
                ErrorKind::kUnsupported);
  reader.flag("is_single");
  if (reader.error()) return *reader.error();
  return config;
}

}  // namespace llmc::importer
