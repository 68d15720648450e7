#include "compiler/grammar/json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "compiler/grammar/json_disjoint.h"
#include "compiler/grammar/json_text.h"

namespace llmc::grammar {
namespace {

constexpr std::uint32_t kMaxCount = 100000;

/// Keywords that restrict nothing, or only say where definitions are.
const std::set<std::string_view> kAnnotations = {
    "$schema", "$id",      "$comment", "$defs",       "definitions", "title",
    "default", "examples", "readOnly", "description", "deprecated",  "writeOnly"};

class SchemaBuilder {
 public:
  explicit SchemaBuilder(const Json& root) : root_(root), disjointness_(root) {}

  Result<Grammar> build() {
    grammar_.rules.push_back({"root", {}});
    rules_of_pointers_.emplace("", 0);
    pending_.emplace_back(0, "");
    // One after the other: references may lead from one to the next without end.
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      const auto [rule, pointer] = pending_[i];
      LLMC_TRY(Expr body, schema(*pointed_to(root_, pointer), pointer, 0));
      grammar_.rules[rule].body = std::move(body);
    }
    return std::move(grammar_);
  }

 private:
  static Diagnostic wrong(ErrorKind kind, const std::string& path, const std::string& message,
                          std::string hint = {}) {
    return Diagnostic{.kind = kind,
                      .message = fmt::format("#{}: {}", printable(path), message),
                      .hint = std::move(hint)};
  }
  static Diagnostic bad(const std::string& path, const std::string& message) {
    return wrong(ErrorKind::kBadInput, path, message,
                 "docs/grammar.md lists the keywords and what they take");
  }
  static Diagnostic unsupported(const std::string& path, const std::string& what) {
    return wrong(ErrorKind::kUnsupported, path, what + " is not supported",
                 "docs/grammar.md lists what is; leave it out, or write a grammar");
  }
  std::uint32_t add_rule(std::string name, Expr body) {
    grammar_.rules.push_back({std::move(name), std::move(body)});
    return static_cast<std::uint32_t>(grammar_.rules.size() - 1);
  }

  /// kUnsupported for a keyword that is neither known here nor without meaning.
  static Status only(const Json& node, const std::string& path,
                     const std::set<std::string_view>& known, std::string_view beside = {}) {
    for (const auto& [key, value] : node.items()) {
      if (known.contains(key) || kAnnotations.contains(key)) continue;
      const std::string word = "'" + printable(key) + "'";
      return unsupported(path, beside.empty() ? word : fmt::format("{} beside '{}'", word, beside));
    }
    return ok_status();
  }

  Result<Expr> schema(const Json& node, const std::string& path, std::uint32_t depth) {
    if (depth > kMaxNesting) {
      return unsupported(path,
                         fmt::format("a schema with more than {} others around it", kMaxNesting));
    }
    if (node.is_boolean()) {
      if (node.get<bool>()) return any_value();
      return unsupported(path, "'false', which allows no document at all,");
    }
    if (!node.is_object()) return bad(path, "a schema must be an object or true");
    if (node.contains("$ref")) return referenced(node, path);
    for (const char* const key : {"anyOf", "oneOf", "allOf"})
      if (node.contains(key)) return combined(node, key, path, depth);
    if (node.contains("enum") || node.contains("const")) return constants(node, path);
    LLMC_TRY(const std::vector<std::string> types, types_of(node, path));
    std::set<std::string_view> known{"type"};
    for (const std::string& type : types) {
      if (type == "string") known.insert({"minLength", "maxLength", "pattern"});
      if (type == "array") known.insert({"items", "minItems", "maxItems"});
      if (type == "object") known.insert({"properties", "required", "additionalProperties"});
    }
    LLMC_RETURN_IF_ERROR(only(node, path, known));
    if (types.empty()) return any_value();
    std::vector<Expr> parts;
    for (const std::string& type : types) {
      LLMC_TRY(Expr part, typed(type, node, path, depth));
      parts.push_back(std::move(part));
    }
    return choice(std::move(parts));
  }

