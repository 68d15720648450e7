#include "compiler/driver/calibration.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "compiler/driver/cache.h"
#include "compiler/emit/source.h"
#include "compiler/ir/text.h"
#include "compiler/support/atomic_output.h"
#include "compiler/support/file.h"
#include "compiler/support/mapped_file.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMatricesFile = "matrices.bin";
/// Minimum number of tokens: fewer say nothing about the inputs of a matrix.
constexpr std::size_t kFewestTokens = 64;

std::uint64_t hash_of(std::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

Diagnostic bad_text(const CalibrationText& given, std::string message, std::string hint) {
  return file_failure(ErrorKind::kBadInput, given.source, std::move(message), std::move(hint));
}

/// Parses token ids between blanks and commas; nullopt for other text.
std::optional<std::vector<std::int32_t>> parse_ids(std::string_view text) {
  std::vector<std::int32_t> ids;
  constexpr std::string_view kBetween = ", \t\r\n";
  for (std::size_t at = 0;;) {
    at = text.find_first_not_of(kBetween, at);
    if (at == text.npos) return ids;
    std::int32_t id = -1;
    const char* const end = text.data() + text.size();
    const auto [next, error] = std::from_chars(text.data() + at, end, id);
    if (error != std::errc{} || id < 0) return std::nullopt;
    ids.push_back(id);
    at = static_cast<std::size_t>(next - text.data());
    if (next != end && kBetween.find(*next) == kBetween.npos) return std::nullopt;
  }
}

/// Returns the part of a text that is long enough for `tokens` tokens, in whole characters.
std::string_view part_of(std::string_view text, std::uint32_t tokens) {
  constexpr std::size_t kMostBytesPerToken = 64;
  std::size_t end = std::min(text.size(), tokens * kMostBytesPerToken);
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;
  return text.substr(0, end);
}

/// Returns the text as ids.
Result<std::vector<std::int32_t>> ids_of(const CalibrationText& given,
                                         const hosted::Tokenizer* tokenizer,
                                         const std::string& refused, std::uint32_t tokens) {
  if (tokenizer)
    return tokenizer->encode(part_of(given.text, tokens),
                             {.add_prefix = false, .parse_special = false});
  if (auto ids = parse_ids(given.text)) return *std::move(ids);
  return bad_text(given,
                  refused.empty() ? "the model has no tokenizer for the calibration's text"
                                  : fmt::format("the model's tokenizer was refused: {}", refused),
                  "without a tokenizer, the file must be a list of token ids; --calibrate self "
                  "needs no text");
}

/// Checks that the ids are enough, and the model's.
Status check_ids(const CalibrationText& given, std::span<const std::int32_t> ids,
                 std::int64_t vocabulary, std::uint32_t tokens) {
  if (ids.size() < kFewestTokens)
    return bad_text(given,
                    fmt::format("the calibration's text has {} tokens, fewer than {}", ids.size(),
                                kFewestTokens),
                    fmt::format("give a text of some pages; {} tokens are read of it", tokens));
  for (const std::int32_t id : ids)
    if (id >= vocabulary)
      return bad_text(given,
                      fmt::format("token id {} is not below the vocabulary of {}", id, vocabulary),
                      "check that text and tokenizer belong to the model");
  return ok_status();
}

/// Returns a hash of what is read, or of what determines the text that the model writes.
std::uint64_t hash_of_ids(std::span<const std::int32_t> ids, std::int32_t bos,
                          std::uint32_t tokens) {
  const std::uint64_t seed = static_cast<std::uint64_t>(static_cast<std::uint32_t>(bos)) << 32;
  return XXH3_64bits_withSeed(ids.data(), ids.size_bytes(), seed | tokens);
}

/// Cuts ids into windows, each of which begins with `bos` if it is not negative.
std::vector<std::vector<std::int32_t>> windows_of(const std::vector<std::int32_t>& ids,
                                                  std::int32_t bos, std::uint32_t size,
                                                  std::uint32_t tokens) {
  std::vector<std::vector<std::int32_t>> windows;
  if (size < 2) bos = -1;  // there is room for one token
  const std::size_t count = std::min<std::size_t>(ids.size(), tokens);
  for (std::size_t at = 0; at < count;) {
    std::vector<std::int32_t>& window = windows.emplace_back();
    if (bos >= 0) window.push_back(bos);
    while (at < count && window.size() < size) window.push_back(ids[at++]);
  }
  return windows;
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
  return given.write ? given.source : fmt::format("text-{:016x}", hash_of(given.text));
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
  const std::int32_t bos = tokenizer ? tokenizer->bos().value_or(-1) : -1;
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
