#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "compiler/driver/compile_options.h"
#include "compiler/ir/graph.h"

/// What an encoder-decoder reads.
namespace llmc::driver {

/// Returns the limits of the number of tokens or frames of a source: up to the given maximum, or a
/// default that fits the encoder's positions. Fails with kUsage if the encoder has fewer positions
/// than requested, or a fixed number of frames; with kUnsupported if the number of its rows depends
/// on more than the size of its source.
Result<plan::DimRange> source_range(const ir::Graph& encoder, const CompileOptions& options);

/// Fails with kBadInput if an id with which texts begin is outside the decoder's vocabulary.
Status check_start_ids(std::span<const std::int32_t> ids, std::int64_t vocabulary,
                       const std::filesystem::path& model);

/// Returns the size of the encoder's vocabulary; 0 if it reads features.
std::uint32_t source_vocabulary(const ir::Graph& encoder);

}  // namespace llmc::driver
