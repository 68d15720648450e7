#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace llmc::grammar {

using Json = nlohmann::ordered_json;  // properties keep the order they were written in

/// Whether a document is of a JSON schema type: "object", "integer", …
bool is_of_type(const Json& value, const std::string& type);

/// What a local JSON pointer ("" or "/…") leads to; nullptr when nothing does.
const Json* pointed_to(const Json& root, const std::string& pointer);

/// Whether it is certain that no document fits both schemas of the document `root`: their types
/// differ, or their constants do, or those of a property that both require.
bool are_disjoint(const Json& a, const Json& b, const Json& root);

}  // namespace llmc::grammar
