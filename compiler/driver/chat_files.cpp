#include "compiler/driver/chat_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/model_config.h"
#include "compiler/support/file.h"
#include "compiler/support/model_folders.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using hosted::ChatDescription;

constexpr std::uint64_t kMaxTemplateBytes = std::uint64_t{1} << 20;
constexpr std::size_t kMaxIds = 1000;

/// Reads files in a model's folders, and keeps the first error.
class FolderReader {
 public:
  explicit FolderReader(std::vector<fs::path> folders) : folders_(std::move(folders)) {}

  /// Returns the object in a file; empty if the file does not exist or on an error.
  Json object(const char* name) {
    auto config = read_model_config(folders_, name);
    if (!config.ok()) {
      if (!error_) error_ = std::move(config).error();
      return Json::object();
    }
    file_ = std::move(config->file);
    return std::move(config->object);
  }

  std::optional<std::string> content(const char* name, std::uint64_t max_bytes) {
    const auto file = find_in_folders(folders_, name);
    if (!file) return std::nullopt;
    file_ = *file;
    auto text = read_file(file_, max_bytes);
    if (text.ok()) return *std::move(text);
    if (!error_) error_ = std::move(text).error();
    return std::nullopt;
  }

  /// Returns the string `key` of `object`; empty if it is missing or null.
  std::string text(const Json& object, const char* key) {
    const Json* const found = value_of(object, key);
    if (found == nullptr) return {};
    if (found->is_string()) return found->get<std::string>();
    fail("'" + std::string(key) + "' is not a string");
    return {};
  }

  /// Returns the text of the token `key`: a string, or an object that contains it.
  std::string token(const Json& object, const char* key) {
    const auto it = object.find(key);
    if (it != object.end() && it->is_object()) return text(*it, "content");
    return text(object, key);
  }

  /// Appends an id, or a list of ids, to `ids`.
  void ids(const Json& object, const char* key, std::vector<std::int32_t>& ids) {
    const Json* const found = value_of(object, key);
    if (found == nullptr) return;
    const Json list = found->is_array() ? *found : Json::array({*found});
    for (const Json& id : list) {
      if (!id.is_number_integer() || id < -1 || id > INT32_MAX || list.size() > kMaxIds)
        return fail(fmt::format("'{}' is neither a token id nor a list of up to {}", key, kMaxIds));
      const auto value = id.get<std::int32_t>();  // -1: no token
      if (value >= 0 && std::ranges::find(ids, value) == ids.end()) ids.push_back(value);
    }
  }

  /// Returns the string `key`, which must contain %s exactly once. Returns an empty string if it is
  /// missing, or if it is only "%s".
  std::string pattern(const Json& object, const char* key) {
    std::string value = text(object, key);
    const std::size_t at = value.find("%s");
    if (!value.empty() && (at == value.npos || value.find("%s", at + 2) != value.npos))
      fail("'" + std::string(key) + "' does not have the place %s for a text once");
    return value == "%s" ? std::string() : value;  // plain text: not a template
  }

  /// Appends the value of `key` as the sampling parameter `name`. Does nothing if it is missing or
  /// null, or if an earlier key has set the parameter. Hugging Face disables parameters that are
  /// whole numbers with -1, which becomes 0.
  void sampling(const Json& object, const char* key, const char* name,
                hosted::SamplingValues& values) {
    const Json* const found = value_of(object, key);
    if (found == nullptr) return;
    const hosted::SamplingParameter* const parameter = hosted::sampling_parameter(name);
    const bool off = parameter->whole != nullptr && *found == -1;
    const double value = found->is_number() && !off ? found->get<double>() : 0;
    if (!found->is_number() || !hosted::is_valid(*parameter, value)) {
      return fail(fmt::format("'{}' is not a {}number from {} to {}", key,
                              parameter->whole != nullptr ? "whole " : "", parameter->min,
                              parameter->max));
    }
    for (const hosted::SamplingValue& known : values)
      if (known.parameter == parameter) return;
    values.push_back({parameter, value});
  }

  void fail(const std::string& what) {
    if (!error_) error_ = bad_model_config(file_, what);
  }
  const std::optional<Error>& error() const { return error_; }
  const fs::path& file() const { return file_; }

 private:
  const std::vector<fs::path> folders_;
  fs::path file_;  // the file read last
  std::optional<Error> error_;
};

