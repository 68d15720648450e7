#include "compiler/grammar/json_disjoint.h"

#include <algorithm>
#include <set>

namespace llmc::grammar {
namespace {

constexpr int kMaxDepth = 8;  // of properties and references that are looked into
constexpr const char* kTypes[] = {"object", "array", "string", "boolean", "null", "number"};

const Json* resolved(const Json* schema, const Json& root) {
  for (int i = 0; i < kMaxDepth; ++i) {
    if (!schema->is_object() || !schema->contains("$ref")) return schema;
    const Json& reference = (*schema)["$ref"];
    if (!reference.is_string() || !reference.get_ref<const std::string&>().starts_with('#'))
      return nullptr;
    schema = pointed_to(root, reference.get_ref<const std::string&>().substr(1));
    if (schema == nullptr) return nullptr;
  }
  return nullptr;
}

bool names_type(const Json& schema, const std::string& type) {
  const auto covers = [&](const Json& name) {
    return name == type || (type == "number" && name == "integer");
  };
  const Json& named = schema["type"];
  return named.is_array() ? std::ranges::any_of(named, covers) : covers(named);
}

}  // namespace

const Disjointness::Facts& Disjointness::facts_of(const Json* schema) {
  const auto [it, added] = facts_.try_emplace(schema);
  Facts& facts = it->second;
  if (!added) return facts;
  const bool has_const = schema->contains("const");
  if (has_const || (schema->contains("enum") && (*schema)["enum"].is_array())) {
    std::vector<Value>& values = facts.constants.emplace();
    if (has_const) values.emplace_back((*schema)["const"]);
    if (!has_const) values.assign((*schema)["enum"].begin(), (*schema)["enum"].end());
    std::sort(values.begin(), values.end());
  }
  // In doubt it may allow a type. Whole numbers count as numbers.
  for (std::size_t i = 0; i < facts.types.size(); ++i) {
    const std::string type = kTypes[i];
    facts.types[i] =
        facts.constants
            ? std::ranges::any_of(*facts.constants,
                                  [&](const Value& value) { return is_of_type(Json(value), type); })
            : !schema->contains("type") || names_type(*schema, type);
  }
  if (!schema->contains("required") || !schema->contains("properties")) return facts;
  const Json &required = (*schema)["required"], &properties = (*schema)["properties"];
  if (!required.is_array() || !properties.is_object()) return facts;
  std::set<std::string> names;
  for (const Json& name : required)
    if (name.is_string()) names.insert(name.get<std::string>());
  for (const auto& [key, value] : properties.items())
    if (names.contains(key)) facts.required.emplace(key, &value);
  return facts;
}

bool Disjointness::disjoint(const Json* a, const Json* b, int depth) {
  if (depth > kMaxDepth || gave_up()) return false;
  a = resolved(a, root_);
  b = resolved(b, root_);
  if (a == nullptr || b == nullptr || !a->is_object() || !b->is_object()) return false;
  const Facts &of_a = facts_of(a), &of_b = facts_of(b);
  ++work_;
  bool share_type = false, share_others = false;
  for (std::size_t i = 0; i < of_a.types.size(); ++i) {
    const bool share = of_a.types[i] && of_b.types[i];
    share_type = share_type || share;
    share_others = share_others || (share && i > 0);
  }
  if (!share_type) return true;
  if (of_a.constants && of_b.constants) {
    work_ += of_a.constants->size() + of_b.constants->size();
    auto x = of_a.constants->begin(), y = of_b.constants->begin();
    while (x != of_a.constants->end() && y != of_b.constants->end()) {
      if (*x == *y) return false;
      *x < *y ? ++x : ++y;
    }
    return true;
  }
  if (share_others) return false;  // than objects
  work_ += of_a.required.size();
  for (const auto& [key, value] : of_a.required) {
    const auto other = of_b.required.find(key);
    if (other != of_b.required.end() && disjoint(value, other->second, depth + 1)) return true;
  }
  return false;
}

}  // namespace llmc::grammar
