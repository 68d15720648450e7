#include "compiler/grammar/json_disjoint.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace llmc::grammar {
namespace {

constexpr int kMaxDepth = 8;  // of properties and references that are looked into
const char* const kTypes[] = {"object", "array", "string", "boolean", "null", "number"};

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

/// A value whose equality does not depend on the order of properties.
using Value = nlohmann::json;

/// The values a schema lists; nullopt when it lists none.
std::optional<std::vector<Value>> constants(const Json& schema) {
  std::vector<Value> values;
  if (schema.contains("const")) {
    values.emplace_back(schema["const"]);
  } else if (schema.contains("enum") && schema["enum"].is_array()) {
    for (const Json& value : schema["enum"]) values.emplace_back(value);
  } else {
    return std::nullopt;
  }
  return values;
}

bool names_type(const Json& schema, const std::string& type) {
  const auto covers = [&](const Json& name) {
    return name == type || (type == "number" && name == "integer");
  };
  const Json& named = schema["type"];
  return named.is_array() ? std::ranges::any_of(named, covers) : covers(named);
}

/// Whether a document of this type may fit; true in doubt. Whole numbers count as numbers.
bool may_be(const Json& schema, const std::string& type) {
  if (const auto values = constants(schema)) {
    return std::ranges::any_of(*values,
                               [&](const Value& value) { return is_of_type(Json(value), type); });
  }
  return !schema.contains("type") || names_type(schema, type);
}

bool requires_key(const Json& schema, const std::string& key) {
  if (!schema.contains("required") || !schema["required"].is_array()) return false;
  return std::ranges::find(schema["required"], Json(key)) != schema["required"].end();
}

bool disjoint(const Json* a, const Json* b, const Json& root, int depth) {
  if (depth > kMaxDepth) return false;
  a = resolved(a, root);
  b = resolved(b, root);
  if (a == nullptr || b == nullptr || !a->is_object() || !b->is_object()) return false;
  const bool share_type = std::ranges::any_of(
      kTypes, [&](const char* type) { return may_be(*a, type) && may_be(*b, type); });
  if (!share_type) return true;
  const auto of_a = constants(*a), of_b = constants(*b);
  if (of_a && of_b) {
    return std::ranges::none_of(
        *of_a, [&](const Value& value) { return std::ranges::find(*of_b, value) != of_b->end(); });
  }
  const bool objects = std::ranges::none_of(kTypes, [&](const char* type) {
    return type != std::string("object") && may_be(*a, type) && may_be(*b, type);
  });
  if (!objects || !a->contains("properties") || !b->contains("properties")) return false;
  const Json &in_a = (*a)["properties"], &in_b = (*b)["properties"];
  if (!in_a.is_object() || !in_b.is_object()) return false;
  for (const auto& [key, value] : in_a.items()) {
    if (!in_b.contains(key) || !requires_key(*a, key) || !requires_key(*b, key)) continue;
    if (disjoint(&value, &in_b[key], root, depth + 1)) return true;
  }
  return false;
}

}  // namespace

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  if (!value.is_number_float()) return value.is_number_integer();
  const double number = value.get<double>();  // 1.0 is a whole number, too
  return number == static_cast<double>(static_cast<std::int64_t>(std::clamp(number, -9e15, 9e15)));
}

const Json* pointed_to(const Json& root, const std::string& pointer) {
  try {
    const Json::json_pointer at(pointer);
    return root.contains(at) ? &root[at] : nullptr;
  } catch (const Json::exception&) {
    return nullptr;
  }
}

bool are_disjoint(const Json& a, const Json& b, const Json& root) {
  return disjoint(&a, &b, root, 0);
}

}  // namespace llmc::grammar