  Result<Expr> typed(const std::string& type, const Json& node, const std::string& path,
                     std::uint32_t depth) {
    if (type == "object") return object(node, path, depth);
    if (type == "array") return array(node, path, depth);
    if (type == "string") return string(node, path);
    if (type == "integer") return json_integer();
    if (type == "number") return json_number();
    if (type == "null") return text("null");
    return boolean();
  }
  static Expr boolean() {
    std::vector<Expr> parts;
    parts.push_back(text("true"));
    parts.push_back(text("false"));
    return choice(std::move(parts));
  }

  /// What `type` says or, without it, what the keywords are about; none: any document.
  Result<std::vector<std::string>> types_of(const Json& node, const std::string& path) {
    static const std::set<std::string_view> kTypes = {"object",  "array",   "string", "number",
                                                      "integer", "boolean", "null"};
    std::vector<std::string> types;
    if (!node.contains("type")) {
      const auto has = [&](std::initializer_list<const char*> keys) {
        return std::ranges::any_of(keys, [&](const char* key) { return node.contains(key); });
      };
      if (has({"properties", "required", "additionalProperties"})) types.push_back("object");
      if (has({"items", "minItems", "maxItems"})) types.push_back("array");
      if (has({"minLength", "maxLength", "pattern"})) types.push_back("string");
      return types;
    }
    const Json& type = node["type"];
    const auto known = [&](const Json& name) {
      return name.is_string() && kTypes.contains(name.get_ref<const std::string&>());
    };
    if (type.is_array() && !type.empty() && std::ranges::all_of(type, known)) {
      types = type.get<std::vector<std::string>>();
    } else if (known(type)) {
      types.push_back(type.get<std::string>());
    } else {
      return bad(path, "'type' must be a JSON type's name or a list of them");
    }
    // A whole number is a number, too.
    if (std::ranges::find(types, "number") != types.end()) std::erase(types, "integer");
    return types;
  }

  Result<Expr> referenced(const Json& node, const std::string& path) {
    LLMC_RETURN_IF_ERROR(only(node, path, {"$ref"}, "$ref"));
    LLMC_TRY(const std::string pointer, pointer_of(node["$ref"], path));
    const auto known = rules_of_pointers_.find(pointer);
    if (known != rules_of_pointers_.end()) return reference(known->second);
    if (pointed_to(root_, pointer) == nullptr)
      return bad(path, fmt::format("'$ref': there is nothing at '#{}'", printable(pointer)));
    const std::uint32_t rule = add_rule("#" + pointer, {});
    rules_of_pointers_.emplace(pointer, rule);
    pending_.emplace_back(rule, pointer);
    return reference(rule);
  }
  static Result<std::string> pointer_of(const Json& reference, const std::string& path) {
    if (!reference.is_string()) return bad(path, "'$ref' must be a string");
    const std::string& text = reference.get_ref<const std::string&>();
    const bool local = text == "#" || (text.starts_with("#/") && text.find('%') == text.npos);
    if (!local) return unsupported(path, fmt::format("'$ref' to '{}'", printable(text)));
    return text.substr(1);
  }

