#include "runtime/hosted/grammar/json_schema.h"

#include <algorithm>
#include <initializer_list>

#include "runtime/hosted/grammar/failure.h"
#include "runtime/hosted/grammar/json_schema_builder.h"
#include "runtime/hosted/grammar/json_text.h"

namespace llmc::hosted::grammar {
namespace {

/// The keywords that apply to values of one type.
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

bool SchemaBuilder::is_annotation(std::string_view keyword) {
  static const std::set<std::string_view> kAnnotations = {
      "$schema", "$id",      "$comment", "$defs",       "definitions", "title",
      "default", "examples", "readOnly", "description", "deprecated",  "writeOnly"};
  return kAnnotations.contains(keyword);
}

Grammar SchemaBuilder::build() {
  grammar_.rules.push_back({"root", {}});
  rules_of_pointers_.emplace("", 0);
  pending_.emplace_back(0, "");
  // A loop, not a recursion, because chains of references may be long.
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    const auto [rule, pointer] = pending_[i];
    // The call may reallocate grammar_.rules.
    Expr body = schema(*resolve_pointer(root_, pointer), pointer, 0);
    grammar_.rules[rule].body = std::move(body);
  }
  return std::move(grammar_);
}

Failure SchemaBuilder::with_path(const std::string& path, Failure failure) {
  failure.message = concat("#", printable(path), ": ", failure.message);
  return failure;
}

Failure SchemaBuilder::invalid(const std::string& path, const std::string& message) {
  return with_path(path, malformed(message, "docs/grammar.md lists the keywords and their values"));
}

Failure SchemaBuilder::unsupported(const std::string& path, const std::string& what) {
  return with_path(path,
                   grammar::unsupported(
                       what + " is not supported",
                       "docs/grammar.md lists supported keywords; remove it, or write a grammar"));
}

std::uint32_t SchemaBuilder::add_rule(std::string name, Expr body) {
  grammar_.rules.push_back({std::move(name), std::move(body)});
  return static_cast<std::uint32_t>(grammar_.rules.size() - 1);
}

void SchemaBuilder::require_known(const Json& node, const std::string& path,
                                  const std::set<std::string_view>& known,
                                  std::string_view sibling) {
  for (const auto& [key, value] : node.items()) {
    if (known.contains(key) || is_annotation(key)) continue;
    const std::string word = "'" + printable(key) + "'";
    throw unsupported(path,
                      sibling.empty() ? word : concat(word, " together with '", sibling, "'"));
  }
}

Expr SchemaBuilder::schema(const Json& node, const std::string& path, std::uint32_t depth) {
  if (depth > kMaxNesting) {
    throw unsupported(path, concat("nesting of more than ", kMaxNesting, " schemas"));
  }
  if (node.is_boolean()) {
    if (node.get<bool>()) return any_value();
    throw unsupported(path, "'false', which allows no document,");
  }
  if (!node.is_object()) throw invalid(path, "a schema must be an object or true");
  if (node.contains("$ref")) return referenced(node, path);
  for (const char* const key : {"anyOf", "oneOf", "allOf"})
    if (node.contains(key)) return combined(node, key, path, depth);
  if (node.contains("enum") || node.contains("const")) return constants(node, path);
  const std::vector<std::string> types = types_of(node, path);
  std::set<std::string_view> known{"type"};
  for (const std::string& type : types) {
    for (const TypeKeywords& of : kTypeKeywords)
      if (of.covers(type)) known.insert(of.keywords.begin(), of.keywords.end());
  }
  require_known(node, path, known);
  if (types.empty()) return any_value();
  std::vector<Expr> parts;
  for (const std::string& type : types) {
    parts.push_back(typed(type, node, path, depth));
  }
  return choice(std::move(parts));
}

Expr SchemaBuilder::typed(const std::string& type, const Json& node, const std::string& path,
                          std::uint32_t depth) {
  if (type == "object") return object(node, path, depth);
  if (type == "array") return array(node, path, depth);
  if (type == "string") return string(node, path);
  if (type == "integer" || type == "number") return number(node, path, type == "integer");
  if (type == "null") return text("null");
  return json_boolean();
}

std::vector<std::string> SchemaBuilder::types_of(const Json& node, const std::string& path) {
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
    throw invalid(path, "'type' must be a JSON type's name or a list of them");
  }
  // "number" includes "integer".
  if (std::ranges::find(types, "number") != types.end()) std::erase(types, "integer");
  return types;
}

