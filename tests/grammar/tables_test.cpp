#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "llmc/grammar.h"
#include "tests/grammar/grammar_fixture.h"
#include "tests/support/load.h"

namespace llmc::hosted::grammar::testing {
namespace {

/// Tables in memory of exactly their size, so that sanitizers find reads past them.
class Copy {
 public:
  explicit Copy(const std::string& bytes) : words_((bytes.size() + 7) / 8), size_(bytes.size()) {
    std::memcpy(words_.data(), bytes.data(), bytes.size());
  }
  unsigned char* data() { return reinterpret_cast<unsigned char*>(words_.data()); }
  llmc_grammar_header& header() { return *reinterpret_cast<llmc_grammar_header*>(data()); }
  /// Corrects the hash, as an attacker would.
  void mend() {
    const std::size_t count = (size_ - LLMC_GRAMMAR_HASHED_FROM) / 4;
    std::vector<std::uint32_t> words(count);
    std::memcpy(words.data(), data() + LLMC_GRAMMAR_HASHED_FROM, count * 4);
    header().hash = llmc_grammar_hash(LLMC_GRAMMAR_HASH_START, words.data(), count);
  }
  llmc_status init(std::size_t bytes) {
    return llmc_grammar_init(memory_, sizeof memory_, data(), bytes, &grammar_);
  }
  llmc_status init() { return init(size_); }
  llmc_grammar* grammar() { return grammar_; }
  std::size_t size() const { return size_; }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t size_;
  alignas(64) unsigned char memory_[LLMC_GRAMMAR_BYTES];
  llmc_grammar* grammar_ = nullptr;
};

std::string sample() {
  const Grammar grammar = parsed(
      "root ::= value\nvalue ::= \"[\" (value (\",\" value)*)? \"]\" | \"\\\"\" [^\"]* \"\\\"\" | "
      "[0-9]+");
  std::vector<std::string> tokens = {"]]", "],", "[[", "\",\"", "é", "12"};
  // Enough for masks that depend on the frames of the stack.
  for (int i = 10; i < 40; ++i) tokens.push_back("," + std::to_string(i));
  return build_tables(grammar, vocabulary_with(tokens))->bytes;
}

TEST(GrammarTables, AreTakenWhole) {
  const std::string bytes = sample();
  Copy copy(bytes);
  EXPECT_EQ(copy.init(), LLMC_OK);
  EXPECT_EQ(copy.init(copy.size() - 4), LLMC_ERROR_GRAMMAR_TABLES);
  EXPECT_EQ(copy.init(3), LLMC_ERROR_GRAMMAR_TABLES);
  EXPECT_EQ(copy.init(0), LLMC_ERROR_GRAMMAR_TABLES);
  llmc_grammar* grammar = nullptr;
  alignas(64) unsigned char memory[LLMC_GRAMMAR_BYTES];
  EXPECT_EQ(llmc_grammar_init(memory, sizeof memory, copy.data() + 4, copy.size() - 4, &grammar),
            LLMC_ERROR_GRAMMAR_TABLES);
  EXPECT_EQ(llmc_grammar_init(memory, sizeof memory, nullptr, 0, &grammar), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_grammar_init(memory, sizeof memory - 1, copy.data(), copy.size(), &grammar),
            LLMC_ERROR_BUFFER);
  EXPECT_EQ(llmc_grammar_init(memory + 1, sizeof memory, copy.data(), copy.size(), &grammar),
            LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(grammar, nullptr);
}

TEST(GrammarTables, EveryChangedBitIsNoticed) {
  const std::string bytes = sample();
  Copy copy(bytes);
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t at = random() % copy.size();
    const auto bit = static_cast<unsigned char>(1u << random() % 8);
    copy.data()[at] ^= bit;
    ASSERT_EQ(copy.init(), LLMC_ERROR_GRAMMAR_TABLES) << "byte " << at;
    copy.data()[at] ^= bit;
  }
  EXPECT_EQ(copy.init(), LLMC_OK);
}

/// Tables with any numbers are refused or used without accesses outside of them.
TEST(GrammarTables, HostileNumbersAreRefusedOrHarmless) {
  const std::string bytes = sample();
  std::mt19937 random(2);
  int taken = 0;
  for (int i = 0; i < 3000; ++i) {
    Copy copy(bytes);
    for (auto n = 1 + random() % 2; n > 0; --n) {
      const std::size_t at = random() % (copy.size() / 4) * 4;
      const std::uint32_t values[] = {0, 1, 0xFFFFFFFFu, 0x7FFFFFFFu,
                                      static_cast<std::uint32_t>(random() % 64)};
      const std::uint32_t value = values[random() % 5];
      if (at >= 16 || random() % 4 == 0) std::memcpy(copy.data() + at, &value, 4);
    }
    copy.mend();
    if (copy.init() != LLMC_OK) continue;
    ++taken;
    const std::uint32_t vocab = copy.header().vocab;
    std::vector<std::uint32_t> mask(vocab / 32 + 1);
    for (int step = 0; step < 8; ++step) {
      ASSERT_EQ(llmc_grammar_allow(copy.grammar(), mask.data(), mask.size()), LLMC_OK);
      for (int k = 0; k < 20; ++k) {
        const auto token = static_cast<std::int32_t>(random() % (vocab + 2));
        if (llmc_grammar_accept(copy.grammar(), token) == LLMC_OK) break;
      }
      llmc_grammar_text_state(copy.grammar());
    }
  }
  EXPECT_GT(taken, 100);
}

TEST(GrammarTables, MasksOfLikeStatesShareTheirRoom) {
  // A string of up to 200 characters: 200 similar states.
  std::vector<std::string> tokens;
  for (int a = 0; a < 26; ++a)
    for (int b = 0; b < 26; ++b)
      for (int c = 0; c < 26; ++c)
        tokens.push_back(
            {static_cast<char>('a' + a), static_cast<char>('a' + b), static_cast<char>('a' + c)});
  const Machine machine(parsed("root ::= \"\\\"\" [a-z]{0,200} \"\\\"\""), vocabulary_with(tokens));
  EXPECT_GE(machine.facts().states, 200u);
  EXPECT_LT(machine.facts().masks, 10u);
  EXPECT_LE(machine.facts().bitmaps, 3u);
}

TEST(GrammarTables, FewTokensDependOnTheStack) {
  const Machine machine(
      parsed("root ::= value\nvalue ::= \"[\" (value (\",\" value)*)? \"]\" | \"{\" (key value "
             "(\",\" key value)*)? \"}\" | [0-9]+\nkey ::= [a-z]+ \":\""),
      vocabulary_with({"]]", "]}", "}]", "],", "},", ",1", ",a", "]]]", "1]", "a:", "12"}));
  EXPECT_TRUE(machine.facts().has_stack);
  EXPECT_LE(machine.facts().max_dependents, 12u);
}

/// Rules that begin with each other and continue after that: `count` frames for a "0".
std::string nested_rules(int count) {
  std::string gbnf = "root ::= r1 \"1\"\n";
  for (int i = 1; i < count; ++i)
    gbnf += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + " [a-z] | \"" +
            static_cast<char>('A' + i % 26) + "\"\n";
  return gbnf + "r" + std::to_string(count) + " ::= \"(\" root \")\" | \"0\"";
}

/// A vocabulary of words, numbers and signs, with and without a leading space.
Vocabulary words_and_signs() {
  std::vector<std::string> tokens;
  for (const char* const before : {"", " ", ", ", "(", ".", "\"", "\", \"", ") "}) {
    for (char c = '!'; c <= '~'; ++c) {
      tokens.push_back(before + std::string(1, c));
      tokens.push_back(before + std::string(2, c));
    }
  }
  return vocabulary_with(tokens);
}

TEST(GrammarTables, LevelsOfPrecedenceLeaveFewTokensToTheStack) {
  // A closing bracket ends all levels, each of which could continue after it.
  std::string gbnf = "root ::= (e1 \";\")+\n";
  const std::string signs = "?|&^=<+-*/%";
  for (std::size_t i = 0; i < signs.size(); ++i) {
    const std::string next = "e" + std::to_string(i + 2);
    gbnf +=
        "e" + std::to_string(i + 1) + " ::= " + next + " (\" " + signs[i] + " \" " + next + ")*\n";
  }
  gbnf += "e12 ::= [0-9]+ | [a-z]+ | \"\\\"\" [^\"]* \"\\\"\" | \"(\" e1 \")\"\n";
  const Machine machine(parsed(gbnf), words_and_signs());
  EXPECT_LE(machine.facts().max_dependents, 32u);
  llmc_grammar_header header;
  std::memcpy(&header, machine.bytes().data(), sizeof header);
  std::vector<llmc_grammar_state> states(header.states);
  std::memcpy(states.data(), machine.bytes().data() + sizeof header,
              states.size() * sizeof(llmc_grammar_state));
  for (const llmc_grammar_state& state : states) {
    EXPECT_LE(state.room % 256, signs.size());  // all levels read a space
    EXPECT_LE(state.room / 256, 64u);
  }
}

TEST(GrammarTables, RulesThatMayGoOnBehindOneAnotherStaySmall) {
  // Any number of frames can read the next byte, at any depth.
  std::string gbnf = "root ::= r\nr ::= \"a\"";
  for (const char c : std::string("([{<|!@")) gbnf += std::string(" | \"") + c + "\" r [a-z]*";
  const Machine machine(parsed(gbnf), words_and_signs());
  llmc_grammar_header header;
  std::memcpy(&header, machine.bytes().data(), sizeof header);
  EXPECT_LT(header.contexts, 200u * header.states);
  EXPECT_LT(machine.bytes().size(), std::size_t{1} << 20);
}

TEST(GrammarTables, ExamplesLeaveFewTokensToTheStack) {
  int read = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(LLMC_SOURCE_DIR "/docs/examples/grammars")) {
    SCOPED_TRACE(entry.path().string());
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const bool gbnf = entry.path().extension() == ".gbnf";
    const Machine machine(gbnf ? parsed(text) : parsed_schema(text), words_and_signs());
    EXPECT_LE(machine.facts().max_dependents, 200u);  // of 1500
    ++read;
  }
  EXPECT_GE(read, 4);
}

TEST(GrammarTables, RulesThatBeginWithRulesGrowWithTheSquare) {
  // Frame lists share their tails: twice the rules have 4 times the entries, not 8 times.
  const auto frames = [](int count) {
    const Machine machine(parsed(nested_rules(count)), vocabulary_with({}));
    llmc_grammar_header header;
    std::memcpy(&header, machine.bytes().data(), sizeof header);
    return static_cast<double>(header.frames);
  };
  const double few = frames(100), many = frames(200);
  EXPECT_GT(few, 100 * 100 * 0.4);
  EXPECT_LT(few, 100 * 100 * 0.6);
  EXPECT_LT(many / few, 4.5);
}

/// Returns by how many KiB a child process grows while it runs f(); -1 if it fails.
template <class F>
long growth_of(F f) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const pid_t child = fork();
  const auto resident = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  if (child == 0) {
    const long before = resident();
    f();
    const long grown = resident() - before;
    _exit(write(ends[1], &grown, sizeof grown) == sizeof grown ? 0 : 1);
  }
  close(ends[1]);
  long grown = -1;
  if (child < 0 || read(ends[0], &grown, sizeof grown) != sizeof grown) grown = -1;
  close(ends[0]);
  int status = 1;
  if (child > 0) waitpid(child, &status, 0);
  return status == 0 ? grown : -1;
}

