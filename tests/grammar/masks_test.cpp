#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>

#include "llmc/grammar.h"
#include "tests/grammar/grammar_fixture.h"

namespace llmc::hosted::grammar::testing {
namespace {

/// Number of rounds of a random test: LLMC_GRAMMAR_ROUNDS or `usual`.
int rounds(int usual) {
  const char* const given = std::getenv("LLMC_GRAMMAR_ROUNDS");
  return given != nullptr ? std::atoi(given) : usual;
}

/// Checks after each of several generated prefixes that exactly the acceptable tokens are allowed.
void expect_masks_are_right(Machine& machine, std::mt19937& random, int texts) {
  for (int i = 0; i < texts; ++i) {
    const std::string text = machine.generate(random, 1 + i % 12);
    if (!machine.read(text)) FAIL() << "generated and not accepted: " << text;
    const std::vector<bool> may = machine.allowed();
    for (std::uint32_t token = 0; token < may.size(); ++token) {
      const llmc_status status = machine.accept(token);
      ASSERT_EQ(status == LLMC_OK, may[token])
          << "token '" << machine.vocabulary().tokens[token] << "' after '" << text << "'";
      if (may[token]) machine.read(text);
    }
  }
}

std::vector<std::string> random_tokens(std::mt19937& random, const std::vector<std::string>& parts,
                                       int count) {
  std::vector<std::string> tokens;
  for (int i = 0; i < count; ++i) {
    std::string token;
    for (auto n = 1 + random() % 5; n > 0; --n) token += parts[random() % parts.size()];
    if (random() % 4 == 0) token.erase(0, 1);
    if (token.size() > 1 && random() % 4 == 0) token.pop_back();
    if (!token.empty()) tokens.push_back(token);
  }
  return tokens;
}

TEST(GrammarMasks, AllowJustWhatCanBeAccepted) {
  const char* const grammars[] = {
      "root ::= \"hello\" | \"help\" \" me\"?",
      "root ::= value\nvalue ::= \"[\" (value (\",\" value)*)? \"]\" | [a-c]+",
      "root ::= e\ne ::= t ([+*] t)*\nt ::= [a-c] | \"(\" e \")\" | \"{\" e \"}\"",
      "root ::= \"(\" root \")\" root | \"\"",
      "root ::= [^\"]* \"\\\"\" root | [€à-ü]*",
      "root ::= \"a\" root \"b\" | \"a\" root \"c\" | \"a\" | \"ab\"",  // ambiguous
      "root ::= x x\nx ::= \"a\" x \"b\" | \"c\"? ",
      "root ::= list\nlist ::= [a-c] | [a-c] \",\" list",
  };
  std::mt19937 random(7);
  const std::vector<std::string> parts = {"a", "b",  "c",   ",",  "[", "]",   "(", ")", "{", "}",
                                          "+", "\"", "hel", "lo", "p", " me", "€", "é", "ü"};
  for (const char* const gbnf : grammars) {
    SCOPED_TRACE(gbnf);
    Machine machine(parsed(gbnf), vocabulary_with(random_tokens(random, parts, 300)));
    expect_masks_are_right(machine, random, 12);
  }
}

TEST(GrammarMasks, ReadTheSameTextAsTheGrammarSays) {
  std::mt19937 random(11);
  const char* const grammars[] = {
      "root ::= e\ne ::= t ([+*] t)*\nt ::= [a-c] | \"(\" e \")\"",
      "root ::= \"(\" root \")\" root | \"\"",
      "root ::= \"a\" root \"a\" | \"b\" root \"b\" | \"\"",
      "root ::= (\"a\" | \"ab\" | \"b\" | \"abc\"){3,5} [+*]?",
  };
  for (const char* const gbnf : grammars) {
    SCOPED_TRACE(gbnf);
    const Grammar grammar = parsed(gbnf);
    Machine machine(grammar, vocabulary_with({}));
    int belonging = 0;
    for (int i = 0; i < 4000; ++i) {
      std::string text;
      for (auto n = random() % 9; n > 0; --n) text += "abc()+*"[random() % 7];
      const bool right = belongs(grammar, text);
      belonging += right;
      ASSERT_EQ(machine.matches(text), right) << text;
    }
    EXPECT_GT(belonging, 10);
  }
}

/// Rules of random expressions; rule 0 is the root.
class RandomGrammar {
 public:
  explicit RandomGrammar(std::mt19937& random) : random_(random) {}
  Grammar make() {
    Grammar grammar;
    rules_ = 1 + random_() % 4;
    for (std::uint32_t i = 0; i < rules_; ++i)
      grammar.rules.push_back({"r" + std::to_string(i), expr(0)});
    return grammar;
  }

