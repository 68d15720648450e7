#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "compiler/driver/compile_options.h"
#include "compiler/ir/graph.h"

/// Limits of the source that an encoder-decoder attends to.
namespace llmc::driver {

/// Returns the minimum and maximum number of tokens, samples or frames of a source. The maximum is
/// options.source_max or, if that is 0, a default that fits the encoder's positions. Fails with
/// kUsage if the requested maximum exceeds the encoder's positions, gives no rows, or differs from
/// a fixed number. Fails with kUnsupported if the encoder's number of rows depends on
/// more than the size of the source.
Result<plan::DimRange> source_range(const ir::Graph& encoder, const CompileOptions& options);

/// Fails with kBadInput if one of `ids`, the start tokens of texts, is outside the decoder's
/// vocabulary. `model`: its path, for the message.
Status check_start_ids(std::span<const std::int32_t> ids, std::int64_t vocabulary,
                       const std::filesystem::path& model);

/// Returns the size of the encoder's vocabulary: 0 if it reads features, INT32_MAX if unknown.
std::uint32_t source_vocabulary(const ir::Graph& encoder);

}  // namespace llmc::driver
