#pragma once

#include <cstdint>

#include "runtime/hosted/chat/description.h"
#include "runtime/hosted/grammar/vocabulary.h"
#include "runtime/hosted/tokenizer.h"

namespace llmc::hosted::grammar {

/// Returns the vocabulary of a model with `vocab` tokens: the tokens of its tokenizer, at most
/// `vocab` of them, and the ids that end a text according to the tokenizer and the chat format.
Vocabulary model_vocabulary(const Tokenizer& tokenizer, std::uint64_t vocab,
                            const ChatDescription& chat);

}  // namespace llmc::hosted::grammar