Expr SchemaBuilder::referenced(const Json& node, const std::string& path) {
  require_known(node, path, {"$ref"}, "$ref");
  const std::string pointer = pointer_of(node["$ref"], path);
  const auto known = rules_of_pointers_.find(pointer);
  if (known != rules_of_pointers_.end()) return reference(known->second);
  if (resolve_pointer(root_, pointer) == nullptr)
    throw invalid(path, concat("'$ref': there is nothing at '#", printable(pointer), "'"));
  const std::uint32_t rule = add_rule("#" + pointer, {});
  rules_of_pointers_.emplace(pointer, rule);
  pending_.emplace_back(rule, pointer);
  return reference(rule);
}

std::string SchemaBuilder::pointer_of(const Json& reference, const std::string& path) {
  if (!reference.is_string()) throw invalid(path, "'$ref' must be a string");
  const std::string& text = reference.get_ref<const std::string&>();
  const bool local = text == "#" || (text.starts_with("#/") && text.find('%') == text.npos);
  if (!local) throw unsupported(path, concat("'$ref' to '", printable(text), "'"));
  return text.substr(1);
}

Expr SchemaBuilder::combined(const Json& node, const char* key, const std::string& path,
                             std::uint32_t depth) {
  require_known(node, path, {key}, key);
  const Json& list = node[key];
  if (!list.is_array() || list.empty())
    throw invalid(path, concat("'", key, "' must be a list of schemas"));
  if (std::string_view(key) == "allOf" && list.size() > 1)
    throw unsupported(path, "'allOf' of several schemas");
  if (std::string_view(key) == "oneOf") {
    for (std::size_t i = 0; i < list.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        if (disjointness_.are_disjoint(list[i], list[k])) continue;
        if (disjointness_.is_exhausted()) {
          throw unsupported(
              path,
              concat("'oneOf' of ", list.size(),
                     " schemas, too many to see whether they exclude each other (anyOf is),"));
        }
        throw unsupported(path, concat("'oneOf' whose schemas ", k, " and ", i,
                                       " may allow the same document (anyOf is)"));
      }
    }
  }
  std::vector<Expr> parts;
  for (std::size_t i = 0; i < list.size(); ++i) {
    parts.push_back(schema(list[i], concat(path, "/", key, "/", i), depth + 1));
  }
  return choice(std::move(parts));
}

std::uint32_t SchemaBuilder::value_rule(const Json& node, const std::string& path,
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
  const std::uint32_t rule = rule_of(node, path, depth);
  if (node.is_object()) simple_rules_.emplace(std::move(words), rule);
  return rule;
}

std::uint32_t SchemaBuilder::rule_of(const Json& node, const std::string& path,
                                     std::uint32_t depth) {
  Expr body = schema(node, path, depth);
  return body.kind == ExprKind::kRule ? body.rule : add_rule("#" + path, std::move(body));
}

Expr SchemaBuilder::any_value() {
  if (any_value_) return reference(*any_value_);
  const std::uint32_t value = add_rule("value", {});
  any_value_ = value;
  Expr object = map_of(reference(value), "/value");
  Expr array = json_enclosed("[", optional(json_list(reference(value), 1, kUnbounded)), "]");
  grammar_.rules[value].body =
      choice(std::move(object), std::move(array), json_string(0, kUnbounded), json_number(),
             json_boolean(), text("null"));
  return reference(value);
}

Outcome<Grammar> parse_json_schema(std::string_view text) {
  return catch_failure([&] {
    const Json root = parse_schema_document(text);
    return SchemaBuilder(root).build();
  });
}

}  // namespace llmc::hosted::grammar