  Result<Expr> combined(const Json& node, const char* key, const std::string& path,
                        std::uint32_t depth) {
    LLMC_RETURN_IF_ERROR(only(node, path, {key}, key));
    const Json& list = node[key];
    if (!list.is_array() || list.empty())
      return bad(path, fmt::format("'{}' must be a list of schemas", key));
    if (std::string_view(key) == "allOf" && list.size() > 1)
      return unsupported(path, "'allOf' of several schemas");
    if (std::string_view(key) == "oneOf") {
      for (std::size_t i = 0; i < list.size(); ++i) {
        for (std::size_t k = 0; k < i; ++k) {
          if (disjointness_.are_disjoint(list[i], list[k])) continue;
          if (disjointness_.gave_up()) {
            return unsupported(path, fmt::format("'oneOf' of {} schemas, too many to see whether "
                                                 "they exclude each other (anyOf is),",
                                                 list.size()));
          }
          return unsupported(
              path,
              fmt::format("'oneOf' whose schemas {} and {} may allow the same document (anyOf "
                          "is)",
                          k, i));
        }
      }
    }
    std::vector<Expr> parts;
    for (std::size_t i = 0; i < list.size(); ++i) {
      LLMC_TRY(Expr part, schema(list[i], fmt::format("{}/{}/{}", path, key, i), depth + 1));
      parts.push_back(std::move(part));
    }
    return choice(std::move(parts));
  }

  Result<Expr> constants(const Json& node, const std::string& path) {
    LLMC_RETURN_IF_ERROR(only(node, path, {"enum", "const", "type"}, "enum"));
    if (node.contains("enum") && node.contains("const"))
      return unsupported(path, "'const' beside 'enum'");
    LLMC_TRY(const std::vector<std::string> types, types_of(node, path));
    std::vector<Expr> parts;
    const auto add = [&](const Json& value) {
      if (types.empty() || std::ranges::any_of(types, [&](const std::string& type) {
            return is_of_type(value, type);
          }))
        parts.push_back(text(value.dump()));
    };
    if (node.contains("const")) {
      add(node["const"]);
    } else {
      if (!node["enum"].is_array()) return bad(path, "'enum' must be a list");
      for (const Json& value : node["enum"]) add(value);
    }
    if (parts.empty()) return bad(path, "no value fits both 'enum' or 'const' and 'type'");
    return choice(std::move(parts));
  }

  /// A count given by a keyword, or `usual`.
  static Result<std::uint32_t> count_of(const Json& node, const char* key, std::uint32_t usual,
                                        const std::string& path) {
    if (!node.contains(key)) return usual;
    if (!node[key].is_number_unsigned())
      return bad(path, fmt::format("'{}' must be a whole number from 0 on", key));
    const auto value = node[key].get<std::uint64_t>();
    if (value > kMaxCount) return unsupported(path, fmt::format("'{}' above {}", key, kMaxCount));
    return static_cast<std::uint32_t>(value);
  }

  Result<Expr> string(const Json& node, const std::string& path) {
    LLMC_TRY(const std::uint32_t least, count_of(node, "minLength", 0, path));
    LLMC_TRY(const std::uint32_t most, count_of(node, "maxLength", kUnbounded, path));
    if (least > most) return bad(path, "'minLength' is larger than 'maxLength'");
    if (!node.contains("pattern")) return json_string(least, most);
    if (least != 0 || most != kUnbounded)
      return unsupported(path, "'pattern' beside 'minLength' or 'maxLength'");
    if (!node["pattern"].is_string()) return bad(path, "'pattern' must be a string");
    auto pattern = json_pattern(node["pattern"].get_ref<const std::string&>());
    if (pattern.ok()) return pattern;
    const Diagnostic& first = pattern.error().first();
    return wrong(first.kind, path, first.message, first.hint);
  }

