#include "compiler/driver/builtin_text.h"

#include <xxhash.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "compiler/driver/chat_files.h"
#include "compiler/driver/resources.h"
#include "compiler/support/check.h"
#include "runtime/hosted/chat/format.h"

extern "C" __attribute__((visibility("hidden")))
const llmc::driver::EmbeddedFile llmc_calibration_table[];

namespace llmc::driver {
namespace {

using Conversation = std::vector<hosted::Message>;
using Ids = std::vector<std::int32_t>;

std::string_view embedded(std::string_view name) {
  for (const Resource& file : embedded_files(llmc_calibration_table))
    if (file.path == name) return file.content;
  LLMC_CHECK(false);
  return {};
}

std::vector<Conversation> conversations() {
  std::vector<Conversation> read;
  for (const nlohmann::json& messages : nlohmann::json::parse(embedded("chats.json"))) {
    Conversation& conversation = read.emplace_back();
    for (const nlohmann::json& message : messages)
      conversation.push_back({.role = message.at("role").get<std::string>(),
                              .content = message.at("content").get<std::string>(),
                              .ending = {}});
  }
  return read;
}

std::vector<std::string> passages() {
  constexpr std::string_view kBetween = "\n====\n";
  std::vector<std::string> read;
  std::string_view rest = embedded("text.txt");
  if (rest.ends_with('\n')) rest.remove_suffix(1);
  for (std::size_t end = 0; end != rest.npos;) {
    end = rest.find(kBetween);
    read.emplace_back(rest.substr(0, end));
    if (end != rest.npos) rest.remove_prefix(end + kBetween.size());
  }
  return read;
}

/// Returns a fixed time, noon of 1 January 2025 in the local time zone, so that templates that
/// print the date give the same text in every time zone.
std::int64_t fixed_time() {
  std::tm noon{};
  noon.tm_year = 125;
  noon.tm_mday = 1;
  noon.tm_hour = 12;
  noon.tm_isdst = -1;
  return std::mktime(&noon);
}

/// Returns the token ids of each conversation in the chat format of `description`. Leaves out a
/// system message that the format rejects.
hosted::Outcome<std::vector<Ids>> formatted(hosted::ChatDescription description,
                                            const std::vector<Conversation>& conversations,
                                            const hosted::Tokenizer& tokenizer) {
  auto format = hosted::ChatFormat::create(std::move(description), tokenizer);
  if (!format) return format.failure();
  const std::int64_t now = fixed_time();
  std::vector<Ids> all;
  for (const Conversation& conversation : conversations) {
    auto text = format->render(conversation, false, now);
    if (!text && conversation.front().role == "system")
      text = format->render(std::span(conversation).subspan(1), false, now);
    if (!text) return text.failure();
    all.push_back(format->encode(*text));
  }
  return all;
}

Ids plain(const Conversation& conversation, const hosted::Tokenizer& tokenizer) {
  std::string text;
  for (const hosted::Message& message : conversation) text += message.content + "\n\n";
  return tokenizer.encode(text, {.add_prefix = false});
}

}  // namespace

std::uint64_t builtin_text_hash() {
  std::string all;
  for (const Resource& file : embedded_files(llmc_calibration_table)) all += file.content;
  return XXH3_64bits(all.data(), all.size());
}

Result<BuiltinText> builtin_text(const std::filesystem::path& model,
                                 const hosted::Tokenizer& tokenizer) {
  LLMC_TRY(hosted::ChatDescription description, read_chat_files(model));
  const std::vector<Conversation> chats = conversations();
  BuiltinText read;
  std::vector<Ids> turns;
  if (description.has_template()) {
    auto ids = formatted(std::move(description), chats, tokenizer);
    if (ids)
      turns = *std::move(ids);
    else
      read.refused = ids.failure().message;
  }
  if (turns.empty())
    for (const Conversation& conversation : chats) turns.push_back(plain(conversation, tokenizer));
  // Mix conversations and passages, because callers may use only the beginning of the text.
  const std::vector<std::string> prose = passages();
  for (std::size_t i = 0, p = 0; i < turns.size(); ++i) {
    read.ids.insert(read.ids.end(), turns[i].begin(), turns[i].end());
    for (; p * turns.size() < (i + 1) * prose.size(); ++p) {
      const Ids ids = tokenizer.encode(prose[p] + "\n\n", {.add_prefix = false});
      read.ids.insert(read.ids.end(), ids.begin(), ids.end());
    }
  }
  return read;
}

}  // namespace llmc::driver
