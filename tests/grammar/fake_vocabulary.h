#pragma once

#include "tests/grammar/grammar_fixture.h"
#include "tests/runtime/core/fake_model.h"

namespace llmc::hosted::grammar::testing {

/// Lists of numbers in brackets, for sessions of the fake model.
inline constexpr std::string_view kLists =
    "root ::= value\nvalue ::= \"[\" (value (\",\" value)*)? \"]\" | [0-9]+";
inline constexpr std::int32_t kEnd = 49;

/// The fake model's 50 tokens: digits, brackets and pairs of them, letters, and a stop token.
inline Vocabulary fake_vocabulary() {
  Vocabulary vocabulary;
  for (char digit = '0'; digit <= '9'; ++digit) vocabulary.tokens.emplace_back(1, digit);
  for (const char* const token : {"[", "]", ",", "[[", "]]", "],", ",[", "],[", "12", "3]", "a"})
    vocabulary.tokens.emplace_back(token);
  vocabulary.tokens.resize(fake::kVocab);
  for (std::size_t i = 21; i < 49; ++i) vocabulary.tokens[i] = std::string(1, char('a' + i % 26));
  vocabulary.stops = {kEnd};
  return vocabulary;
}

}  // namespace llmc::hosted::grammar::testing