  Result<Expr> array(const Json& node, const std::string& path, std::uint32_t depth) {
    LLMC_TRY(const std::uint32_t least, count_of(node, "minItems", 0, path));
    LLMC_TRY(const std::uint32_t most, count_of(node, "maxItems", kUnbounded, path));
    if (least > most) return bad(path, "'minItems' is larger than 'maxItems'");
    if (most == 0) return text("[]");
    Expr item;
    if (node.contains("items")) {
      LLMC_TRY(item, schema(node["items"], path + "/items", depth + 1));
    } else {
      item = any_value();
    }
    const std::uint32_t rule = add_rule("#" + path + "/items", std::move(item));
    Expr list = bracketed_list(reference(rule), std::max(least, 1u), most);
    return in_brackets("[", least == 0 ? optional(std::move(list)) : std::move(list), "]");
  }
  /// item, item, …
  static Expr bracketed_list(Expr item, std::uint32_t least, std::uint32_t most) {
    std::vector<Expr> next;
    next.push_back(text(","));
    next.push_back(json_gap());
    next.push_back(item);
    std::vector<Expr> parts;
    parts.push_back(std::move(item));
    parts.push_back(
        repeat(sequence(std::move(next)), least - 1, most == kUnbounded ? most : most - 1));
    return sequence(std::move(parts));
  }
  static Expr in_brackets(const char* open, Expr inner, const char* close) {
    std::vector<Expr> parts;
    parts.push_back(text(open));
    parts.push_back(std::move(inner));
    parts.push_back(text(close));
    return sequence(std::move(parts));
  }
  static Expr pair(Expr key, Expr value) {
    std::vector<Expr> parts;
    parts.push_back(std::move(key));
    parts.push_back(text(":"));
    parts.push_back(json_gap());
    parts.push_back(std::move(value));
    return sequence(std::move(parts));
  }

  struct Property {
    std::string key;
    std::uint32_t rule = 0;  // the value's
    bool required = false;
  };

  /// A rule for what a schema allows, the same for all schemas of simple values that say the same.
  Result<std::uint32_t> value_rule(const Json& node, const std::string& path, std::uint32_t depth) {
    std::string words;
    if (node.is_object()) {
      for (const auto& [key, value] : node.items()) {
        if (kAnnotations.contains(key)) continue;
        if (value.is_structured() || key == "$ref") return rule_of(node, path, depth);
        words += Json(key).dump() + ":" + value.dump() + ",";
      }
      if (const auto known = simple_rules_.find(words); known != simple_rules_.end())
        return known->second;
    }
    LLMC_TRY(const std::uint32_t rule, rule_of(node, path, depth));
    if (node.is_object()) simple_rules_.emplace(std::move(words), rule);
    return rule;
  }
  /// The rule of a reference, or a new one.
  Result<std::uint32_t> rule_of(const Json& node, const std::string& path, std::uint32_t depth) {
    LLMC_TRY(Expr body, schema(node, path, depth));
    return body.kind == ExprKind::kRule ? body.rule : add_rule("#" + path, std::move(body));
  }

  Result<Expr> object(const Json& node, const std::string& path, std::uint32_t depth) {
    const Json nothing = Json::object();
    const Json& listed = node.contains("properties") ? node["properties"] : nothing;
    if (!listed.is_object()) return bad(path, "'properties' must be an object");
    LLMC_TRY(const std::vector<std::string> required, required_of(node, path));
    const bool closed =
        node.contains("additionalProperties") && node["additionalProperties"] == Json(false);
    const bool open_schema =
        node.contains("additionalProperties") && !node["additionalProperties"].is_boolean();
    if (open_schema && (!listed.empty() || !required.empty()))
      return unsupported(path, "a schema in 'additionalProperties' beside 'properties'");
    if (listed.empty() && required.empty()) {
      if (closed) return text("{}");
      Expr value = any_value();
      if (open_schema) {
        LLMC_TRY(value,
                 schema(node["additionalProperties"], path + "/additionalProperties", depth + 1));
      }
      return map_of(std::move(value), path);
    }
    std::vector<Property> properties;
    const std::set<std::string_view> needed(required.begin(), required.end());
    std::set<std::string> names;
    for (const auto& [key, value] : listed.items()) {
      names.insert(key);
      const bool is_required = needed.contains(key);
      if (value == Json(false) && !is_required) continue;  // it must not be there
      LLMC_TRY(const std::uint32_t inner,
               value_rule(value, path + "/properties/" + key, depth + 1));
      properties.push_back({key, inner, is_required});
    }
    for (const std::string& key : required) {
      if (names.contains(key)) continue;
      if (closed) {
        return bad(path, fmt::format("'{}' is required and, by 'additionalProperties', forbidden",
                                     printable(key)));
      }
      properties.push_back({key, any_value().rule, true});
    }
    // Nothing but properties that must not be there: the empty object.
    if (properties.empty()) return text("{}");
    return in_brackets("{", members(properties, path), "}");
  }

