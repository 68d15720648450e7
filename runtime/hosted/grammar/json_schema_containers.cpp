#include <algorithm>

#include "runtime/hosted/grammar/json_schema_builder.h"
#include "runtime/hosted/grammar/json_text.h"

/// Schemas of arrays and objects.
namespace llmc::hosted::grammar {
namespace {

constexpr std::uint32_t kMaxCount = 100000;

}  // namespace

SchemaBuilder::CountRange SchemaBuilder::counts_of(const Json& node, const char* least_key,
                                                   const char* most_key, const std::string& path) {
  CountRange counts;
  for (const bool is_least : {true, false}) {
    const char* const key = is_least ? least_key : most_key;
    if (!node.contains(key)) continue;
    if (!node[key].is_number_unsigned())
      throw bad(path, concat("'", key, "' must be a whole number from 0 on"));
    const auto value = node[key].get<std::uint64_t>();
    if (value > kMaxCount) throw unsupported(path, concat("'", key, "' above ", kMaxCount));
    (is_least ? counts.least : counts.most) = static_cast<std::uint32_t>(value);
  }
  if (counts.least > counts.most)
    throw bad(path, concat("'", least_key, "' is larger than '", most_key, "'"));
  return counts;
}

Expr SchemaBuilder::array(const Json& node, const std::string& path, std::uint32_t depth) {
  const CountRange counts = counts_of(node, "minItems", "maxItems", path);
  if (node.contains("items") && node["items"].is_array())
    throw bad(path, "'items' must be a schema; a list of them is 'prefixItems'");
  if (node.contains("prefixItems") || (node.contains("items") && node["items"] == Json(false)))
    return tuple(node, counts, path, depth);
  if (counts.most == 0) return text("[]");
  Expr item =
      node.contains("items") ? schema(node["items"], path + "/items", depth + 1) : any_value();
  const std::uint32_t rule = add_rule("#" + path + "/items", std::move(item));
  Expr list = json_list(reference(rule), std::max(counts.least, 1u), counts.most);
  return json_between("[", counts.least == 0 ? optional(std::move(list)) : std::move(list), "]");
}

Expr SchemaBuilder::tuple(const Json& node, CountRange counts, const std::string& path,
                          std::uint32_t depth) {
  const Json none = Json::array();
  const Json& prefix = node.contains("prefixItems") ? node["prefixItems"] : none;
  if (!prefix.is_array() || (prefix.empty() && node.contains("prefixItems")))
    throw bad(path, "'prefixItems' must be a list of schemas");
  // No item can be at or after the first place whose schema is false.
  const auto forbidden = std::ranges::find(prefix, Json(false));
  const auto listed = static_cast<std::uint32_t>(forbidden - prefix.begin());
  const bool has_items = node.contains("items") && node["items"] != Json(false);
  const bool closed =
      forbidden != prefix.end() || (node.contains("items") && node["items"] == Json(false));
  if (counts.least > listed && closed)
    throw bad(path,
              concat("'minItems' is ", counts.least, ", but only ", listed, " items are allowed"));
  // As with properties, what no keyword describes comes only where it must. Without a listed item
  // nothing is allowed here: `items` alone is no tuple unless it is false.
  if (closed || !has_items) counts.most = std::min(counts.most, std::max(listed, counts.least));
  const std::uint32_t fixed = std::min(listed, counts.most);
  Expr after = text("");  // what follows the items before the one that is added
  if (counts.most > fixed) {
    Expr item = has_items ? schema(node["items"], path + "/items", depth + 1) : any_value();
    Expr others = reference(add_rule("#" + path + "/items", std::move(item)));
    const std::uint32_t least = counts.least > fixed ? counts.least - fixed : 0;
    const std::uint32_t most = counts.most == kUnbounded ? kUnbounded : counts.most - fixed;
    after = repeat(json_next(std::move(others)), least, most);
  }
  if (fixed == 0) return text("[]");
  for (std::uint32_t i = fixed; i-- > 0;) {
    const std::uint32_t item = value_rule(prefix[i], concat(path, "/prefixItems/", i), depth + 1);
    // A rule for each place, however many there are: no deep nesting.
    const std::uint32_t rule = add_rule(concat("#", path, "/prefixItems from ", i, " on"),
                                        sequence(reference(item), std::move(after)));
    after = i > 0 ? json_next(reference(rule)) : reference(rule);
    if (i >= counts.least) after = optional(std::move(after));
  }
  return json_between("[", std::move(after), "]");
}

Expr SchemaBuilder::object(const Json& node, const std::string& path, std::uint32_t depth) {
  const Json nothing = Json::object();
  const Json& listed = node.contains("properties") ? node["properties"] : nothing;
  if (!listed.is_object()) throw bad(path, "'properties' must be an object");
  const std::vector<std::string> required = required_of(node, path);
  const bool closed =
      node.contains("additionalProperties") && node["additionalProperties"] == Json(false);
  const bool open_schema =
      node.contains("additionalProperties") && !node["additionalProperties"].is_boolean();
  if (open_schema && (!listed.empty() || !required.empty()))
    throw unsupported(path, "a schema in 'additionalProperties' beside 'properties'");
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
    if (value == Json(false) && !is_required) continue;  // it must not be there
    const std::uint32_t inner = value_rule(value, path + "/properties/" + key, depth + 1);
    properties.push_back({key, inner, is_required});
  }
  for (const std::string& key : required) {
    if (names.contains(key)) continue;
    if (closed) {
      throw bad(path, concat("'", printable(key),
                             "' is required and, by 'additionalProperties', forbidden"));
    }
    properties.push_back({key, any_value().rule, true});
  }
  // Nothing but properties that must not be there: the empty object.
  if (properties.empty()) return text("{}");
  return json_between("{", members(properties, path), "}");
}