/// Returns `chat_template`: a string, or the entry "default" of a list of named templates.
std::string named_template(FolderReader& reader, const Json& object) {
  const auto it = object.find("chat_template");
  if (it == object.end() || !it->is_array()) return reader.text(object, "chat_template");
  for (const Json& entry : *it) {
    if (!entry.is_object()) reader.fail("'chat_template' lists something without a name");
    if (entry.is_object() && reader.text(entry, "name") == "default")
      return reader.text(entry, "template");
  }
  return {};
}

/// A key of a file and the corresponding field of llmc_sampling.
struct SamplingKey {
  const char *key, *name;
};

/// Reads the sampling parameters of a generation_config.json.
void read_hugging_face_sampling(FolderReader& reader, const Json& object,
                                hosted::SamplingValues& out) {
  const auto draws = object.find("do_sample");
  if (draws != object.end() && !draws->is_null() && !draws->is_boolean())
    return reader.fail("'do_sample' is neither true nor false");
  if (draws != object.end() && *draws == false) {
    out.push_back({hosted::sampling_parameter("temperature"), 0});
  } else {
    constexpr SamplingKey kKeys[] = {{"temperature", "temperature"},
                                     {"top_k", "top_k"},
                                     {"top_p", "top_p"},
                                     {"min_p", "min_p"},
                                     {"typical_p", "typical_p"}};
    for (const auto& [key, name] : kKeys) reader.sampling(object, key, name, out);
  }
  reader.sampling(object, "repetition_penalty", "repeat_penalty", out);
}

/// Reads the sampling parameters of MNN's llm_config.json or config.json, with old and new key
/// names.
void read_mnn_sampling(FolderReader& reader, const Json& object, hosted::SamplingValues& out) {
  if (reader.text(object, "sampler_type") == "greedy") {
    out.push_back({hosted::sampling_parameter("temperature"), 0});
    return;
  }
  constexpr SamplingKey kKeys[] = {
      {"temperature", "temperature"},
      {"top_k", "top_k"},
      {"topK", "top_k"},
      {"top_p", "top_p"},
      {"topP", "top_p"},
      {"min_p", "min_p"},
      {"minP", "min_p"},
      {"tfs_z", "tfs_z"},
      {"tfsZ", "tfs_z"},
      {"typical", "typical_p"},
      {"repetition_penalty", "repeat_penalty"},
      {"penalty", "repeat_penalty"},
      {"frequency_penalty", "frequency_penalty"},
      {"presence_penalty", "presence_penalty"},
  };
  for (const auto& [key, name] : kKeys) reader.sampling(object, key, name, out);
}

/// Reads MNN's configuration. Values from files that were read earlier take precedence.
void read_mnn(FolderReader& reader, const Json& object, const char* file, ChatDescription& out) {
  if (out.has_template()) return;
  if (const auto it = object.find("jinja"); it != object.end() && it->is_object()) {
    out.jinja = reader.text(*it, "chat_template");
    if (out.bos.empty()) out.bos = reader.text(*it, "bos");
    if (out.eos.empty()) out.eos = reader.text(*it, "eos");
  }
  if (out.jinja.empty()) out.jinja = named_template(reader, object);
  if (out.jinja.empty()) {
    out.user = reader.pattern(object, "user_prompt_template");
    if (!out.user.empty()) {
      out.system = reader.pattern(object, "system_prompt_template");
      out.assistant = reader.pattern(object, "assistant_prompt_template");
    } else {
      out.user = reader.pattern(object, "prompt_template");
    }
  }
  if (!out.has_template()) return;
  out.add_prefix = true;  // the tokenizer adds the prefix, because MNN's templates do not
  out.source = file;
}

/// Appends the ids with which the text of an encoder-decoder starts: the start token, then the
/// forced tokens of the first positions.
void read_start_ids(FolderReader& reader, const Json& generation, const Json& config,
                    std::vector<std::int32_t>& out) {
  reader.ids(generation, "decoder_start_token_id", out);
  if (out.empty()) reader.ids(config, "decoder_start_token_id", out);
  if (out.size() != 1) return;
  const Json& forced = generation.contains("forced_bos_token_id") ? generation : config;
  reader.ids(forced, "forced_bos_token_id", out);
  const auto it = generation.find("forced_decoder_ids");
  if (it == generation.end() || !it->is_array() || out.size() > 1) return;
  for (const Json& pair : *it) {  // [position, id]; without an id the position is free
    const bool next = pair.is_array() && pair.size() == 2 && pair[0] == out.size();
    if (!next || pair[1].is_null()) return;
    reader.ids(Json{{"forced_decoder_ids", pair[1]}}, "forced_decoder_ids", out);
  }
}

