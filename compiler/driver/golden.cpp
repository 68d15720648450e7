#include "compiler/driver/golden.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "compiler/plan/plan.h"
#include "compiler/support/file.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kMaxGoldenBytes = 1 << 20;

}  // namespace

std::string golden_key(std::string_view quant, KvFormats kv, std::string_view calibration,
                       bool requantize) {
  std::string key(quant);
  if (requantize) key += ",requantize";
  if (!calibration.empty()) key += fmt::format(",calibrate={}", calibration);
  if (kv != KvFormats{}) key += ",kv=" + plan::to_string(kv);
  return key;
}

fs::path default_golden_file(const fs::path& model) {
  std::error_code ignored;
  if (fs::is_directory(model, ignored)) return model / "golden-hashes.json";
  return model.string() + ".golden-hashes.json";
}

Result<GoldenHashes> read_golden(const fs::path& file) {
  GoldenHashes golden{.numerics = std::string(plan::kNumericsVersion), .hashes = {}};
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return golden;
  LLMC_TRY(const std::string text, read_file(file, kMaxGoldenBytes));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const Diagnostic damaged{.kind = ErrorKind::kBadInput,
                           .file = file.string(),
                           .message = "not a file of golden hashes",
                           .hint = "verify --update writes one, also to the file of --golden"};
  if (!json.is_object() || !json.contains("hashes") || !json["hashes"].is_object()) return damaged;
  const auto numerics = json.find("numerics");
  if (numerics != json.end() && !numerics->is_string()) return damaged;
  golden.numerics = numerics != json.end() ? numerics->get<std::string>() : "unknown";
  for (const auto& [key, value] : json["hashes"].items()) {
    if (!value.is_string()) return damaged;
    golden.hashes[key] = value.get<std::string>();
  }
  return golden;
}

std::map<std::string, std::string> stored_hashes(const fs::path& model, const std::string& key) {
  auto golden = read_golden(default_golden_file(model));
  if (!golden.ok() || golden->numerics != plan::kNumericsVersion) return {};
  std::erase_if(golden->hashes, [&](const auto& entry) {
    return entry.first != key && !entry.first.starts_with(key + "/");
  });
  return std::move(golden->hashes);
}

Status write_golden(const fs::path& file, const GoldenHashes& golden) {
  nlohmann::ordered_json json;
  json["what"] =
      "xxh64 of logit bits after a prompt, a chunk on its cache and greedy steps; the same on "
      "every "
      "target and for any number of threads; rewritten by `llmc verify MODEL --update`";
  json["numerics"] = golden.numerics;
  json["hashes"] = golden.hashes;
  return replace_file(file, json.dump(1) + "\n");
}

}  // namespace llmc::driver
