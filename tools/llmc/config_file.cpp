#include "tools/llmc/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "compiler/support/file.h"
#include "compiler/support/nearest.h"
#include "compiler/support/text_position.h"
#include "tools/llmc/numbers.h"
#include "tools/llmc/options.h"

namespace llmc::cli {
namespace {

using ConfigJson = nlohmann::ordered_json;
constexpr std::uint64_t kMaxConfigFileBytes = std::uint64_t{16} << 20;
// Options that are not settings of a conversation.
constexpr std::string_view kNotInConfigFiles[] = {"help", "config"};

/// Returns whether `value` has the JSON type that an option takes. Options whose values are words
/// or numbers ("2k", "3") take strings and numbers.
bool is_of_option(const ConfigJson& value, const CLI::Option& option, const std::string& name) {
  const std::string type = option.get_type_name();
  if (type == "N" || type == "X") return value.is_number();
  if (type == kTokensType || type == "LEVEL" || type == "STAGES")
    return value.is_number() || value.is_string();
  if (name == "json-schema") return value.is_string() || value.is_object() || value.is_boolean();
  return value.is_string();
}

/// Returns the value in the form of a command-line argument.
std::string argument_of(const ConfigJson& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, ConfigJson::error_handler_t::replace);
}

std::string unknown_key_hint(const CLI::App& command, const std::string& key) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : command.get_options()) {
    for (std::string name : option->get_lnames()) {
      if (std::ranges::count(kNotInConfigFiles, name) > 0) continue;
      if (key.find('_') != key.npos) std::ranges::replace(name, '-', '_');
      names.push_back(std::move(name));
    }
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view meant = key.size() > 3 ? nearest(key, views) : std::string_view();
  if (!meant.empty()) return fmt::format("did you mean '{}'?", meant);
  return fmt::format("keys are the long options listed by llmc {} --help, such as \"top_k\"",
                     command.get_name());
}

/// Returns whether the option is a flag, which takes true or false.
bool is_flag(const CLI::Option& option) {
  return option.get_expected_min() == 0;
}

/// Sets the values of `option`. Throws CLI::Error for an invalid value. Flags are off by default,
/// so false has no effect.
void give_values(CLI::Option& option, const std::string& name,
                 const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    const std::string result = is_flag(option) ? option.get_flag_value(name, value) : value;
    if (!is_flag(option) || result != "false") option.add_result(result);
  }
  if (option.count() > 0) option.run_callback();
}

}  // namespace

Status apply_config_file(CLI::App& command, const std::string& path) {
  const auto bad = [&](std::string message, std::string hint) {
    return file_failure(ErrorKind::kBadInput, path, std::move(message), std::move(hint));
  };
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    return bad("is a folder", "--config needs a JSON file with options of this command");
  LLMC_TRY(const std::string text, read_file(path, kMaxConfigFileBytes));
  ConfigJson json;
  try {
    json = ConfigJson::parse(text);
  } catch (const ConfigJson::parse_error& wrong) {
    return bad("is not valid JSON: " + line_and_column(text, wrong.byte),
               "for example {\"system\": \"Be brief.\", \"temp\": 0.5}");
  }
  if (!json.is_object())
    return bad("is not a JSON object", "for example {\"system\": \"Be brief.\", \"temp\": 0.5}");
  std::vector<CLI::Option*> changed;
  for (const auto& [key, value] : json.items()) {
    std::string name = key;
    std::ranges::replace(name, '_', '-');
    CLI::Option* const option = command.get_option_no_throw("--" + name);
    if (name.empty() || option == nullptr || std::ranges::count(kNotInConfigFiles, name) > 0)
      return bad(fmt::format("unknown option '{}'", printable(key, 80)),
                 unknown_key_hint(command, key));
    const std::string where = fmt::format("'{}'", printable(key, 80));
    if (std::ranges::count(changed, option) > 0)
      return bad(where + " is given twice", "remove one of them");
    std::vector<std::string> values;
    const bool list = option->get_items_expected_max() > 1;
    if (list && !value.is_array()) {
      return bad(
          where + " is not a list",
          fmt::format("--{} may be repeated: write {{\"{}\": [ … ]}}", name, printable(key, 80)));
    }
    for (const ConfigJson& item : list ? value : ConfigJson::array({value})) {
      const bool fits = is_flag(*option) ? item.is_boolean() : is_of_option(item, *option, name);
      if (!fits) {
        return bad(where + (is_flag(*option) ? " is neither true nor false"
                                             : " is not a value for this option"),
                   fmt::format("llmc {} --help says what --{} takes", command.get_name(), name));
      }
      values.push_back(argument_of(item));
    }
    if (option->count() > 0) continue;  // the command line overrides the file
    if (values.empty()) continue;
    try {
      give_values(*option, name, values);
    } catch (const CLI::Error& error) {
      return bad(where + ": " + printable(error.what(), 1000),
                 fmt::format("llmc {} --help says what --{} takes", command.get_name(), name));
    }
    changed.push_back(option);
  }
  for (const CLI::Option* const option : changed) {
    for (const CLI::Option* const other : option->get_excludes()) {
      if (option->count() == 0 || other->count() == 0) continue;
      return bad(
          fmt::format("{} cannot be combined with {}", option->get_name(), other->get_name()),
          "remove one of them");
    }
  }
  return ok_status();
}

}  // namespace llmc::cli
