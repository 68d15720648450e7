#include "compiler/driver/calibration.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "compiler/driver/cache.h"
#include "compiler/driver/calibration_text.h"
#include "compiler/emit/source.h"
#include "compiler/ir/text.h"
#include "compiler/support/atomic_output.h"
#include "compiler/support/file.h"
#include "compiler/support/mapped_file.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMatricesFile = "matrices.bin";

std::uint64_t hash_of(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

/// Returns the matrices in a file of the cache; empty if it is damaged.
calibrate::Matrices read_matrices(const fs::path& file,
                                  const std::vector<calibrate::RoundedMatrix>& wanted) {
  calibrate::Matrices matrices;
  const auto mapped = MappedFile::open(file);
  if (!mapped.ok()) return matrices;
  std::span<const std::byte> rest = (*mapped)->bytes();
  std::uint64_t hash = 0;
  if (rest.size() < sizeof hash) return matrices;
  std::memcpy(&hash, rest.data(), sizeof hash);
  rest = rest.subspan(sizeof hash);
  if (hash != XXH3_64bits(rest.data(), rest.size())) return matrices;
  for (const calibrate::RoundedMatrix& matrix : wanted) {
    const auto rows = static_cast<std::size_t>(matrix.data->dims()[0]);
    const auto columns = static_cast<std::size_t>(matrix.data->dims()[1]);
    const std::size_t bytes = weight_bytes(matrix.kind, rows, columns);
    if (bytes > rest.size()) return {};
    matrices[matrix.data.get()] = std::make_shared<quant::EncodedMatrix>(
        matrix.kind, rows, columns, *mapped, rest.first(bytes));
    rest = rest.subspan(bytes);
  }
  if (!rest.empty()) matrices.clear();
  return matrices;
}

/// Writes the matrices as an entry of the cache. A failure only means that they are not kept.
void keep_matrices(const fs::path& entry, const std::vector<calibrate::RoundedMatrix>& wanted,
                   const calibrate::Matrices& matrices) {
  std::string content(sizeof(std::uint64_t), '\0');
  for (const calibrate::RoundedMatrix& matrix : wanted) {
    const auto bytes = matrices.at(matrix.data.get())->bytes();
    content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  const std::uint64_t hash = hash_of(std::string_view(content).substr(sizeof(std::uint64_t)));
  std::memcpy(content.data(), &hash, sizeof hash);
  auto folder = AtomicDirectory::create(entry, [](const fs::path&) { return ok_status(); });
  if (folder.ok() && write_file(folder->path() / kMatricesFile, content).ok()) {
    const Status committed = folder->commit();
    if (committed.ok()) touch_entry(entry);
  }
}

}  // namespace

std::uint32_t calibration_tokens(std::uint64_t weights) {
  // The work is proportional to both.
  constexpr std::uint64_t kWork = 10'000'000'000'000, kFewest = 8192, kMost = 32768;
  return static_cast<std::uint32_t>(
      std::clamp(kWork / std::max<std::uint64_t>(weights, 1), kFewest, kMost));
}

std::string calibration_key(const CompileOptions& options) {
  if (!options.calibration || !ir::is_quantized(options.quant.format)) return {};
  const CalibrationText& given = *options.calibration;
  return text_key(given);
}

Result<calibrate::Matrices> calibrated(const ir::Graph& stages, const CompileOptions& options,
                                       const importer::ImportedModel& model,
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
                                 .hint = "--quant=q4, q6 and q8 round matrices of floats"});
    return matrices;
  }
  report(progress, "calibrate", 0, 0);
  const std::uint32_t size = std::min(kCalibrationWindow, context);
  std::uint64_t weights = 0;
  for (const calibrate::RoundedMatrix& matrix : wanted)
    weights += static_cast<std::uint64_t>(matrix.data->element_count());
  const std::uint32_t tokens = calibration_tokens(weights);
  const std::int32_t bos = bos_of(tokenizer);
  std::vector<std::int32_t> ids;
  if (!given.write) {
    LLMC_TRY(ids, ids_of(given, tokenizer, refused, tokens));
    LLMC_RETURN_IF_ERROR(check_ids(given, ids, model.module.vocabulary(), tokens));
  }
  fs::path entry;
  if (const fs::path cache = cache_folder(); !cache.empty()) {
    LLMC_TRY(const std::string content, importer::content_hash(model));
    const std::string key = fmt::format(
        "{} {} {} {:016x} {} {} {:016x}", emit::kCompilerVersion, own_identity(), content,
        hash_of(ir::print(stages)), calibration_key(options), size, hash_of_ids(ids, bos, tokens));
    const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
    entry = cache / fmt::format("{:016x}{:016x}-calibration", hash.high64, hash.low64);
    matrices = read_matrices(entry / kMatricesFile, wanted);
    if (!matrices.empty()) {
      touch_entry(entry);
      return matrices;
    }
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
  if (!entry.empty()) keep_matrices(entry, wanted, matrices);
  return matrices;
}

void use_encoded(const calibrate::Matrices& matrices, std::vector<plan::Plan>& plans) {
  for (plan::Plan& plan : plans)
    for (plan::PackedWeight& weight : plan.program.weights)
      if (const auto found = matrices.find(weight.data.get());
          weight.use == plan::WeightUse::kMatrix && found != matrices.end() &&
          found->second->kind() == weight.matrix)
        weight.encoded = found->second;
}

}  // namespace llmc::driver
