#include "runtime/hosted/grammar/json_disjoint.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace llmc::hosted::grammar {
namespace {

// Maximum nesting of properties, and maximum length of a chain of references.
constexpr int kMaxDepth = 8;
constexpr const char* kTypeNames[] = {"object", "array", "string", "boolean", "null", "number"};

const Json* resolved(const Json* schema, const Json& root) {
  for (int i = 0; i < kMaxDepth; ++i) {
    if (!schema->is_object() || !schema->contains("$ref")) return schema;
    const Json& reference = (*schema)["$ref"];
    if (!reference.is_string() || !reference.get_ref<const std::string&>().starts_with('#'))
      return nullptr;
    schema = resolve_pointer(root, reference.get_ref<const std::string&>().substr(1));
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

/// Converts numbers with integer values to integers.
void unify_numbers(nlohmann::json& value) {
  if (value.is_structured())
    for (nlohmann::json& part : value) unify_numbers(part);
  if (!value.is_number_float()) return;
  const double number = value.get<double>();
  if (number != std::floor(number)) return;
  if (number >= 0 && number < 0x1p64) value = static_cast<std::uint64_t>(number);
  if (number < 0 && number >= -0x1p63) value = static_cast<std::int64_t>(number);
}

/// Returns a key that is the same for equal values, with any order of properties. Keys can be
/// sorted, unlike values of the JSON library, which does not order numbers of different types.
std::string key_of(const Json& constant) {
  nlohmann::json value = constant;
  unify_numbers(value);
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

const Disjointness::Facts& Disjointness::facts_of(const Json* schema) {
  const auto [it, added] = facts_.try_emplace(schema);
  Facts& facts = it->second;
  if (!added) return facts;
  std::vector<const Json*> constants;
  const bool has_const = schema->contains("const");
  if (has_const || (schema->contains("enum") && (*schema)["enum"].is_array())) {
    if (has_const) constants.push_back(&(*schema)["const"]);
    if (!has_const)
      for (const Json& value : (*schema)["enum"]) constants.push_back(&value);
    std::vector<std::string>& keys = facts.constants.emplace();
    for (const Json* const value : constants) keys.push_back(key_of(*value));
    std::ranges::sort(keys);
  }
  // A type is possible unless the schema excludes it. "integer" is part of "number".
  for (std::size_t i = 0; i < facts.types.size(); ++i) {
    const std::string type = kTypeNames[i];
    facts.types[i] =
        facts.constants
            ? std::ranges::any_of(constants,
                                  [&](const Json* value) { return is_of_type(*value, type); })
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
  if (depth > kMaxDepth || is_exhausted()) return false;
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
      const auto order = *x <=> *y;
      if (order == 0) return false;
      order < 0 ? ++x : ++y;
    }
    return true;
  }
  if (share_others) return false;  // a type other than object is possible for both
  work_ += of_a.required.size();
  for (const auto& [key, value] : of_a.required) {
    const auto other = of_b.required.find(key);
    if (other != of_b.required.end() && disjoint(value, other->second, depth + 1)) return true;
  }
  return false;
}

}  // namespace llmc::hosted::grammar
