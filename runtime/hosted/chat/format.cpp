#include "runtime/hosted/chat/format.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "runtime/hosted/jinja/strings.h"

namespace llmc::hosted {
namespace {

// Message texts that no template treats specially.
constexpr const char* kAnswer = "Xq7fAnswer";
constexpr const char* kQuestion = "Xq7fQuestion";
constexpr std::size_t kMaxStopText = 64;

std::string filled(const std::string& pattern, const std::string& text) {
  const std::size_t at = pattern.find("%s");
  return pattern.substr(0, at) + text + pattern.substr(at + 2);
}

}  // namespace

ChatFormat::ChatFormat(ChatDescription description, const Tokenizer& tokenizer)
    : description_(std::move(description)), tokenizer_(&tokenizer) {
  const SpecialIds& special = tokenizer.special_ids();
  for (const std::int32_t id : special.stop) add_stop(id);
  for (const std::int32_t id : description_.stop_ids) add_stop(id);
  if (!description_.eos.empty()) {
    const auto ids =
        tokenizer.encode(description_.eos, {.add_prefix = false, .parse_special = true});
    if (ids.size() == 1) add_stop(ids[0]);
  }
  if (description_.bos.empty()) description_.bos = spelled(special.prefix);
  if (description_.eos.empty()) description_.eos = spelled(stop_ids_);
}

std::string ChatFormat::spelled(std::span<const std::int32_t> ids) const {
  return ids.empty() ? std::string() : std::string(tokenizer_->name_of(ids.front()));
}

void ChatFormat::add_stop(std::int32_t id) {
  if (id >= 0 && static_cast<std::size_t>(id) < tokenizer_->size() && !is_stop(id))
    stop_ids_.push_back(id);
}

bool ChatFormat::is_stop(std::int32_t id) const {
  return std::ranges::find(stop_ids_, id) != stop_ids_.end();
}

bool ChatFormat::is_control(std::int32_t id) const {
  const SpecialIds& known = tokenizer_->special_ids();
  for (const auto* ids : {&known.special, &known.stop, &known.prefix})
    if (std::ranges::find(*ids, id) != ids->end()) return true;
  return false;
}

Outcome<ChatFormat> ChatFormat::create(ChatDescription description, const Tokenizer& tokenizer) {
  ChatFormat format(std::move(description), tokenizer);
  const ChatDescription& d = format.description_;
  if (!d.jinja.empty()) {
    auto parsed = jinja::Template::parse(
        d.jinja, d.source.empty() ? std::string("chat template") : d.source + ": chat template");
    if (!parsed) return parsed.failure();
    format.template_ = *std::move(parsed);
  }
  if (!format.has_template()) return format;
  const Message hello{.role = "user", .content = kQuestion, .ending = {}};
  const auto rendered = format.render(std::span(&hello, 1), true);
  if (!rendered) return rendered.failure();
  if (rendered->find(kQuestion) == rendered->npos) {
    return Failure{LLMC_ERROR_FORMAT,
                   (d.source.empty() ? "" : d.source + ": ") +
                       std::string("the chat template does not include the user's message")};
  }
  format.find_end_of_turn();
  return format;
}

void ChatFormat::find_end_of_turn() {
  const Message messages[] = {
      {"user", kQuestion, {}}, {"assistant", kAnswer, {}}, {"user", kQuestion, {}}};
  const auto rendered = render(messages, false);
  if (!rendered)
    return;  // the template may reject this conversation; then use only the other information
  const std::size_t answer = rendered->find(kAnswer);
  if (answer == rendered->npos) return;
  const std::size_t begin = answer + std::string_view(kAnswer).size();
  const std::size_t end = rendered->find(kQuestion, begin);
  if (end == rendered->npos) return;
  const std::string between(jinja::strip(std::string_view(*rendered).substr(begin, end - begin),
                                         std::nullopt, jinja::Side::kBoth));
  if (between.empty()) return;
  const auto ids = tokenizer_->encode(between, {.add_prefix = false, .parse_special = true});
  if (!ids.empty() && is_control(ids[0])) return add_stop(ids[0]);
  const std::string line = between.substr(0, between.find('\n'));
  if (line.size() <= kMaxStopText) stop_texts_.push_back(line);
}

Outcome<std::string> ChatFormat::render(std::span<const Message> messages, bool open,
                                        std::optional<std::int64_t> now) const {
  if (!description_.jinja.empty())
    return render_jinja(messages, open, now.value_or(std::time(nullptr)));
  if (!description_.user.empty()) return render_prompts(messages, open);
  std::string text;
  std::size_t system = 0;
  for (const Message& message : messages) {
    text += message.content;
    if (message.role == "system" && &message == &messages.front()) system = text.size();
    // The answer ended the text; the next message begins another text, after the same system
    // prompt.
    if (!message.ending.empty() && &message != &messages.back()) text.resize(system);
  }
  return text;
}

Outcome<std::string> ChatFormat::render_jinja(std::span<const Message> messages, bool open,
                                              std::int64_t now) const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Message& message : messages)
    list.push_back({{"role", message.role}, {"content", message.content}});
  const nlohmann::ordered_json variables{{"messages", std::move(list)},
                                         {"add_generation_prompt", open},
                                         {"bos_token", description_.bos},
                                         {"eos_token", description_.eos},
                                         {"tools", nullptr},
                                         {"documents", nullptr}};
  return template_->render(variables, now);
}

Outcome<std::string> ChatFormat::render_prompts(std::span<const Message> messages,
                                                bool open) const {
  std::string text;
  for (const Message& message : messages) {
    if (message.role == "system") {
      if (description_.system.empty()) {
        return Failure{LLMC_ERROR_FORMAT,
                       "the model's prompt_template has no place for a system prompt"};
      }
      text += filled(description_.system, message.content);
    } else if (message.role == "user") {
      text += filled(description_.user, message.content);
    } else if (!description_.assistant.empty()) {
      text += filled(description_.assistant, message.content);
    } else {
      // The token that ended the answer belongs to it; without it, the model would read turns that
      // do not end.
      text += message.content + (message.ending.empty() ? description_.eos : message.ending);
    }
  }
  if (open && !description_.assistant.empty())
    text += description_.assistant.substr(0, description_.assistant.find("%s"));
  return text;
}

std::vector<std::int32_t> ChatFormat::encode(std::string_view text) const {
  bool prefix = !has_template() || description_.add_prefix;
  if (has_template() && prefix) {  // if the template does not write the prefix itself
    const std::string first = spelled(tokenizer_->special_ids().prefix);
    prefix = first.empty() || !text.starts_with(first);
  }
  return tokenizer_->encode(text, {.add_prefix = prefix, .parse_special = has_template()});
}

std::optional<std::vector<std::int32_t>> ChatFormat::encode_continuation(
    std::string_view text) const {
  if (text.empty()) return std::vector<std::int32_t>();
  if (!has_template()) return std::nullopt;
  auto ids = tokenizer_->encode(text, {.add_prefix = false, .parse_special = true});
  if (ids.empty() || !is_control(ids[0]) || !text.starts_with(tokenizer_->name_of(ids[0])))
    return std::nullopt;
  return ids;
}

}  // namespace llmc::hosted
