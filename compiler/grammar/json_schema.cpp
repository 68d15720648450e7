#include "compiler/grammar/json_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "compiler/grammar/json_schema_builder.h"
#include "compiler/grammar/json_text.h"

namespace llmc::grammar {
namespace {

/// The keywords that are about values of one type.
struct TypeKeywords {
  std::string_view type;
  std::vector<std::string_view> keywords;
  bool covers(std::string_view name) const {
    return type == name || (type == "number" && name == "integer");
  }
};
const TypeKeywords kTypeKeywords[] = {
    {"object", {"properties", "required", "additionalProperties"}},
    {"array", {"items", "prefixItems", "minItems", "maxItems"}},
    {"string", {"minLength", "maxLength", "pattern", "format"}},
    {"number", {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}}};

}  // namespace

/// Keywords that restrict nothing, or only say where definitions are.
bool SchemaBuilder::is_annotation(std::string_view keyword) {
  static const std::set<std::string_view> kAnnotations = {
      "$schema", "$id",      "$comment", "$defs",       "definitions", "title",
      "default", "examples", "readOnly", "description", "deprecated",  "writeOnly"};
  return kAnnotations.contains(keyword);
}

Result<Grammar> SchemaBuilder::build() {
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

Diagnostic SchemaBuilder::wrong(ErrorKind kind, const std::string& path, const std::string& message,
                                std::string hint) {
  return failure(kind, fmt::format("#{}: {}", printable(path), message), std::move(hint));
}

Diagnostic SchemaBuilder::bad(const std::string& path, const std::string& message) {
  return wrong(ErrorKind::kBadInput, path, message,
               "docs/grammar.md lists the keywords and what they take");
}

Diagnostic SchemaBuilder::unsupported(const std::string& path, const std::string& what) {
  return wrong(ErrorKind::kUnsupported, path, what + " is not supported",
               "docs/grammar.md lists what is; leave it out, or write a grammar");
}

std::uint32_t SchemaBuilder::add_rule(std::string name, Expr body) {
  grammar_.rules.push_back({std::move(name), std::move(body)});
  return static_cast<std::uint32_t>(grammar_.rules.size() - 1);
}

Status SchemaBuilder::only(const Json& node, const std::string& path,
                           const std::set<std::string_view>& known, std::string_view beside) {
  for (const auto& [key, value] : node.items()) {
    if (known.contains(key) || is_annotation(key)) continue;
    const std::string word = "'" + printable(key) + "'";
    return unsupported(path, beside.empty() ? word : fmt::format("{} beside '{}'", word, beside));
  }
  return ok_status();
}

Result<Expr> SchemaBuilder::schema(const Json& node, const std::string& path, std::uint32_t depth) {
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
    for (const TypeKeywords& of : kTypeKeywords)
      if (of.covers(type)) known.insert(of.keywords.begin(), of.keywords.end());
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

Result<Expr> SchemaBuilder::typed(const std::string& type, const Json& node,
                                  const std::string& path, std::uint32_t depth) {
  if (type == "object") return object(node, path, depth);
  if (type == "array") return array(node, path, depth);
  if (type == "string") return string(node, path);
  if (type == "integer" || type == "number") return number(node, path, type == "integer");
  if (type == "null") return text("null");
  return json_boolean();
}

Result<std::vector<std::string>> SchemaBuilder::types_of(const Json& node,
                                                         const std::string& path) {
  static const std::set<std::string_view> kTypes = {"object",  "array",   "string", "number",
                                                    "integer", "boolean", "null"};
  std::vector<std::string> types;
  if (!node.contains("type")) {
    for (const TypeKeywords& of : kTypeKeywords)
      if (std::ranges::any_of(of.keywords, [&](const auto& key) { return node.contains(key); }))
        types.emplace_back(of.type);
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

Result<Expr> SchemaBuilder::referenced(const Json& node, const std::string& path) {
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

Result<std::string> SchemaBuilder::pointer_of(const Json& reference, const std::string& path) {
  if (!reference.is_string()) return bad(path, "'$ref' must be a string");
  const std::string& text = reference.get_ref<const std::string&>();
  const bool local = text == "#" || (text.starts_with("#/") && text.find('%') == text.npos);
  if (!local) return unsupported(path, fmt::format("'$ref' to '{}'", printable(text)));
  return text.substr(1);
}

Result<Expr> SchemaBuilder::combined(const Json& node, const char* key, const std::string& path,
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
            path, fmt::format("'oneOf' whose schemas {} and {} may allow the same document (anyOf "
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

Result<std::uint32_t> SchemaBuilder::value_rule(const Json& node, const std::string& path,
                                                std::uint32_t depth) {
  std::string words;
  if (node.is_object()) {
    for (const auto& [key, value] : node.items()) {
      if (is_annotation(key)) continue;
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

Result<std::uint32_t> SchemaBuilder::rule_of(const Json& node, const std::string& path,
                                             std::uint32_t depth) {
  LLMC_TRY(Expr body, schema(node, path, depth));
  return body.kind == ExprKind::kRule ? body.rule : add_rule("#" + path, std::move(body));
}

Expr SchemaBuilder::any_value() {
  if (any_value_) return reference(*any_value_);
  const std::uint32_t value = add_rule("value", {});
  any_value_ = value;
  std::vector<Expr> parts;
  parts.push_back(map_of(reference(value), "/value"));
  parts.push_back(json_between("[", optional(json_list(reference(value), 1, kUnbounded)), "]"));
  parts.push_back(json_string(0, kUnbounded));
  parts.push_back(json_number());
  parts.push_back(json_boolean());
  parts.push_back(text("null"));
  grammar_.rules[value].body = choice(std::move(parts));
  return reference(value);
}

Result<Grammar> parse_json_schema(std::string_view text) {
  LLMC_TRY(const Json root, parse_schema_document(text));
  return SchemaBuilder(root).build();
}

}  // namespace llmc::grammar
