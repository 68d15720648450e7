#include <algorithm>

#include "runtime/hosted/grammar/json_schema_builder.h"
#include "runtime/hosted/grammar/json_text.h"

namespace llmc::hosted::grammar {
namespace {

constexpr std::uint32_t kMaxCount = 100000;

}  // namespace

SchemaBuilder::CountRange SchemaBuilder::counts_of(const Json& node, const char* min_key,
                                                   const char* max_key, const std::string& path) {
  CountRange counts;
  for (const bool is_min : {true, false}) {
    const char* const key = is_min ? min_key : max_key;
    if (!node.contains(key)) continue;
    if (!node[key].is_number_unsigned())
      throw invalid(path, concat("'", key, "' must be a whole number from 0 on"));
    const auto value = node[key].get<std::uint64_t>();
    if (value > kMaxCount) throw unsupported(path, concat("'", key, "' above ", kMaxCount));
    (is_min ? counts.min_count : counts.max_count) = static_cast<std::uint32_t>(value);
  }
  if (counts.min_count > counts.max_count)
    throw invalid(path, concat("'", min_key, "' is larger than '", max_key, "'"));
  return counts;
}

Expr SchemaBuilder::array(const Json& node, const std::string& path, std::uint32_t depth) {
  const CountRange counts = counts_of(node, "minItems", "maxItems", path);
  if (node.contains("items") && node["items"].is_array())
    throw invalid(path, "'items' must be a schema; a list of them is 'prefixItems'");
  if (node.contains("prefixItems") || (node.contains("items") && node["items"] == Json(false)))
    return tuple(node, counts, path, depth);
  if (counts.max_count == 0) return text("[]");
  Expr item =
      node.contains("items") ? schema(node["items"], path + "/items", depth + 1) : any_value();
  const std::uint32_t rule = add_rule("#" + path + "/items", std::move(item));
  Expr list = json_list(reference(rule), std::max(counts.min_count, 1u), counts.max_count);
  return json_enclosed("[", counts.min_count == 0 ? optional(std::move(list)) : std::move(list),
                       "]");
}

Expr SchemaBuilder::tuple(const Json& node, CountRange counts, const std::string& path,
                          std::uint32_t depth) {
  const Json none = Json::array();
  const Json& prefix = node.contains("prefixItems") ? node["prefixItems"] : none;
  if (!prefix.is_array() || (prefix.empty() && node.contains("prefixItems")))
    throw invalid(path, "'prefixItems' must be a list of schemas");
  // No item is allowed at the position of the first schema that is false, or after it.
  const auto forbidden = std::ranges::find(prefix, Json(false));
  const auto listed = static_cast<std::uint32_t>(forbidden - prefix.begin());
  const bool has_items = node.contains("items") && node["items"] != Json(false);
  const bool closed =
      forbidden != prefix.end() || (node.contains("items") && node["items"] == Json(false));
  if (counts.min_count > listed && closed)
    throw invalid(path, concat("'minItems' is ", counts.min_count, ", but only ", listed,
                               " items are allowed"));
  // Items that no keyword describes are generated only if minItems requires them. If no items are
  // listed, no items are allowed, because tuple() is called without prefixItems only if `items` is
  // false.
  if (closed || !has_items)
    counts.max_count = std::min(counts.max_count, std::max(listed, counts.min_count));
  const std::uint32_t fixed = std::min(listed, counts.max_count);
  Expr after = text("");  // the text after item i
  if (counts.max_count > fixed) {
    Expr item = has_items ? schema(node["items"], path + "/items", depth + 1) : any_value();
    Expr others = reference(add_rule("#" + path + "/items", std::move(item)));
    const std::uint32_t min_count = counts.min_count > fixed ? counts.min_count - fixed : 0;
    const std::uint32_t max_count =
        counts.max_count == kUnbounded ? kUnbounded : counts.max_count - fixed;
    after = repeat(json_next_item(std::move(others)), min_count, max_count);
  }
  if (fixed == 0) return text("[]");
  for (std::uint32_t i = fixed; i-- > 0;) {
    const std::uint32_t item = value_rule(prefix[i], concat(path, "/prefixItems/", i), depth + 1);
    // Use one rule per item, so that the nesting of expressions stays low.
    const std::uint32_t rule = add_rule(concat("#", path, "/prefixItems from ", i, " on"),
                                        sequence(reference(item), std::move(after)));
    after = i > 0 ? json_next_item(reference(rule)) : reference(rule);
    if (i >= counts.min_count) after = optional(std::move(after));
  }
  return json_enclosed("[", std::move(after), "]");
}

Expr SchemaBuilder::object(const Json& node, const std::string& path, std::uint32_t depth) {
  const Json nothing = Json::object();
  const Json& listed = node.contains("properties") ? node["properties"] : nothing;
  if (!listed.is_object()) throw invalid(path, "'properties' must be an object");
  const std::vector<std::string> required = required_of(node, path);
  const bool closed =
      node.contains("additionalProperties") && node["additionalProperties"] == Json(false);
  const bool open_schema =
      node.contains("additionalProperties") && !node["additionalProperties"].is_boolean();
  if (open_schema && (!listed.empty() || !required.empty()))
    throw unsupported(path, "a schema in 'additionalProperties' together with 'properties'");
  if (listed.empty() && required.empty()) {
    if (closed) return text("{}");
    Expr value = any_value();
    if (open_schema) {
      value = schema(node["additionalProperties"], path + "/additionalProperties", depth + 1);
    }
    return map_of(std::move(value), path);
  }
  std::vector<Property> properties;
  const std::set<std::string_view> needed(required.begin(), required.end());
  std::set<std::string> names;
  for (const auto& [key, value] : listed.items()) {
    names.insert(key);
    const bool is_required = needed.contains(key);
    if (value == Json(false) && !is_required) continue;  // the schema forbids the property
    const std::uint32_t inner = value_rule(value, path + "/properties/" + key, depth + 1);
    properties.push_back({key, inner, is_required});
  }
  for (const std::string& key : required) {
    if (names.contains(key)) continue;
    if (closed) {
      throw invalid(path, concat("'", printable(key),
                                 "' is required and, by 'additionalProperties', forbidden"));
    }
    properties.push_back({key, any_value().rule, true});
  }
  // All properties are forbidden: only the empty object is valid.
  if (properties.empty()) return text("{}");
  return json_enclosed("{", members(properties, path), "}");
}

std::vector<std::string> SchemaBuilder::required_of(const Json& node, const std::string& path) {
  std::vector<std::string> keys;
  std::set<std::string> known;
  if (!node.contains("required")) return keys;
  const auto is_string = [](const Json& key) { return key.is_string(); };
  if (!node["required"].is_array() || !std::ranges::all_of(node["required"], is_string))
    throw invalid(path, "'required' must be a list of names");
  for (const Json& key : node["required"]) {
    std::string name = key.get<std::string>();
    if (known.insert(name).second) keys.push_back(std::move(name));
  }
  return keys;
}

Expr SchemaBuilder::map_of(Expr value, const std::string& path) {
  const std::uint32_t rule =
      add_rule("#" + path + "/member", json_pair(json_string(0, kUnbounded), std::move(value)));
  return json_enclosed("{", optional(json_list(reference(rule), 1, kUnbounded)), "}");
}

/// Returns the members of an object: the properties in order, the optional ones possibly absent.
/// Keys are parts of the rules, so that reading a key needs only one path, even if many properties
/// can be next.
Expr SchemaBuilder::members(const std::vector<Property>& properties, const std::string& path) {
  // Build from the last property to the first. `rest`: the text after property i. `rule`: the text
  // that begins with property i or a later one.
  Expr rest = text("");
  std::uint32_t rule = 0;
  bool may_end = true;  // whether all later properties are optional
  for (std::size_t i = properties.size(); i-- > 0;) {
    const Property& property = properties[i];
    Expr member = sequence(json_pair(text(Json(property.key).dump()), reference(property.rule)),
                           std::move(rest));
    if (!property.required && i + 1 < properties.size())
      member = choice(std::move(member), reference(rule));
    rule =
        add_rule(concat("#", path, "/properties from '", property.key, "' on"), std::move(member));
    may_end = may_end && !property.required;
    rest = json_next_item(reference(rule));
    if (may_end) rest = optional(std::move(rest));
  }
  return may_end ? optional(reference(rule)) : reference(rule);
}

}  // namespace llmc::hosted::grammar
