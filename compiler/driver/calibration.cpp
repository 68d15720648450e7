#include "compiler/driver/calibration.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "compiler/calibrate/window_inputs.h"
#include "compiler/driver/cache.h"
#include "compiler/driver/cached_content.h"
#include "compiler/driver/calibration_text.h"
#include "compiler/driver/control_tokens.h"
#include "compiler/emit/source.h"
#include "compiler/ir/text.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;

std::uint64_t hash_of(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

/// Reads the matrices from a cache file. Returns an empty map if the file is missing or damaged.
calibrate::Matrices read_matrices(const fs::path& file,
                                  const std::vector<calibrate::RoundedMatrix>& wanted) {
  calibrate::Matrices matrices;
  const std::optional<CachedContent> content = read_content(file);
  if (!content) return matrices;
  std::span<const std::byte> rest = content->bytes;
  for (const calibrate::RoundedMatrix& matrix : wanted) {
    const auto rows = static_cast<std::size_t>(matrix.data->dims()[0]);
    const auto columns = static_cast<std::size_t>(matrix.data->dims()[1]);
    const std::size_t bytes = weight_bytes(matrix.kind, rows, columns);
    if (bytes > rest.size()) return {};
    matrices[matrix.data.get()] = std::make_shared<quant::EncodedMatrix>(
        matrix.kind, rows, columns, content->owner, rest.first(bytes));
    rest = rest.subspan(bytes);
  }
  if (!rest.empty()) matrices.clear();
  return matrices;
}

/// Writes the matrices to a cache file. Ignores failures: then they are not cached.
void keep_matrices(const fs::path& file, const std::vector<calibrate::RoundedMatrix>& wanted,
                   const calibrate::Matrices& matrices) {
  std::vector<std::span<const std::byte>> parts;
  for (const calibrate::RoundedMatrix& matrix : wanted)
    parts.push_back(matrices.at(matrix.data.get())->bytes());
  keep_content(file, parts);
}

/// Warns if the text of `ids`, the part of the calibration text that is used, contains names of
/// control tokens that are read as plain text.
void warn_of_control_tokens(const CalibrationText& given, const hosted::Tokenizer* tokenizer,
                            std::span<const std::int32_t> ids, const CompileOptions& options) {
  if (!tokenizer || given.parse_special || given.builtin || !options.import.on_warning) return;
  const std::string names = spelled_control_tokens(*tokenizer, tokenizer->decode(ids), ids);
  if (names.empty()) return;
  options.import.on_warning(
      {.file = given.source,
       .message = fmt::format("control tokens ({}) are read as plain text", names),
       .hint = "--parse-special reads them as tokens"});
}

}  // namespace

std::uint32_t calibration_tokens(std::uint64_t weights) {
  // The work is proportional to the numbers of weights and of tokens.
  constexpr std::uint64_t kWork = 10'000'000'000'000, kMinTokens = 8192, kMaxTokens = 32768;
  return static_cast<std::uint32_t>(
      std::clamp(kWork / std::max<std::uint64_t>(weights, 1), kMinTokens, kMaxTokens));
}

std::string calibration_key(const CompileOptions& options) {
  if (!options.calibration || !ir::is_quantized(options.quant.format)) return {};
  const CalibrationText& given = *options.calibration;
  return text_key(given);
}

Result<calibrate::Matrices> calibrated(const ir::Graph& stages, const CompileOptions& options,
                                       Purpose purpose, const importer::ImportedModel& model,
                                       const hosted::Tokenizer* tokenizer,
                                       const std::string& refused, std::uint32_t context,
                                       const Progress& progress) {
  calibrate::Matrices matrices;
  if (!options.calibration) return matrices;
  const CalibrationText& given = *options.calibration;
  const std::vector<calibrate::RoundedMatrix> wanted = calibrate::matrices_of(stages);
  if (wanted.empty()) {
    if (options.import.on_warning)
      options.import.on_warning({.message = "--calibrate has no effect: no matrix is rounded",
                                 .hint = "--quant=q4, q6 and q8 round matrices of floats; with "
                                         "--requantize also those of integer codes"});
    return matrices;
  }
  const std::vector<std::int32_t> token[] = {{0}};
  LLMC_RETURN_IF_ERROR(calibrate::window_inputs(stages, token, 1));  // before the text is generated
  report(progress, "calibrate", 0, 0);
  const std::uint32_t size = std::min(kCalibrationWindow, context);
  std::uint64_t weights = 0;
  for (const calibrate::RoundedMatrix& matrix : wanted)
    weights += static_cast<std::uint64_t>(matrix.data->element_count());
  const std::uint32_t tokens = calibration_tokens(weights);
  LLMC_TRY(const std::int32_t bos, bos_of(given, tokenizer, options, model.module.vocabulary()));
  std::vector<std::int32_t> ids;
  if (!given.write) {
    LLMC_TRY(ids, ids_of(given, options, tokenizer, refused, tokens));
    LLMC_RETURN_IF_ERROR(check_ids(given, ids, model.module.vocabulary(), tokens));
    warn_of_control_tokens(
        given, tokenizer, std::span(ids).first(std::min<std::size_t>(ids.size(), tokens)), options);
  }
  if (purpose == Purpose::kPlan) return matrices;
  fs::path file;
  if (!cache_folder().empty()) {
    LLMC_TRY(const std::string content, importer::content_hash(model));
    const std::string key = fmt::format(
        "{} {} {} {:016x} {} {} {:016x}", emit::kCompilerVersion, own_identity(), content,
        hash_of(ir::print(stages)), calibration_key(options), size, hash_of_ids(ids, bos, tokens));
    file = cache_file(key, "calibration", "matrices.bin");
    matrices = read_matrices(file, wanted);
    if (!matrices.empty()) return matrices;
  }
  if (given.write) {
    LLMC_TRY(ids, given.write(bos, tokens));
    LLMC_RETURN_IF_ERROR(check_ids(given, ids, model.module.vocabulary(), tokens));
  }
  calibrate::Options run;
  run.windows = windows_of(ids, given.write ? -1 : bos, size, tokens);
  run.progress = [&](std::uint64_t done, std::uint64_t total) {
    report(progress, "calibrate", done, total);
  };
  LLMC_TRY(matrices, calibrate::calibrate(stages, run));
  if (!file.empty()) keep_matrices(file, wanted, matrices);
  return matrices;
}

void use_encoded(const calibrate::Matrices& matrices, std::vector<plan::Plan>& plans) {
  for (plan::Plan& plan : plans)
    for (plan::PackedWeight& weight : plan.program.weights)
      if (const auto found = matrices.find(weight.data.get());
          weight.use == plan::WeightUse::kMatrix && found != matrices.end() &&
          found->second->kind() == unsplit(weight.matrix))
        weight.encoded = found->second;
}

}  // namespace llmc::driver