/// Returns the object in a file that describes the model. In genai_config.json, it is the member
/// "model".
Json model_object(FolderReader& reader, const char* name) {
  Json object = reader.object(name);
  if (name != std::string_view("genai_config.json")) return object;
  Json below = object.value("model", Json::object());
  return below.is_object() ? below : Json::object();
}

}  // namespace

Result<ChatDescription> read_chat_files(const fs::path& model) {
  FolderReader reader(model_folders(model));
  ChatDescription out;
  if (auto text = reader.content("chat_template.jinja", kMaxTemplateBytes)) {
    out.jinja = *std::move(text);
    out.source = "chat_template.jinja";
  }
  for (const char* file : {"tokenizer_config.json", "chat_template.json"}) {
    const Json json = reader.object(file);
    if (!out.has_template()) {
      out.jinja = named_template(reader, json);
      if (!out.jinja.empty()) out.source = file;
    }
    if (out.bos.empty()) out.bos = reader.token(json, "bos_token");
    if (out.eos.empty()) out.eos = reader.token(json, "eos_token");
  }
  hosted::SamplingValues exporters;
  Json config;
  for (const char* file : {"llm_config.json", "config.json"}) {
    const Json json = reader.object(file);
    read_mnn(reader, json, file, out);
    // Hugging Face's config.json describes the network; MNN's config.json contains runtime
    // settings.
    const bool mnn = file == std::string_view("llm_config.json") || json.contains("llm_model") ||
                     json.contains("sampler_type");
    if (mnn && exporters.empty()) read_mnn_sampling(reader, json, exporters);
    reader.ids(json, "eos_token_id", out.stop_ids);
    config = json;
  }
  const Json generation = reader.object("generation_config.json");
  reader.ids(generation, "eos_token_id", out.stop_ids);
  read_start_ids(reader, generation, config, out.start_ids);
  reader.ids(generation, "suppress_tokens", out.suppressed_ids);
  reader.ids(generation, "begin_suppress_tokens", out.suppressed_first_ids);
  read_hugging_face_sampling(reader, generation, out.sampling);
  if (out.sampling.empty()) out.sampling = std::move(exporters);
  reader.ids(model_object(reader, "genai_config.json"), "eos_token_id", out.stop_ids);
  if (reader.error()) return *reader.error();
  return out;
}

Result<std::int32_t> read_bos_id(const fs::path& model, std::int64_t vocabulary) {
  FolderReader reader(model_folders(model));
  std::vector<std::int32_t> ids;
  for (const char* const name : {"config.json", "generation_config.json", "genai_config.json"})
    reader.ids(model_object(reader, name), "bos_token_id", ids);
  if (reader.error()) return *reader.error();
  const auto found = std::ranges::find_if(ids, [&](std::int32_t id) { return id < vocabulary; });
  return found == ids.end() ? -1 : *found;
}

Result<std::vector<Diagnostic>> stop_ids_outside(const fs::path& model, std::int64_t vocabulary) {
  FolderReader reader(model_folders(model));
  std::vector<Diagnostic> warnings;
  for (const char* const name :
       {"llm_config.json", "config.json", "generation_config.json", "genai_config.json"}) {
    std::vector<std::int32_t> ids;
    reader.ids(model_object(reader, name), "eos_token_id", ids);
    const auto outside = std::ranges::find_if(
        ids, [&](std::int32_t id) { return id >= vocabulary && vocabulary > 0; });
    if (outside == ids.end()) continue;
    warnings.push_back({.file = reader.file().string(),
                        .message = fmt::format("'eos_token_id' {} is not below the vocabulary of "
                                               "{}, so no text ends with it",
                                               *outside, vocabulary),
                        .hint = "correct it: the file may belong to another model"});
  }
  if (reader.error()) return *reader.error();
  return warnings;
}

Result<ChatDescription> chat_of(const fs::path& path) {
  if (!looks_like_bundle(path)) return read_chat_files(path);
  LLMC_TRY(const BundleFacts facts, read_bundle(path));
  const fs::path file = path / (facts.name + kChatSuffix);
  std::error_code unknown;
  if (!fs::exists(file, unknown)) return ChatDescription{};
  auto loaded = hosted::load_chat_description(file.string());
  if (loaded.ok()) return *std::move(loaded);
  return failure(ErrorKind::kBadInput, "damaged bundle: " + printable(loaded.failure().message),
                 "compile the model again");
}

}  // namespace llmc::driver