std::vector<std::string> SchemaBuilder::required_of(const Json& node, const std::string& path) {
  std::vector<std::string> keys;
  std::set<std::string> known;
  if (!node.contains("required")) return keys;
  const auto is_string = [](const Json& key) { return key.is_string(); };
  if (!node["required"].is_array() || !std::ranges::all_of(node["required"], is_string))
    throw bad(path, "'required' must be a list of names");
  for (const Json& key : node["required"]) {
    std::string name = key.get<std::string>();
    if (known.insert(name).second) keys.push_back(std::move(name));
  }
  return keys;
}

Expr SchemaBuilder::map_of(Expr value, const std::string& path) {
  const std::uint32_t rule =
      add_rule("#" + path + "/member", json_pair(json_string(0, kUnbounded), std::move(value)));
  return json_between("{", optional(json_list(reference(rule), 1, kUnbounded)), "}");
}

/// The properties in their order; those that are not required may be absent. Keys are parts of the
/// rules, so that reading one needs no more than one way, however many may come.
Expr SchemaBuilder::members(const std::vector<Property>& properties, const std::string& path) {
  // Built from the last property to the first. `rest`: what may follow property i; `rule`: property
  // i or a later one comes now.
  Expr rest = text("");
  std::uint32_t rule = 0;
  bool may_end = true;  // all later ones may be left out
  for (std::size_t i = properties.size(); i-- > 0;) {
    const Property& property = properties[i];
    Expr member = sequence(json_pair(text(Json(property.key).dump()), reference(property.rule)),
                           std::move(rest));
    if (!property.required && i + 1 < properties.size())
      member = choice(std::move(member), reference(rule));
    rule =
        add_rule(concat("#", path, "/properties from '", property.key, "' on"), std::move(member));
    may_end = may_end && !property.required;
    rest = json_next(reference(rule));
    if (may_end) rest = optional(std::move(rest));
  }
  return may_end ? optional(reference(rule)) : reference(rule);
}

}  // namespace llmc::hosted::grammar
