#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/onnx/model.h"
#include "compiler/support/result.h"

namespace llmc::importer {

/// The shape of one layer's cache as llm_config.json gives it: [2, 1, past, kv, D] or
/// [2, 1, kv, past, D], with 0 for past.
struct CacheShape {
  ir::CacheLayout layout = ir::CacheLayout::kSequenceFirst;
  std::int64_t kv_heads = 0, head_dim = 0;
};

/// The fields of llm_config.json that llmc reads: all optional and untrusted.
struct LlmConfig {
  std::optional<std::int64_t> hidden;
  std::optional<std::int64_t> layers;
  std::optional<CacheShape> cache;
  std::string prompt_template;
};

/// kBadInput if `text` is not a JSON object or a field has the wrong type or an invalid value.
/// kUnsupported for masks other than additive floats and for models that read images. Unknown
/// fields are ignored.
Result<LlmConfig> parse_config(std::string_view text, const std::string& file);

}  // namespace llmc::importer
