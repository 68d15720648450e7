#include "compiler/driver/grammar_source.h"

#include <algorithm>

#include "compiler/driver/chat_files.h"
#include "compiler/grammar/gbnf.h"
#include "compiler/grammar/json_schema.h"
#include "runtime/hosted/chat/format.h"

namespace llmc::driver {

std::string_view kind_name(GrammarSource::Kind kind) {
  switch (kind) {
    case GrammarSource::Kind::kGbnf:
      return "gbnf";
    case GrammarSource::Kind::kJsonSchema:
      return "json-schema";
    case GrammarSource::Kind::kNone:
      break;
  }
  return {};
}

Result<grammar::Grammar> parse_grammar(const GrammarSource& source) {
  LLMC_CHECK(source.given());
  auto parsed = source.kind == GrammarSource::Kind::kGbnf ? grammar::parse_gbnf(source.text)
                                                          : grammar::parse_json_schema(source.text);
  if (!parsed.ok()) return std::move(parsed).error().in_file(source.file);
  return parsed;
}

grammar::Vocabulary vocabulary_of(const hosted::Tokenizer& tokenizer, std::uint64_t vocabulary,
                                  const hosted::ChatDescription& chat) {
  grammar::Vocabulary result;
  const std::uint64_t count = std::min<std::uint64_t>(tokenizer.size(), vocabulary);
  for (std::uint64_t id = 0; id < count; ++id)
    result.tokens.emplace_back(tokenizer.bytes_of(static_cast<std::int32_t>(id)));
  std::vector<std::int32_t> ids(tokenizer.stop_ids().begin(), tokenizer.stop_ids().end());
  // What bundles do not keep must not count, nor what cannot be used: whatever the way to a model's
  // vocabulary, it has to be the same.
  if (is_kept(chat)) {
    const auto format = hosted::ChatFormat::create(chat, tokenizer);
    if (format.ok()) ids.insert(ids.end(), format->stop_ids().begin(), format->stop_ids().end());
  }
  for (const std::int32_t id : ids) {
    if (id < 0 || static_cast<std::uint64_t>(id) >= count) continue;
    result.stops.push_back(static_cast<std::uint32_t>(id));
    result.tokens[static_cast<std::size_t>(id)].clear();  // what ends a text is no part of it
  }
  std::ranges::sort(result.stops);
  const auto twice = std::ranges::unique(result.stops);
  result.stops.erase(twice.begin(), twice.end());
  return result;
}

Result<grammar::Tables> grammar_tables(const GrammarSource& source,
                                       const hosted::Tokenizer* tokenizer, std::uint64_t vocabulary,
                                       const hosted::ChatDescription& chat) {
  LLMC_TRY(const grammar::Grammar grammar, parse_grammar(source));
  if (tokenizer == nullptr) {
    return file_failure(ErrorKind::kBadInput, source.file,
                        "a grammar needs the model's tokenizer, and there is none",
                        "put the model's tokenizer.txt, tokenizer.model or tokenizer.json "
                        "beside it");
  }
  auto tables = grammar::build_tables(grammar, vocabulary_of(*tokenizer, vocabulary, chat));
  if (!tables.ok()) return std::move(tables).error().in_file(source.file);
  return tables;
}

}  // namespace llmc::driver
