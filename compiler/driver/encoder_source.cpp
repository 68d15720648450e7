#include "compiler/driver/encoder_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "passes/size_limit.h"

namespace llmc::driver {
namespace {

/// Returns the largest n in 0 .. max with f(n) <= limit; 0 if there is none. `f` must not decrease.
template <class F>
std::int64_t last_at_most(std::int64_t limit, std::int64_t max, const F& f) {
  std::int64_t low = 0, high = max;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (f(middle) <= limit) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace

Result<plan::DimRange> source_range(const ir::Graph& encoder, const CompileOptions& options) {
  const ir::TensorType& input = encoder.value(encoder.inputs().front()).type;
  const ir::Dim source = ir::Dim::symbol("source");
  const bool is_samples = std::ranges::all_of(
      input.dims, [](const ir::Dim& dim) { return dim.constant().value_or(1) == 1; });
  const bool is_ids = input.element == ir::ElementType::kI64;
  const std::string_view unit = plan::source_unit(is_ids ? 0 : is_samples ? 1 : 2);
  if (ir::element_count(input)) {
    const std::int64_t size = *input.dims.back().constant();
    if (options.source_max == 0 || options.source_max == size) return plan::DimRange(size);
    return usage_error(fmt::format("the encoder reads {} {}, no other number", size, unit),
                       "leave out --source-ctx");
  }
  const ir::Dim rows = encoder.value(encoder.outputs().front()).type.dims[2];
  if (!rows.evaluate({{"source", 1}}))
    return file_failure(
        ErrorKind::kUnsupported, options.model.string(),
        fmt::format("the encoder's number of rows, {}, depends on more than the size of its source",
                    rows.to_string()),
        "export it without operators whose output size depends on values, such as NonZero");
  const auto rows_of = [&](std::int64_t n) { return rows.evaluate({{"source", n}}).value_or(0); };
  const std::int64_t positions =
      std::max<std::int64_t>(1, passes::size_limit(encoder, rows).value_or(plan::kMaxContext));
  const std::int64_t most = last_at_most(positions, plan::kMaxContext, rows_of);
  const std::int64_t least = last_at_most(0, plan::kMaxContext, rows_of) + 1;
  const std::int64_t usual = is_ids       ? CompileOptions::kDefaultSource
                             : is_samples ? CompileOptions::kDefaultSamples
                                          : CompileOptions::kDefaultFrames;
  const std::int64_t wanted = options.source_max == 0 ? std::min(most, usual) : options.source_max;
  if (wanted > most)
    return usage_error(fmt::format("the encoder has only {} positions", positions),
                       fmt::format("use --source-ctx {} or less", most));
  if (wanted < least)
    return usage_error(fmt::format("a source of {} {} has no rows", wanted, unit),
                       fmt::format("use --source-ctx {} or more", least));
  return plan::DimRange(least, wanted);
}

Status check_start_ids(std::span<const std::int32_t> ids, std::int64_t vocabulary,
                       const std::filesystem::path& model) {
  for (const std::int32_t id : ids)
    if (id >= vocabulary)
      return file_failure(
          ErrorKind::kBadInput, model.string(),
          fmt::format("the start token {} is not below the vocabulary of {}", id, vocabulary),
          "correct decoder_start_token_id, forced_bos_token_id and forced_decoder_ids in "
          "generation_config.json and config.json: they may belong to another model");
  return ok_status();
}

std::uint32_t source_vocabulary(const ir::Graph& encoder) {
  const ir::ValueId input = encoder.inputs().front();
  if (encoder.value(input).type.element != ir::ElementType::kI64) return 0;
  constexpr std::int64_t kMostIds = std::numeric_limits<std::int32_t>::max();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(
      passes::vocabulary_limit(encoder, input).value_or(kMostIds), 1, kMostIds));
}

}  // namespace llmc::driver