TEST(GrammarTables, RulesThatBeginWithRulesNeedLittleMemory) {
  if (tests::kAddressSanitizer) GTEST_SKIP() << "the sanitizer's own memory counts, too";
  const Grammar grammar = parsed(nested_rules(600));
  const Vocabulary vocabulary = vocabulary_with({});
  bool built = false;
  const long grown = growth_of([&] {
    built = build_tables(grammar, vocabulary).ok();
    if (!built) _exit(2);
  });
  EXPECT_GE(grown, 0);
  EXPECT_LT(grown, 64 << 10);  // with cubic growth of the lists it took 590 MiB
}

TEST(GrammarTables, WhatNeedsTooMuchMemoryIsRefusedByTheRulesName) {
  const auto refused = [](const std::string& gbnf) {
    const auto tables = build_tables(parsed(gbnf), vocabulary_with({}));
    if (tables.ok()) return std::string("no error");
    EXPECT_TRUE(tables.failure().unsupported);
    return tables.failure().message;
  };
  EXPECT_THAT(refused(nested_rules(1100)),
              ::testing::ContainsRegex("rule 'r[0-9]+' starts with more than 1024 nested rules"));
  // Two paths to each next rule: their number doubles with every rule.
  std::string doubling = "root ::= a1 \"x\" | \"(\" root \")\"\n";
  for (int i = 1; i < 40; ++i) {
    const std::string a = "a" + std::to_string(i), b = "b" + std::to_string(i);
    const std::string c = "a" + std::to_string(i + 1);
    doubling += a + " ::= " + c + " \"u\" | " + b + " \"v\"\n";
    doubling += b + " ::= " + c + " \"y\" | \"(\" root \")\"\n";
  }
  EXPECT_THAT(refused(doubling + "a40 ::= \"(\" root \")\" | \"0\""),
              ::testing::ContainsRegex("rule '[ab][0-9]+' makes the automaton exceed"));
  EXPECT_THAT(refused("root ::= \"x\" slow\nslow ::= [ab]* \"a\" [ab]{24}"),
              ::testing::HasSubstr("rule 'root' needs more than"));
}

TEST(GrammarTables, MasksMustFit) {
  Machine machine(parsed("root ::= \"a\""), vocabulary_with({}));
  Copy copy(machine.bytes());
  ASSERT_EQ(copy.init(), LLMC_OK);
  std::uint32_t words[9];
  EXPECT_EQ(llmc_grammar_allow(copy.grammar(), words, 8), LLMC_ERROR_ARGUMENT);
  words[8] = 7;
  EXPECT_EQ(llmc_grammar_allow(copy.grammar(), words, 9), LLMC_OK);
  EXPECT_EQ(words[8], 0u);
  EXPECT_EQ(words['a' / 32], 1u << 'a' % 32);
  EXPECT_EQ(llmc_grammar_accept(copy.grammar(), -1), LLMC_ERROR_GRAMMAR);
  EXPECT_EQ(llmc_grammar_accept(copy.grammar(), 1 << 30), LLMC_ERROR_GRAMMAR);
  EXPECT_EQ(llmc_grammar_accept(nullptr, 0), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(llmc_grammar_restart(nullptr), LLMC_ERROR_ARGUMENT);
}

}  // namespace
}  // namespace llmc::hosted::grammar::testing
