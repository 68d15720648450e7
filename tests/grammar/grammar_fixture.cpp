#include "tests/grammar/grammar_fixture.h"

#include <map>

namespace llmc::hosted::grammar::testing {
namespace {

class Trial {
 public:
  Trial(const Grammar& grammar, std::string_view text) : grammar_(grammar), text_(text) {}

  /// Returns the possible ends of a match of `expr` that begins at `at`.
  std::set<std::size_t> ends(const Expr& expr, std::size_t at) {
    switch (expr.kind) {
      case ExprKind::kText:
        if (text_.substr(at).starts_with(expr.text)) return {at + expr.text.size()};
        return {};
      case ExprKind::kSet:
        return after_character(expr.set, at);
      case ExprKind::kRule: {
        const auto key = std::pair(expr.rule, at);
        if (const auto it = known_.find(key); it != known_.end()) return it->second;
        const auto found = ends(grammar_.rules[expr.rule].body, at);
        known_[key] = found;
        return found;
      }
      case ExprKind::kSequence: {
        std::set<std::size_t> here{at};
        for (const Expr& part : expr.parts) here = after(part, here);
        return here;
      }
      case ExprKind::kChoice: {
        std::set<std::size_t> all;
        for (const Expr& part : expr.parts) all.merge(ends(part, at));
        return all;
      }
      case ExprKind::kRepeat: {
        std::set<std::size_t> here{at}, all;
        for (std::uint32_t i = 0; i < expr.min_count; ++i) here = after(expr.parts[0], here);
        all = here;
        for (std::uint32_t i = expr.min_count; i < expr.max_count && !here.empty(); ++i) {
          std::set<std::size_t> fresh;
          for (const std::size_t end : after(expr.parts[0], here))
            if (all.insert(end).second) fresh.insert(end);
          here = fresh;
        }
        return all;
      }
    }
    return {};
  }

 private:
  std::set<std::size_t> after(const Expr& expr, const std::set<std::size_t>& from) {
    std::set<std::size_t> all;
    for (const std::size_t at : from) all.merge(ends(expr, at));
    return all;
  }
  std::set<std::size_t> after_character(const CodePointSet& set, std::size_t at) const {
    if (at >= text_.size()) return {};
    const auto lead = static_cast<unsigned char>(text_[at]);
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (at + length > text_.size() || (lead >= 0x80 && lead < 0xC2)) return {};
    std::uint32_t c = length == 1 ? lead : lead & (0xFFu >> (length + 1));
    for (std::size_t i = 1; i < length; ++i) {
      const auto byte = static_cast<unsigned char>(text_[at + i]);
      if ((byte & 0xC0) != 0x80) return {};
      c = c << 6 | (byte & 0x3Fu);
    }
    const std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < least[length]) return {};
    for (const CodePointRange& range : set)
      if (range.first <= c && c <= range.last) return {at + length};
    return {};
  }

  const Grammar& grammar_;
  const std::string_view text_;
  std::map<std::pair<std::uint32_t, std::size_t>, std::set<std::size_t>> known_;
};

}  // namespace

bool belongs(const Grammar& grammar, std::string_view text) {
  return Trial(grammar, text).ends(grammar.rules[grammar.root].body, 0).contains(text.size());
}

Grammar parsed(std::string_view gbnf) {
  auto grammar = parse_gbnf(gbnf);
  EXPECT_TRUE(grammar.ok()) << gbnf << "\n" << grammar.failure().message;
  return *std::move(grammar);
}

Grammar parsed_schema(std::string_view schema) {
  auto grammar = parse_json_schema(schema);
  EXPECT_TRUE(grammar.ok()) << schema << "\n" << grammar.failure().message;
  return *std::move(grammar);
}

Vocabulary vocabulary_with(std::vector<std::string> more) {
  Vocabulary vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
  for (std::string& token : more) vocabulary.tokens.push_back(std::move(token));
  vocabulary.tokens.emplace_back();
  vocabulary.tokens.emplace_back();
  vocabulary.stops.push_back(static_cast<std::uint32_t>(vocabulary.tokens.size() - 1));
  return vocabulary;
}

Machine::Machine(const Grammar& grammar, Vocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)) {
  auto tables = build_tables(grammar, vocabulary_);
  EXPECT_TRUE(tables.ok()) << tables.failure().message;
  tables_ = *std::move(tables);
  const llmc_status status = llmc_grammar_init(memory_, sizeof memory_, tables_.bytes.data(),
                                               tables_.bytes.size(), &grammar_);
  EXPECT_EQ(status, LLMC_OK);
}

void Machine::restart() {
  EXPECT_EQ(llmc_grammar_restart(grammar_), LLMC_OK);
}

llmc_status Machine::accept(std::uint32_t token) {
  return llmc_grammar_accept(grammar_, static_cast<std::int32_t>(token));
}

bool Machine::read(std::string_view text) {
  restart();
  for (const char c : text)
    if (accept(static_cast<unsigned char>(c)) != LLMC_OK) return false;
  return true;
}

std::vector<bool> Machine::allowed() {
  std::vector<std::uint32_t> mask((vocabulary_.tokens.size() + 31) / 32, 0xFFFFFFFFu);
  EXPECT_EQ(llmc_grammar_allow(grammar_, mask.data(), mask.size()), LLMC_OK);
  std::vector<bool> result(vocabulary_.tokens.size());
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = (mask[i / 32] >> i % 32 & 1) != 0;
  return result;
}

std::string Machine::generate(std::mt19937& random, std::size_t most) {
  restart();
  std::string text;
  for (std::size_t i = 0; i < most; ++i) {
    const std::vector<bool> may = allowed();
    std::vector<std::uint32_t> tokens;
    for (std::uint32_t token = 0; token < may.size(); ++token)
      if (may[token]) tokens.push_back(token);
    if (tokens.empty()) ADD_FAILURE() << "nothing is allowed after: " << text;
    if (tokens.empty()) return text;
    const std::uint32_t token =
        tokens[std::uniform_int_distribution<std::size_t>(0, tokens.size() - 1)(random)];
    const llmc_status status = accept(token);
    if (status == LLMC_ERROR_GRAMMAR_DEPTH) return text;
    EXPECT_EQ(status, LLMC_OK) << "token " << token << " after: " << text;
    if (token == end_token()) return text;
    text += vocabulary_.tokens[token];
  }
  return text;
}

std::vector<std::string> schema_texts(std::string_view schema,
                                      const std::vector<std::string>& texts) {
  const Grammar grammar = parsed_schema(schema);
  Machine machine(grammar, vocabulary_with({}));
  std::vector<std::string> found;
  for (const std::string& text : texts) {
    const bool fits = machine.matches(text);
    EXPECT_EQ(fits, belongs(grammar, text)) << schema << " with " << text;
    if (fits) found.push_back(text);
  }
  return found;
}

bool schema_matches(std::string_view schema, std::string_view text) {
  return !schema_texts(schema, {std::string(text)}).empty();
}

std::string schema_error(std::string_view schema, bool unsupported) {
  const auto grammar = parse_json_schema(schema);
  if (grammar.ok()) return "no error";
  EXPECT_EQ(grammar.failure().unsupported, unsupported);
  return grammar.failure().message;
}

}  // namespace llmc::hosted::grammar::testing