 private:
  Expr expr(int depth) {
    const auto parts = [&](std::size_t least, std::size_t most) {
      std::vector<Expr> list;
      for (auto n = least + random_() % (most - least + 1); n > 0; --n)
        list.push_back(expr(depth + 1));
      return list;
    };
    static const char* const kTexts[] = {"", "a", "b", "ab", "ba", "é", "c"};
    switch (depth > 3 ? random_() % 3 : random_() % 8) {
      case 0:
        return text(kTexts[random_() % 7]);
      case 1:
        return set(random_() % 2 == 0 ? CodePointSet{{'a', 'b'}} : CodePointSet{{'b', 0xE9}});
      case 2:
        return reference(static_cast<std::uint32_t>(random_() % rules_));
      case 3:
      case 4:
        return sequence(parts(1, 3));
      case 5:
      case 6:
        return choice(parts(2, 3));
      default: {
        const auto least = static_cast<std::uint32_t>(random_() % 3);
        const std::uint32_t most =
            random_() % 2 == 0 ? kUnbounded : least + static_cast<std::uint32_t>(random_() % 3);
        return repeat(expr(depth + 1), least, most);
      }
    }
  }
  std::mt19937& random_;
  std::uint32_t rules_ = 1;
};

TEST(GrammarMasks, RandomGrammarsAgreeWithARecursiveMatcher) {
  std::mt19937 random(3);
  const std::vector<std::string> letters = {"a", "b", "c", "é", "\xC3", "\xA9"};
  int built = 0, belonging = 0;
  for (int round = 0; round < rounds(400); ++round) {
    const Grammar grammar = RandomGrammar(random).make();
    const Vocabulary vocabulary = vocabulary_with(random_tokens(random, letters, 60));
    if (!build_tables(grammar, vocabulary).ok()) continue;  // left recursion or nonterminating
    ++built;
    SCOPED_TRACE("round " + std::to_string(round));
    Machine machine(grammar, vocabulary);
    for (int i = 0; i < 60; ++i) {
      std::string text;
      for (auto n = random() % 7; n > 0; --n) text += letters[random() % 4];
      const bool right = belongs(grammar, text);
      machine.restart();
      bool fits = true;
      bool overflow = false;
      for (const char c : text) {
        const llmc_status status = machine.accept(static_cast<unsigned char>(c));
        overflow = overflow || status == LLMC_ERROR_GRAMMAR_DEPTH;
        fits = fits && status == LLMC_OK;
      }
      if (overflow) continue;
      belonging += right;
      ASSERT_EQ(fits && machine.may_end(), right) << text;
    }
    expect_masks_are_right(machine, random, 3);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(built, rounds(400) / 4);
  EXPECT_GT(belonging, built);
}

TEST(GrammarMasks, EndWhereTheGrammarMay) {
  Machine machine(parsed("root ::= \"ab\" \"c\"?"), vocabulary_with({"abc", "abcd"}));
  const std::uint32_t end = machine.end_token();
  const std::uint32_t empty = end - 1;
  EXPECT_EQ(machine.state(), LLMC_GRAMMAR_INCOMPLETE);
  EXPECT_FALSE(machine.allowed()[end]);
  EXPECT_EQ(machine.accept(end), LLMC_ERROR_GRAMMAR);
  EXPECT_EQ(machine.accept('b'), LLMC_ERROR_GRAMMAR);
  ASSERT_EQ(machine.accept('a'), LLMC_OK);
  EXPECT_EQ(machine.state(), LLMC_GRAMMAR_INCOMPLETE);
  ASSERT_EQ(machine.accept('b'), LLMC_OK);
  EXPECT_EQ(machine.state(), LLMC_GRAMMAR_MAY_END);
  EXPECT_TRUE(machine.allowed()[end]);
  EXPECT_FALSE(machine.allowed()[empty]);
  EXPECT_EQ(machine.accept(empty), LLMC_ERROR_GRAMMAR);
  ASSERT_EQ(machine.accept('c'), LLMC_OK);
  EXPECT_EQ(machine.state(), LLMC_GRAMMAR_COMPLETE);
  EXPECT_TRUE(machine.allowed()[end]);
  ASSERT_EQ(machine.accept(end), LLMC_OK);
  EXPECT_THAT(machine.allowed(), ::testing::Each(false));
  EXPECT_EQ(machine.accept(end), LLMC_ERROR_GRAMMAR);
  machine.restart();
  EXPECT_EQ(machine.accept(256), LLMC_OK);  // "abc"
  EXPECT_EQ(machine.state(), LLMC_GRAMMAR_COMPLETE);
  machine.restart();
  EXPECT_EQ(machine.accept(257), LLMC_ERROR_GRAMMAR);
}

TEST(GrammarMasks, CharactersMayComeInPieces) {
  Machine machine(parsed("root ::= [à-ü] \"!\""), vocabulary_with({"\xA9!", "\xC3\xA9", "é!"}));
  EXPECT_TRUE(machine.allowed()[0xC3]);
  EXPECT_FALSE(machine.allowed()[0xA9]);
  ASSERT_EQ(machine.accept(0xC3), LLMC_OK);
  const auto may = machine.allowed();
  EXPECT_TRUE(may[0xA9]);
  EXPECT_TRUE(may[256]);
  EXPECT_FALSE(may[257]);
  EXPECT_FALSE(may['!']);
  EXPECT_EQ(machine.accept(256), LLMC_OK);
  EXPECT_EQ(machine.state(), LLMC_GRAMMAR_COMPLETE);
}

TEST(GrammarMasks, DeepTextsEndInTime) {
  Machine machine(parsed("root ::= \"[\" root? \"]\" | \"(\" root \")\""), vocabulary_with({}));
  machine.restart();
  int depth = 0;
  while (machine.allowed()['[']) {
    ASSERT_EQ(machine.accept('['), LLMC_OK);
    ASSERT_LT(++depth, 5000);
  }
  EXPECT_GE(depth, 1000);
  EXPECT_EQ(machine.accept('['), LLMC_ERROR_GRAMMAR_DEPTH);
  for (; depth > 0; --depth) ASSERT_EQ(machine.accept(']'), LLMC_OK);
  EXPECT_EQ(machine.state(), LLMC_GRAMMAR_COMPLETE);
}

TEST(GrammarMasks, LongTokensThatPushManyFramesEndInTime) {
  // Each '(' enters 14 rules that continue after it: 16 of them in one token need over 200 frames.
  std::string gbnf = "root ::= r1 \"1\"\n";
  for (int i = 1; i < 14; ++i)
    gbnf += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + " \"1\"\n";
  gbnf += "r14 ::= \"(\" root \")\" | \"0\"";
  constexpr std::uint32_t kLong = 256;
  Machine machine(parsed(gbnf), vocabulary_with({std::string(16, '(')}));
  int allowed = 0, left_out = 0;
  for (int depth = 0; machine.read(std::string(static_cast<std::size_t>(depth), '(')); ++depth) {
    const bool may = machine.allowed()[kLong];
    EXPECT_EQ(machine.accept(kLong), may ? LLMC_OK : LLMC_ERROR_GRAMMAR_DEPTH) << depth;
    ++(may ? allowed : left_out);
  }
  EXPECT_GT(allowed, 40);
  EXPECT_GE(left_out, 15);
}

TEST(GrammarMasks, WhatIsAllowedIsAcceptedHoweverDeep) {
  // Unlimited nesting, with tokens that push few and many frames: no token that the mask allows
  // exceeds the capacity.
  std::string gbnf = "root ::= a\n";
  for (char c = 'a'; c < 'f'; ++c)
    gbnf +=
        std::string(1, c) + " ::= " + std::string(1, static_cast<char>(c + 1)) + " \"" + c + "\"\n";
  gbnf += "f ::= \"(\" root \")\" | \"[\" f \"]\" | \"0\"";
  Machine machine(parsed(gbnf), vocabulary_with({"((", "([", "[[[[", "((((((((", "([([([([([([",
                                                 "[(((((((((((((((((((((((("}));
  std::mt19937 random(17);
  int deep = 0;
  for (int round = 0; round < 40; ++round) {
    machine.restart();
    for (int step = 0; step < 1200; ++step) {
      const std::vector<bool> may = machine.allowed();
      std::vector<std::uint32_t> open;
      for (std::uint32_t token = 0; token < may.size(); ++token)
        if (may[token] && (token >= 256 || token == '(' || token == '[')) open.push_back(token);
      if (open.empty()) {
        ++deep;
        break;
      }
      ASSERT_EQ(machine.accept(open[random() % open.size()]), LLMC_OK) << round << ' ' << step;
    }
  }
  EXPECT_EQ(deep, 40);
}

/// Random rules that open brackets, call each other, and possibly close the brackets.
Grammar random_nesting(std::mt19937& random) {
  Grammar grammar;
  const auto rules = static_cast<std::uint32_t>(1 + random() % 4);
  const auto one_of = [&](const std::vector<const char*>& texts) {
    return text(texts[random() % texts.size()]);
  };
  for (std::uint32_t i = 0; i < rules; ++i) {
    std::vector<Expr> ways;
    ways.push_back(one_of({"a", "b", "ab"}));
    for (auto n = 1 + random() % 3; n > 0; --n) {
      std::vector<Expr> parts;
      parts.push_back(one_of({"(", "(", "[", "(["}));
      parts.push_back(reference(static_cast<std::uint32_t>(random() % rules)));
      if (random() % 3 == 0)
        parts.push_back(optional(reference(static_cast<std::uint32_t>(random() % rules))));
      parts.push_back(one_of({")", "]", "a", ""}));
      ways.push_back(sequence(std::move(parts)));
    }
    grammar.rules.push_back({"r" + std::to_string(i), choice(std::move(ways))});
  }
  return grammar;
}

TEST(GrammarMasks, WhatIsAllowedIsAcceptedInRandomGrammarsThatNest) {
  // Texts that open brackets until the capacity of frames or paths is exhausted.
  std::mt19937 random(23);
  const std::vector<std::string> parts = {"(", "[", "((", "([", "a", ")"};
  int full = 0;
  for (int round = 0; round < rounds(24); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Machine machine(random_nesting(random), vocabulary_with(random_tokens(random, parts, 40)));
    machine.restart();
    for (int step = 0, enough = full + 20; step < 400 && full < enough; ++step) {
      const std::vector<bool> may = machine.allowed();
      std::vector<std::uint32_t> open, all;
      for (std::uint32_t token = 0; token < may.size(); ++token) {
        const std::string& bytes = machine.vocabulary().tokens[token];
        if (bytes.empty()) continue;
        if (may[token]) {
          all.push_back(token);
          if (bytes.find_first_of(")]ab") == bytes.npos) open.push_back(token);
        } else if (bytes.front() == '(' || bytes.front() == '[') {
          const llmc_status status = machine.accept(token);
          ASSERT_NE(status, LLMC_OK) << bytes << " at " << step;
          full += status == LLMC_ERROR_GRAMMAR_DEPTH;
        }
      }
      if (open.empty()) open = all;
      if (open.empty()) break;
      ASSERT_EQ(machine.accept(open[random() % open.size()]), LLMC_OK) << step;
    }
  }
  EXPECT_GT(full, rounds(24));
}

/// All words of one and two letters a to f, prefixed with `before`.
std::vector<std::string> words(const std::string& before) {
  std::vector<std::string> words;
  for (char a = 'a'; a <= 'f'; ++a) {
    words.push_back(before + a);
    for (char b = 'a'; b <= 'f'; ++b) words.push_back(before + a + b);
  }
  return words;
}

TEST(GrammarMasks, ManyTokensMayDependOnTheStack) {
  const char* const grammars[] = {
      // In a list no space follows a word: it depends on the next frame.
      "root ::= item (\" \" item)* \".\"\n"
      "item ::= word | word \"(\" item (\",\" item)* \")\"\nword ::= [a-f]+",
      // After an item in < > a \"!\" may follow; what follows it depends on the frame below.
      "root ::= item\n"
      "item ::= \"<\" x (\" \" x)* \">\" | \"{\" x (\",\" x)* \"}\"\nx ::= [a-f]+ | item \"!\"?",
  };
  std::mt19937 random(5);
  for (const char* const gbnf : grammars) {
    SCOPED_TRACE(gbnf);
    std::vector<std::string> tokens = words(" ");
    for (const std::string& word : words(",")) tokens.push_back(word);
    Machine machine(parsed(gbnf), vocabulary_with(tokens));
    llmc_grammar_header header;
    std::memcpy(&header, machine.bytes().data(), sizeof header);
    EXPECT_GT(header.contexts, 0u);
    EXPECT_LE(machine.facts().max_dependents, 32u);
    expect_masks_are_right(machine, random, 200);
  }
}

/// Reads `step` repeatedly while it is accepted and checks after each byte that '(' is allowed
/// exactly if it is accepted. Returns how often it exceeded the capacity.
int refused_for_room(Machine& machine, std::string_view step) {
  int refused = 0;
  for (std::string text; text.size() < 4000 && machine.read(text);
       text += step[text.size() % step.size()]) {
    const bool may = machine.allowed()['('];
    const llmc_status status = machine.accept('(');
    EXPECT_EQ(status == LLMC_OK, may) << text;
    refused += status == LLMC_ERROR_GRAMMAR_DEPTH;
  }
  return refused;
}

TEST(GrammarMasks, WaysThatPartForAByteHaveRoomForAllTheirFrames) {
  // Each '(' has three paths, which push 100 frames each; the next byte leaves one path.
  std::string gbnf = "root ::= p1 | q1 | r1\n";
  for (const char* const rule : {"p", "q", "r"})
    for (int i = 1; i < 100; ++i)
      gbnf += rule + std::to_string(i) + " ::= " + rule + std::to_string(i + 1) + " \"1\"\n";
  gbnf +=
      "p100 ::= \"(\" \"y\" root \")\" | \"0\"\n"
      "q100 ::= \"(\" \"x\" root \")\"\n"
      "r100 ::= \"(\" \"z\" root \")\"";
  Machine machine(parsed(gbnf), vocabulary_with({}));
  EXPECT_EQ(refused_for_room(machine, "(y"), 1);
}

TEST(GrammarMasks, WaysThatPartForAByteAreNotTooMany) {
  // 3, 9, 27 paths, and then more than the capacity.
  Machine machine(parsed("root ::= a | b | c | \"0\"\na ::= \"(\" root \")\" \"a\"\n"
                         "b ::= \"(\" root \")\" \"b\"\nc ::= \"(\" root \")\" \"c\""),
                  vocabulary_with({"((", "(0", "(((("}));
  EXPECT_EQ(refused_for_room(machine, "("), 1);
  machine.restart();
  EXPECT_TRUE(machine.allowed()[256]);
  EXPECT_FALSE(machine.allowed()[258]);
  ASSERT_TRUE(machine.read("((("));
  EXPECT_FALSE(machine.allowed()['(']);
  EXPECT_FALSE(machine.allowed()[257]);
  EXPECT_TRUE(machine.matches("(((0)a)b)c"));
}

TEST(GrammarMasks, RightRecursionNeedsNoStack) {
  Machine machine(parsed("root ::= item\nitem ::= [a-z] | [a-z] \",\" item"), vocabulary_with({}));
  EXPECT_FALSE(machine.facts().has_stack);
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "a,";
  EXPECT_TRUE(machine.matches(text + "b"));
}

TEST(GrammarMasks, TooManyReadingsAreAStatus) {
  // Every prefix of a's can be split into two stacks per letter.
  Machine machine(parsed("root ::= \"a\" p [xy] | \"a\" q [xz] | \"b\"\n"
                         "p ::= root | \"p\"\nq ::= root | \"q\""),
                  vocabulary_with({}));
  llmc_status status = LLMC_OK;
  for (int i = 0; i < 20 && status == LLMC_OK; ++i) status = machine.accept('a');
  EXPECT_EQ(status, LLMC_ERROR_GRAMMAR_DEPTH);
  EXPECT_FALSE(machine.allowed()['a']);
  EXPECT_TRUE(machine.allowed()['p']);  // and the text continues
  ASSERT_EQ(machine.accept('p'), LLMC_OK);
  while (machine.state() != LLMC_GRAMMAR_COMPLETE) ASSERT_EQ(machine.accept('x'), LLMC_OK);
}

TEST(GrammarMasks, SameInputGivesTheSameBytes) {
  const Grammar grammar = parsed("root ::= [a-z]+ (\",\" root)?");
  const Vocabulary vocabulary = vocabulary_with({"ab", "a,b"});
  EXPECT_EQ(build_tables(grammar, vocabulary)->bytes, build_tables(grammar, vocabulary)->bytes);
}

}  // namespace
}  // namespace llmc::hosted::grammar::testing
