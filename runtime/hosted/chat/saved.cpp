// Saves conversations: messages as JSON, and the cache of their tokens in a separate file.
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "llmc/model.h"
#include "runtime/hosted/chat/conversation.h"
#include "runtime/hosted/tokenizer/tables.h"

namespace llmc::hosted {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kMaxMessages = 100'000;

std::string as_text(const OrderedJson& json, int indent = -1) {
  return json.dump(indent, ' ', false, OrderedJson::error_handler_t::replace);
}

/// Returns a hash that connects the JSON to the cache that was saved with it, and to the recorded
/// tokens of the last answer (null: none), which are used instead of the tokens of its text.
std::string fingerprint(std::string_view cache, const OrderedJson& last) {
  const auto digits = [](std::string_view bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    const std::uint64_t hash = table_hash(bytes);
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[hash >> shift & 15];
    return text;
  };
  const std::string text = digits(cache);
  return last.is_null() ? text : digits(text + as_text(last));
}

/// Returns a member of an object; nullptr if there is none. Does not copy it, because copying
/// deeply nested values would overflow the stack.
const OrderedJson* member(const OrderedJson& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(name);
  return it == object.end() ? nullptr : &*it;
}

/// Returns whether the value contains a text and token ids, as save() writes them, and nothing
/// else.
bool is_last_answer(const OrderedJson& last) {
  const OrderedJson* const text = member(last, "text");
  const OrderedJson* const tokens = member(last, "tokens");
  return last.size() == 2 && text != nullptr && text->is_string() && tokens != nullptr &&
         tokens->is_array() &&
         std::ranges::all_of(*tokens, [](const OrderedJson& id) { return id.is_number_integer(); });
}

/// Reads a list of at least one id. Returns false unless all are below `vocabulary`.
bool read_ids(const OrderedJson& list, std::size_t vocabulary, std::vector<std::int32_t>& ids) {
  if (!list.is_array()) return false;
  for (const OrderedJson& id : list) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX || id >= vocabulary) return false;
    ids.push_back(id.get<std::int32_t>());
  }
  return !ids.empty();
}

Failure foreign_prefix() {
  return {LLMC_ERROR_STATE, "the cache starts with tokens that are not part of the conversation"};
}

}  // namespace

std::string Conversation::save(const std::string& cache_name, std::string_view cache) const {
  OrderedJson list = OrderedJson::array();
  for (const Message& message : messages_) {
    OrderedJson entry{{"role", message.role}, {"content", message.content}};
    if (!message.ending.empty()) entry["ending"] = message.ending;
    list.push_back(std::move(entry));
  }
  OrderedJson json{{"llmc_conversation", 1}, {"messages", std::move(list)}};
  if (!cache_name.empty()) {
    // Store the exact tokens of the answers, which may differ from the tokens of their text. An
    // empty text need not be stored, because every text begins with it.
    OrderedJson last;
    if (last_ && !last_->text.empty()) last = {{"text", last_->text}, {"tokens", last_->ids}};
    json["cache"] = {{"file", cache_name}, {"hash", fingerprint(cache, last)}};
    if (!last.is_null()) json["cache"]["last"] = std::move(last);
  }
  return as_text(json, 1) + "\n";
}

std::optional<Failure> Conversation::load(std::string_view text, const std::string& name) {
  const auto bad = [&](const char* what) { return Failure{LLMC_ERROR_FORMAT, name + ": " + what}; };
  const OrderedJson json = OrderedJson::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("llmc_conversation") || !json.contains("messages") ||
      !json["messages"].is_array() || json["messages"].size() > kMaxMessages)
    return bad("is not a conversation saved by llmc");
  if (json["llmc_conversation"] != 1) return bad("was saved by another version of llmc");
  std::vector<Message> messages;
  for (const OrderedJson& entry : json["messages"]) {
    Message message;
    const auto read = [&](const char* key, std::string& value, bool required) {
      const auto it = entry.is_object() ? entry.find(key) : entry.end();
      if (!entry.is_object() || it == entry.end()) return !required;
      if (!it->is_string()) return false;
      value = it->get<std::string>();
      return true;
    };
    if (!read("role", message.role, true) || !read("content", message.content, true) ||
        !read("ending", message.ending, false))
      return bad("has a message without a role or a text");
    if (message.role != "system" && message.role != "user" && message.role != "assistant")
      return bad("has a message with a role other than system, user or assistant");
    messages.push_back(std::move(message));
  }
  messages_ = std::move(messages);
  last_.reset();
  return std::nullopt;
}

Outcome<std::string> Conversation::save_cache() {
  if (base_ > 0) return foreign_prefix();
  std::string state;
  if (const llmc_status bad = sequence_.save_state(state))
    return Failure{bad, llmc_status_text(bad)};
  return state;
}

std::string Conversation::cache_name(std::string_view text) {
  const OrderedJson json = OrderedJson::parse(text, nullptr, false);
  const OrderedJson* const part = member(json, "cache");
  const OrderedJson* const file = part != nullptr ? member(*part, "file") : nullptr;
  return file != nullptr && file->is_string() ? file->get<std::string>() : std::string();
}

std::optional<Failure> Conversation::load_cache(std::string_view text, std::string_view cache) {
  if (base_ > 0) return foreign_prefix();
  const OrderedJson json = OrderedJson::parse(text, nullptr, false);
  const OrderedJson* const part = member(json, "cache");
  const OrderedJson* const hash = part != nullptr ? member(*part, "hash") : nullptr;
  const OrderedJson* const said = part != nullptr ? member(*part, "last") : nullptr;
  const Failure damaged{LLMC_ERROR_STATE, "the conversation's list of tokens is damaged"};
  if (said != nullptr && !is_last_answer(*said)) return damaged;
  if (hash == nullptr || !hash->is_string() ||
      *hash != fingerprint(cache, said != nullptr ? *said : OrderedJson()))
    return Failure{LLMC_ERROR_STATE, "it was not saved together with the conversation"};
  std::optional<Last> last;
  if (said != nullptr) {
    last.emplace();
    last->text = (*said)["text"].get<std::string>();
    if (last->text.empty() || !read_ids((*said)["tokens"], sequence_.vocabulary(), last->ids))
      return damaged;
  }
  if (const llmc_status status = sequence_.load_state(cache))
    return Failure{status, llmc_status_text(status)};
  // A loaded state is complete: it begins with the ids of its tokens (llmc_state_header).
  cached_.resize(sequence_.position());
  std::memcpy(cached_.data(), cache.data() + sizeof(llmc_state_header),
              cached_.size() * sizeof(std::int32_t));
  last_ = std::move(last);
  return std::nullopt;
}

}  // namespace llmc::hosted
