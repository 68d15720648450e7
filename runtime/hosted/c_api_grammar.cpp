// Implements llmc_grammar_compile of hosted.h. A separate source file, so that programs that do not
// call it do not link the code that builds grammars.
#include <cstdlib>
#include <cstring>

#include "runtime/hosted/grammar/gbnf.h"
#include "runtime/hosted/grammar/json_schema.h"
#include "runtime/hosted/grammar/model_vocabulary.h"
#include "runtime/hosted/grammar/table_builder.h"
#include "runtime/hosted/tokenizer_c_api.h"

using namespace llmc::hosted;

namespace {

Outcome<grammar::Tables> compile_grammar(const Tokenizer& tokenizer, llmc_grammar_kind kind,
                                         std::string_view text,
                                         const llmc_grammar_options& options) {
  auto parsed = kind == LLMC_GRAMMAR_GBNF
                    ? grammar::parse_gbnf(text, options.root == nullptr ? "root" : options.root)
                    : grammar::parse_json_schema(text);
  if (!parsed) return parsed.failure();
  ChatDescription chat;
  if (options.chat_path != nullptr) {
    auto loaded = load_chat_description(options.chat_path);
    if (!loaded) return loaded.failure();
    chat = *std::move(loaded);
  }
  grammar::TableLimits limits;
  if (options.max_bytes != 0) limits.bytes = options.max_bytes;
  if (options.max_steps != 0) limits.steps = options.max_steps;
  const std::size_t vocab = options.vocab != 0 ? options.vocab : tokenizer.size();
  return grammar::build_tables(*parsed, grammar::model_vocabulary(tokenizer, vocab, chat), limits);
}

}  // namespace

extern "C" {

llmc_status llmc_grammar_compile(const llmc_tokenizer* tokenizer, llmc_grammar_kind kind,
                                 const char* text, size_t bytes,
                                 const llmc_grammar_options* options, const void** tables,
                                 size_t* tables_bytes, char* message, size_t message_bytes) {
  copy_message("", message, message_bytes);
  if (tables == nullptr || tables_bytes == nullptr) return LLMC_ERROR_ARGUMENT;
  *tables = nullptr;
  *tables_bytes = 0;
  if (tokenizer == nullptr || (text == nullptr && bytes > 0) ||
      (kind != LLMC_GRAMMAR_GBNF && kind != LLMC_GRAMMAR_JSON_SCHEMA))
    return LLMC_ERROR_ARGUMENT;
  if (options != nullptr && options->size < sizeof *options) return LLMC_ERROR_VERSION;
  return guarded([&]() -> llmc_status {
    const auto made = compile_grammar(*tokenizer->tokenizer, kind, {text, bytes},
                                      options != nullptr ? *options : llmc_grammar_options{});
    if (!made) {
      const Failure& failure = made.failure();
      const std::string hint = failure.hint.empty() ? "" : " (" + failure.hint + ")";
      copy_message(failure.message + hint, message, message_bytes);
      return failure.status;
    }
    void* const copy = std::malloc(made->bytes.size());
    if (copy == nullptr) return LLMC_ERROR_MEMORY;
    *tables = std::memcpy(copy, made->bytes.data(), made->bytes.size());
    *tables_bytes = made->bytes.size();
    return LLMC_OK;
  });
}

void llmc_grammar_tables_free(const void* tables) {
  std::free(const_cast<void*>(tables));
}

}  // extern "C"
