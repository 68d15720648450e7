#pragma once

#include <string>
#include <string_view>

#include "compiler/ir/op.h"
#include "compiler/support/result.h"
#include "llmc/sizes.h"

/// Names of the KV cache formats (templates/llmc/quant/kv.h).
namespace llmc::plan {

/// Returns, for example, "f32", "f16", "int8" or "fp8".
std::string_view kv_format_name(KvFormat format);
/// Returns the name of the enumerator, for example "kF16".
std::string_view kv_enumerator(KvFormat format);

/// Returns one name, such as "f16", if keys and values have the same format, else both, such as
/// "K=int8,V=fp8". parse_kv_formats() reads both forms.
std::string to_string(KvFormats formats);
/// Parses one format for both keys and values, or separate formats such as "K=int8,V=fp8". An
/// omitted format is f32. Fails with kUsage for any other text and for fp8 keys.
Result<KvFormats> parse_kv_formats(std::string_view text);
/// Returns the default KV cache formats: f16, or f32 for f32 weights, whose results are compared
/// with other implementations (docs/decisions/0006-cache-formats.md).
KvFormats default_kv_formats(ir::WeightFormat weights);

}  // namespace llmc::plan
