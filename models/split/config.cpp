#include "models/split/config.h"

#include <string_view>

namespace llmc::models {
namespace {

std::string base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (std::size_t j = 0; j < 4; ++j)
      out += i + j <= bytes.size() ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

}  // namespace

std::string config_json(const SplitConfig& config) {
  const bool sequence_first = config.layout == CacheLayout::kSequenceFirst;
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  return "{\n  \"hidden_size\": " + number(config.hidden) +
         ",\n  \"layer_nums\": " + number(config.layers) +
         ",\n  \"attention_mask\": \"float\",\n  \"key_value_shape\": [2, 1, " +
         (sequence_first ? "0, " + number(config.kv_heads) : number(config.kv_heads) + ", 0") +
         ", " + number(config.head_dim) +
         "],\n  \"prompt_template\": \"%s\",\n  \"is_visual\": false,\n  \"is_single\": false\n}\n";
}

std::string tokenizer_text(const SplitConfig& config) {
  std::string text = "430 0\n2 1 1\n1 2 2 1\n" + std::to_string(config.vocabulary) + "\n";
  std::int64_t count = 0;
  const auto add = [&](const std::string& token, const std::string& rest) {
    text += base64(token) + " " + rest + "\n";
    ++count;
  };
  add("<unk>", "0.0 2");
  add("<s>", "0.0 3");
  add("</s>", "0.0 3");
  constexpr char kHex[] = "0123456789ABCDEF";
  if (config.vocabulary >= 259)
    for (int byte = 0; byte < 256; ++byte)
      add(std::string("<0x") + kHex[byte >> 4] + kHex[byte & 15] + ">", "0.0 6");
  for (std::int64_t word = 0; count < config.vocabulary; ++word)
    add("\xe2\x96\x81w" + std::to_string(word), "-" + std::to_string(word) + ".0 1");
  return text;
}

}  // namespace llmc::models