  Result<std::vector<std::string>> required_of(const Json& node, const std::string& path) {
    std::vector<std::string> keys;
    std::set<std::string> known;
    if (!node.contains("required")) return keys;
    const auto is_string = [](const Json& key) { return key.is_string(); };
    if (!node["required"].is_array() || !std::ranges::all_of(node["required"], is_string))
      return bad(path, "'required' must be a list of names");
    for (const Json& key : node["required"]) {
      std::string name = key.get<std::string>();
      if (known.insert(name).second) keys.push_back(std::move(name));
    }
    return keys;
  }

  Expr map_of(Expr value, const std::string& path) {
    const std::uint32_t rule =
        add_rule("#" + path + "/member", pair(json_string(0, kUnbounded), std::move(value)));
    return in_brackets("{", optional(bracketed_list(reference(rule), 1, kUnbounded)), "}");
  }

  /// The properties in their order, those that are not required left out at will. Keys stand in the
  /// rules themselves, so that reading one needs no more than one way, however many may come.
  Expr members(const std::vector<Property>& properties, const std::string& path) {
    // behind: what may follow property i; then its rule: property i or a later one comes now.
    Expr behind = text("");
    std::uint32_t rule = 0;
    bool may_end = true;  // all later ones may be left out
    for (std::size_t i = properties.size(); i-- > 0;) {
      const Property& property = properties[i];
      std::vector<Expr> member;
      member.push_back(pair(text(Json(property.key).dump()), reference(property.rule)));
      member.push_back(std::move(behind));
      std::vector<Expr> ways;
      ways.push_back(sequence(std::move(member)));
      if (!property.required && i + 1 < properties.size()) ways.push_back(reference(rule));
      rule = add_rule(fmt::format("#{}/properties from '{}' on", path, property.key),
                      choice(std::move(ways)));
      may_end = may_end && !property.required;
      std::vector<Expr> next;
      next.push_back(text(","));
      next.push_back(json_gap());
      next.push_back(reference(rule));
      behind = may_end ? optional(sequence(std::move(next))) : sequence(std::move(next));
    }
    return may_end ? optional(reference(rule)) : reference(rule);
  }

  /// Any document: a rule of its own, made when it is first needed.
  Expr any_value() {
    if (any_value_) return reference(*any_value_);
    const std::uint32_t value = add_rule("value", {});
    any_value_ = value;
    std::vector<Expr> parts;
    parts.push_back(map_of(reference(value), "/value"));
    parts.push_back(
        in_brackets("[", optional(bracketed_list(reference(value), 1, kUnbounded)), "]"));
    parts.push_back(json_string(0, kUnbounded));
    parts.push_back(json_number());
    parts.push_back(boolean());
    parts.push_back(text("null"));
    grammar_.rules[value].body = choice(std::move(parts));
    return reference(value);
  }

  const Json& root_;
  Disjointness disjointness_;
  Grammar grammar_;
  std::map<std::string, std::uint32_t> rules_of_pointers_;
  std::map<std::string, std::uint32_t> simple_rules_;  // by what their schemas say
  std::optional<std::uint32_t> any_value_;
  std::vector<std::pair<std::uint32_t, std::string>> pending_;  // rules without a body yet
};

}  // namespace

Result<Grammar> parse_json_schema(std::string_view text) {
  LLMC_TRY(const Json root, parse_schema_document(text));
  return SchemaBuilder(root).build();
}

}  // namespace llmc::grammar
