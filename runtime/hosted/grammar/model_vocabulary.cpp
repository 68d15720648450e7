#include "runtime/hosted/grammar/model_vocabulary.h"

#include <algorithm>

#include "runtime/hosted/chat/format.h"
#include "runtime/hosted/grammar/sorted.h"

namespace llmc::hosted::grammar {

Vocabulary model_vocabulary(const Tokenizer& tokenizer, std::uint64_t vocab,
                            const ChatDescription& chat) {
  Vocabulary result;
  const std::uint64_t count = std::min<std::uint64_t>(tokenizer.size(), vocab);
  for (std::uint64_t id = 0; id < count; ++id)
    result.tokens.emplace_back(tokenizer.bytes_of(static_cast<std::int32_t>(id)));
  std::vector<std::int32_t> ids(tokenizer.stop_ids().begin(), tokenizer.stop_ids().end());
  // Ignore invalid descriptions, and descriptions that bundles do not store: the vocabulary must be
  // the same whether it is read from the model or from its bundle.
  if (!chat.empty()) {
    const auto format = ChatFormat::create(chat, tokenizer);
    if (format.ok()) ids.insert(ids.end(), format->stop_ids().begin(), format->stop_ids().end());
  }
  for (const std::int32_t id : ids) {
    if (id < 0 || static_cast<std::uint64_t>(id) >= count) continue;
    result.stops.push_back(static_cast<std::uint32_t>(id));
    // A token that ends a text adds nothing to it.
    result.tokens[static_cast<std::size_t>(id)].clear();
  }
  sort_unique(result.stops);
  return result;
}

}  // namespace llmc::hosted::grammar
