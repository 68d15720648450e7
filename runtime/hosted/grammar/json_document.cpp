#include "runtime/hosted/grammar/json_document.h"

#include <algorithm>

#include "runtime/hosted/grammar/failure.h"
#include "runtime/hosted/grammar/grammar.h"

namespace llmc::hosted::grammar {
namespace {

constexpr std::size_t kMaxSchemaBytes = std::size_t{4} << 20;

/// Returns the maximum nesting of brackets outside strings in any text.
std::size_t nesting(std::string_view text) {
  std::size_t depth = 0, deepest = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

Json parse_schema_document(std::string_view text) {
  if (text.size() > kMaxSchemaBytes || nesting(text) > 4 * kMaxNesting)
    throw unsupported("the schema is too large or too deep", "docs/grammar.md has the limits");
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    // Remove the library's prefix: "[json.exception.parse_error.101] parse error at …".
    std::string_view what = error.what();
    what.remove_prefix(what.starts_with('[') ? std::min(what.find("] "), what.size() - 2) + 2 : 0);
    throw malformed("invalid JSON: " + printable(what),
                    "write a schema as {…}, such as {\"type\": \"object\"}");
  }
}

bool is_of_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  if (!value.is_number_float()) return value.is_number_integer();
  const double number = value.get<double>();  // 1.0 is also an integer
  return number == static_cast<double>(static_cast<std::int64_t>(std::clamp(number, -9e15, 9e15)));
}

const Json* resolve_pointer(const Json& root, const std::string& pointer) {
  try {
    const Json::json_pointer at(pointer);
    return root.contains(at) ? &root[at] : nullptr;
  } catch (const Json::exception&) {
    return nullptr;
  }
}

}  // namespace llmc::hosted::grammar
