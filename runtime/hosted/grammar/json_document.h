#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace llmc::hosted::grammar {

using Json = nlohmann::ordered_json;  // properties keep the order they were written in

/// The text of a JSON schema. Throws when it is no JSON, and when it is too long, or so
/// deep that what follows it could run out of stack.
Json parse_schema_document(std::string_view text);

/// Whether a document is of a JSON schema type: "object", "integer", …
bool is_of_type(const Json& value, const std::string& type);

/// What a local JSON pointer ("" or "/…") leads to; nullptr when nothing does.
const Json* resolve_pointer(const Json& root, const std::string& pointer);

}  // namespace llmc::hosted::grammar
