#include "compiler/driver/measurements.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "compiler/driver/cache.h"
#include "compiler/driver/cached_content.h"
#include "compiler/driver/calibration_text.h"
#include "compiler/emit/source.h"
#include "compiler/ir/text.h"
#include "compiler/support/check.h"

namespace llmc::driver {
namespace {

/// Maximum number of tokens per window.
constexpr std::uint32_t kMeasuredWindow = 128;

/// Returns the maximum number of tokens to measure for `matrices` matrices with `weights` weights
/// in total: 1024, and fewer for large models.
std::uint32_t tokens_for(std::uint64_t weights, std::size_t matrices) {
  // For each rounded matrix, a token runs through half of the layers on average.
  constexpr std::uint64_t kWork = 400'000'000'000;
  constexpr std::uint64_t kMinTokens = kMeasuredWindow, kMaxTokens = 8 * kMeasuredWindow;
  const std::uint64_t each = std::max<std::uint64_t>(weights / 2 * matrices, 1);
  const std::uint64_t tokens = std::clamp(kWork / each, kMinTokens, kMaxTokens);
  return static_cast<std::uint32_t>(tokens / kMeasuredWindow * kMeasuredWindow);
}

/// Returns the `count` numbers that the cache has for `key`, or computes and caches them.
template <class F>
Result<std::vector<double>> cached(const std::string& key, std::size_t count, const F& compute) {
  const std::filesystem::path file = cache_file(key, "measurement", "numbers.bin");
  if (const auto content = read_content(file);
      content && content->bytes.size() == count * sizeof(double)) {
    std::vector<double> numbers(count);
    std::memcpy(numbers.data(), content->bytes.data(), content->bytes.size());
    return numbers;
  }
  LLMC_TRY(std::vector<double> numbers, compute());
  LLMC_CHECK(numbers.size() == count);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(numbers));
  keep_content(file, std::span(&bytes, 1));
  return numbers;
}

}  // namespace

Measurements::Measurements(const ir::Graph& stages, std::vector<ir::ConstantPtr> matrices,
                           const FitInput& input, const Progress& progress)
    : stages_(stages), matrices_(std::move(matrices)), input_(input), progress_(progress) {}

Result<std::unique_ptr<Measurements>> Measurements::start(const ir::Graph& stages,
                                                          std::vector<ir::ConstantPtr> matrices,
                                                          const FitInput& input,
                                                          const Progress& progress) {
  report(progress, "measure", 0, 0);
  std::unique_ptr<Measurements> made(
      new Measurements(stages, std::move(matrices), input, progress));
  std::uint64_t weights = 0;
  for (const ir::ConstantPtr& matrix : made->matrices_)
    weights += static_cast<std::uint64_t>(matrix->element_count());
  made->tokens_ = tokens_for(weights, made->matrices_.size());
  const CalibrationText& text = input.options.budget->text;
  if (!text.write) {
    LLMC_TRY(made->ids_,
             ids_of(text, input.options, input.tokenizer, input.refused, made->tokens_));
    LLMC_RETURN_IF_ERROR(
        check_ids(text, made->ids_, input.model.module.vocabulary(), made->tokens_));
  }
  LLMC_TRY(made->bos_,
           bos_of(text, input.tokenizer, input.options, input.model.module.vocabulary()));
  LLMC_TRY(const std::string content, importer::content_hash(input.model));
  const std::string graph = ir::print(stages);
  made->key_ = fmt::format("{} {} {} {:016x} {} {} {:016x}", emit::kCompilerVersion, own_identity(),
                           content, XXH3_64bits(graph.data(), graph.size()), text_key(text),
                           plan::context_of(input.planned),
                           hash_of_ids(made->ids_, made->bos_, made->tokens_));
  return made;
}

std::uint32_t Measurements::tokens() const {
  if (input_.options.budget->text.write) return tokens_;
  return static_cast<std::uint32_t>(std::min<std::size_t>(ids_.size(), tokens_));
}

Result<calibrate::MeasureOptions> Measurements::options() {
  const CalibrationText& text = input_.options.budget->text;
  if (windows_.empty()) {
    std::vector<std::int32_t> ids = ids_;
    if (text.write) {
      LLMC_TRY(ids, text.write(bos_, tokens_));
      LLMC_RETURN_IF_ERROR(check_ids(text, ids, input_.model.module.vocabulary(), tokens_));
    }
    const std::uint32_t size = std::min(kMeasuredWindow, plan::context_of(input_.planned));
    windows_ = windows_of(ids, text.write ? -1 : bos_, size, tokens_);
  }
  calibrate::MeasureOptions options;
  options.windows = windows_;
  options.progress = [this](std::uint64_t done, std::uint64_t total) {
    report(progress_, "measure", done, total);
  };
  return options;
}

Result<std::vector<calibrate::Losses>> Measurements::losses() {
  std::vector<calibrate::Losses> losses(matrices_.size());
  const std::size_t width = losses.front().size();
  const auto compute = [&]() -> Result<std::vector<double>> {
    LLMC_TRY(const auto how, options());
    LLMC_TRY(const auto measured, calibrate::measure_losses(stages_, matrices_, how));
    std::vector<double> numbers;
    for (const calibrate::Losses& loss : measured)
      numbers.insert(numbers.end(), loss.begin(), loss.end());
    return numbers;
  };
  LLMC_TRY(const std::vector<double> numbers,
           cached(key_ + " losses", matrices_.size() * width, compute));
  for (std::size_t i = 0; i < numbers.size(); ++i) losses[i / width][i % width] = numbers[i];
  return losses;
}

Result<double> Measurements::divergence(const std::vector<ir::WeightFormat>& formats) {
  calibrate::Rounded rounded;
  std::string name = key_;
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    rounded[matrices_[i].get()] = formats[i];
    name += fmt::format(" {}", static_cast<int>(formats[i]));
  }
  const auto compute = [&]() -> Result<std::vector<double>> {
    report(progress_, "measure", 0, 0);
    LLMC_TRY(const auto how, options());
    LLMC_TRY(const double divergence, calibrate::measure_divergence(stages_, rounded, how));
    return std::vector<double>{divergence};
  };
  LLMC_TRY(const std::vector<double> numbers, cached(name, 1, compute));
  return numbers.front();
}

}  // namespace llmc::driver
