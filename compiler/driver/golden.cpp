#include "compiler/driver/golden.h"

#include <nlohmann/json.hpp>

#include "compiler/plan/plan.h"
#include "compiler/support/file.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kMaxGoldenBytes = 1 << 20;

}  // namespace

fs::path default_golden_file(const fs::path& model) {
  std::error_code ignored;
  if (fs::is_directory(model, ignored)) return model / "golden-hashes.json";
  return model.string() + ".golden-hashes.json";
}

Result<std::map<std::string, std::string>> read_golden(const fs::path& file) {
  std::map<std::string, std::string> hashes;
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return hashes;
  LLMC_TRY(const std::string text, read_file(file, kMaxGoldenBytes));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const Diagnostic damaged{
      .kind = ErrorKind::kBadInput,
      .file = file.string(),
      .message = "not a file of golden hashes",
      .hint = "--golden names the file; --update writes a new one where none is"};
  if (!json.is_object() || !json.contains("hashes") || !json["hashes"].is_object()) return damaged;
  const auto numerics = json.find("numerics");
  if (numerics == json.end()) return hashes;
  if (!numerics->is_string()) return damaged;
  if (numerics->get<std::string>() != plan::kNumericsVersion) return hashes;
  for (const auto& [key, value] : json["hashes"].items()) {
    if (!value.is_string()) return damaged;
    hashes[key] = value.get<std::string>();
  }
  return hashes;
}

Status write_golden(const fs::path& file, const std::map<std::string, std::string>& hashes) {
  nlohmann::ordered_json json;
  json["what"] =
      "xxh64 of logit bits after a prompt, a chunk on its cache and greedy steps; the same on "
      "every "
      "target and for any number of threads; rewritten by `llmc verify MODEL --update`";
  json["numerics"] = plan::kNumericsVersion;
  json["hashes"] = hashes;
  return replace_file(file, json.dump(1) + "\n");
}

}  // namespace llmc::driver
