#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/hosted/tokenizer/problem.h"
#include "runtime/hosted/tokenizer/spec.h"

/// The parts of a tokenizer.json, read one by one. Each returns what is wrong, or an empty text.
namespace llmc::hosted {

using Json = nlohmann::json;

/// Files are read no deeper than this: parts of one kind inside one another.
inline constexpr int kMostDepth = 8;

const Json& json_member(const Json& object, const char* name);
std::string json_text(const Json& value);
bool json_flag(const Json& value, bool otherwise = false);

/// "normalizer": appends the steps.
Problem read_normalizer(const Json& normalizer, std::vector<SpecStep>& steps);

/// "pre_tokenizer": appends the steps; `byte_level`: text is spelled in bytes from here on.
Problem read_pretokenizer(const Json& splitter, std::vector<SpecStep>& steps, bool& byte_level);

/// "decoder": what a token's name reads as.
struct Decoding {
  bool byte_level = false;
  bool fused = false;  // what follows is done to the whole text
  Tokenizer::LeadingSpaces leading = Tokenizer::LeadingSpaces::kKept;
  std::vector<std::function<std::string(const std::string&)>> steps;
};
Problem read_decoder(const Json& decoder, Decoding& decoding);

/// "post_processor": ids in front of a text and behind it.
Problem read_post_processor(const Json& processor, SpecialIds& ids);

}  // namespace llmc::hosted
