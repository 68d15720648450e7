#include "runtime/hosted/chat/description.h"

#include <nlohmann/json.hpp>

#include "runtime/hosted/mapped_weights.h"

namespace llmc::hosted {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr std::size_t kMaxDescriptionBytes = std::size_t{4} << 20, kMaxIds = 10000;

struct Field {
  const char* name;
  std::string ChatDescription::* text;
};
constexpr Field kTexts[] = {
    {"source", &ChatDescription::source},
    {"chat_template", &ChatDescription::jinja},
    {"system_prompt", &ChatDescription::system},
    {"user_prompt", &ChatDescription::user},
    {"assistant_prompt", &ChatDescription::assistant},
    {"bos_token", &ChatDescription::bos},
    {"eos_token", &ChatDescription::eos},
    {"system_message", &ChatDescription::system_message},
};

struct IdList {
  const char* name;
  std::vector<std::int32_t> ChatDescription::* ids;
};
constexpr IdList kIdLists[] = {{"stop_ids", &ChatDescription::stop_ids},
                               {"start_ids", &ChatDescription::start_ids},
                               {"suppressed_ids", &ChatDescription::suppressed_ids},
                               {"suppressed_first_ids", &ChatDescription::suppressed_first_ids}};

/// Returns whether the text contains exactly one %s, or is empty.
bool is_pattern(const std::string& text) {
  const std::size_t at = text.find("%s");
  return text.empty() || (at != text.npos && text.find("%s", at + 2) == text.npos);
}

}  // namespace

std::string to_json(const ChatDescription& description) {
  OrderedJson json{{"llmc_chat", kVersion}};
  for (const Field& field : kTexts)
    if (!(description.*field.text).empty()) json[field.name] = description.*field.text;
  json["add_prefix"] = description.add_prefix;
  for (const IdList& list : kIdLists) {
    const std::vector<std::int32_t>& ids = description.*list.ids;
    if (!ids.empty() || list.ids == &ChatDescription::stop_ids) json[list.name] = ids;
  }
  for (const SamplingValue& value : description.sampling) {
    OrderedJson& entry = json["sampling"][value.parameter->name];
    entry = value.value;
    if (value.parameter->whole != nullptr) entry = static_cast<std::int32_t>(value.value);
  }
  return json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

Outcome<ChatDescription> parse_chat_description(std::string_view text, const std::string& name) {
  const auto bad = [&](const std::string& what) {
    return Failure{LLMC_ERROR_FORMAT, name + ": " + what};
  };
  if (text.size() > kMaxDescriptionBytes) return bad("too large for a description of a chat");
  const OrderedJson json = OrderedJson::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("llmc_chat"))
    return bad("is not a chat description written by llmc");
  if (json["llmc_chat"] != kVersion) {
    return Failure{LLMC_ERROR_VERSION,
                   name + ": written by another version of llmc; compile the model again"};
  }
  ChatDescription result;
  for (const Field& field : kTexts) {
    const auto it = json.find(field.name);
    if (it == json.end()) continue;
    if (!it->is_string()) return bad(std::string(field.name) + " is not a string");
    result.*field.text = it->get<std::string>();
  }
  for (const auto* pattern : {&result.system, &result.user, &result.assistant})
    if (!is_pattern(*pattern)) return bad("a prompt must have the place %s once");
  if (const auto it = json.find("add_prefix"); it != json.end() && it->is_boolean())
    result.add_prefix = it->get<bool>();
  for (const IdList& list : kIdLists) {
    const auto it = json.find(list.name);
    if (it == json.end()) continue;
    const std::string invalid = std::string(list.name) + " is not a list of ids";
    if (!it->is_array() || it->size() > kMaxIds) return bad(invalid);
    for (const OrderedJson& id : *it) {
      if (!id.is_number_integer() || id < 0 || id > INT32_MAX) return bad(invalid);
      (result.*list.ids).push_back(id.get<std::int32_t>());
    }
  }
  if (const auto it = json.find("sampling"); it != json.end()) {
    if (!it->is_object()) return bad("sampling is not an object");
    for (const auto& [key, value] : it->items()) {
      const SamplingParameter* const parameter = sampling_parameter(key);
      if (parameter == nullptr || !value.is_number() || !is_valid(*parameter, value.get<double>()))
        return bad("sampling has an unknown parameter or a value out of range");
      result.sampling.push_back({parameter, value.get<double>()});
    }
  }
  return result;
}

Outcome<ChatDescription> load_chat_description(const std::string& path) {
  const auto file = MappedWeights::open(path);
  if (!file) return file.failure();
  const auto bytes = file->bytes();
  if (bytes.size() > kMaxDescriptionBytes)
    return Failure{LLMC_ERROR_FORMAT, path + ": too large for a description of a chat"};
  const std::string content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return parse_chat_description(content, path);
}

}  // namespace llmc::hosted
