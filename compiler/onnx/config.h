#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "compiler/onnx/model.h"
#include "compiler/support/result.h"

namespace llmc::importer {

/// Shape of one layer's cache: [2, 1, past, kv_heads, head_dim] or [2, 1, kv_heads, past,
/// head_dim].
struct CacheShape {
  ir::CacheLayout layout = ir::CacheLayout::kSequenceFirst;
  std::int64_t kv_heads = 0, head_dim = 0;
};

/// The fields of llm_config.json that llmc reads. All are optional and untrusted.
struct LlmConfig {
  std::optional<std::int64_t> hidden;
  std::optional<std::int64_t> layers;
  std::optional<CacheShape> cache;
  std::string prompt_template;
};

/// Parses llm_config.json. Ignores unknown fields. Fails with kBadInput if `text` is not a JSON
/// object, or if a field has a wrong type or an invalid value. Fails with kUnsupported for masks
/// other than additive floats and for models that read images.
Result<LlmConfig> parse_config(std::string_view text, const std::string& file);

}  // namespace llmc::importer
