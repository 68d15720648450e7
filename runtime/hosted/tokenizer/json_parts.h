#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/hosted/tokenizer/problem.h"
#include "runtime/hosted/tokenizer/spec.h"

/// Reads the parts of a tokenizer.json. The functions read_… return a problem, which is empty on
/// success.
namespace llmc::hosted {

using Json = nlohmann::json;

/// Maximum nesting of parts of the same kind.
inline constexpr int kMaxDepth = 8;

const Json& json_member(const Json& object, const char* name);
std::string json_text(const Json& value);
bool json_flag(const Json& value, bool otherwise = false);

/// Reads "normalizer" and appends its steps.
Problem read_normalizer(const Json& normalizer, std::vector<SpecStep>& steps);

/// Reads "pre_tokenizer" and appends its steps. Sets `byte_level` if a step converts the text to
/// byte spellings.
Problem read_pretokenizer(const Json& splitter, std::vector<SpecStep>& steps, bool& byte_level);

/// The content of "decoder": how the name of a token is decoded.
struct Decoding {
  bool byte_level = false;
  bool fused = false;  // a Fuse was read: the next decoders apply to the complete text
  Tokenizer::LeadingSpaces leading = Tokenizer::LeadingSpaces::kKept;
  std::vector<std::function<std::string(const std::string&)>> steps;
};
Problem read_decoder(const Json& decoder, Decoding& decoding);

/// Reads "post_processor": the ids before and after a text.
Problem read_post_processor(const Json& processor, SpecialIds& ids);

}  // namespace llmc::hosted
