#pragma once

#include <string>
#include <string_view>

#include "compiler/ir/op.h"
#include "compiler/support/result.h"
#include "llmc/sizes.h"

/// Names of the formats that keys and values are kept in (templates/llmc/quant/kv.h).
namespace llmc::plan {

/// "f32", "f16", "int8", "fp8".
std::string_view kv_format_name(KvFormat format);
/// The enumerator: "kF16".
std::string_view kv_enumerator(KvFormat format);

/// "f16" of both, or "K=int8,V=fp8": what parse_kv_formats reads.
std::string to_string(KvFormats formats);
/// One format for both, or one each as "K=int8,V=fp8"; what is not named is f32. kUsage for
/// anything else, and for keys in fp8.
Result<KvFormats> parse_kv_formats(std::string_view text);
/// What a command keeps keys and values in when it is not told: f32 beside f32 weights, whose
/// results are to be compared with others', else f16 (docs/decisions/0006-cache-formats.md).
KvFormats default_kv_formats(ir::WeightFormat weights);

}  // namespace llmc::plan
