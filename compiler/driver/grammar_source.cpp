#include "compiler/driver/grammar_source.h"

#include "runtime/hosted/grammar/gbnf.h"
#include "runtime/hosted/grammar/json_schema.h"
#include "runtime/hosted/grammar/model_vocabulary.h"

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

namespace {

Diagnostic diagnostic_of(const hosted::Failure& failure, const std::string& file) {
  return {.kind = failure.unsupported ? ErrorKind::kUnsupported : ErrorKind::kBadInput,
          .file = file,
          .message = failure.message,
          .hint = failure.hint};
}

}  // namespace

Result<hosted::grammar::Grammar> parse_grammar(const GrammarSource& source) {
  LLMC_CHECK(source.given());
  auto parsed = source.kind == GrammarSource::Kind::kGbnf
                    ? hosted::grammar::parse_gbnf(source.text)
                    : hosted::grammar::parse_json_schema(source.text);
  if (!parsed) return diagnostic_of(parsed.failure(), source.file);
  return *std::move(parsed);
}

Result<hosted::grammar::Tables> grammar_tables(const GrammarSource& source,
                                               const hosted::Tokenizer* tokenizer,
                                               std::uint64_t vocabulary,
                                               const hosted::ChatDescription& chat) {
  LLMC_TRY(const hosted::grammar::Grammar grammar, parse_grammar(source));
  if (tokenizer == nullptr) {
    return file_failure(ErrorKind::kBadInput, source.file,
                        "a grammar needs the model's tokenizer, and there is none",
                        "put the model's tokenizer.txt, tokenizer.model or tokenizer.json "
                        "beside it");
  }
  auto tables = hosted::grammar::build_tables(
      grammar, hosted::grammar::model_vocabulary(*tokenizer, vocabulary, chat));
  if (!tables) return diagnostic_of(tables.failure(), source.file);
  return *std::move(tables);
}

}  // namespace llmc::driver
