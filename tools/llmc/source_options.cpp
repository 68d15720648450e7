#include "tools/llmc/source_options.h"

#include "tools/llmc/options.h"

namespace llmc::cli {

void add_source_options(CLI::App& app, SourceOptions& options) {
  options.text_option =
      app.add_option("--source", options.text, "Text for the encoder of an encoder-decoder")
          ->type_name("TEXT");
  options.ids_option =
      app.add_option("--source-ids", options.ids, "Token ids for the encoder, such as 1,2,3")
          ->type_name("IDS")
          ->excludes(options.text_option);
}

Result<std::vector<std::int32_t>> source_tokens(const SourceOptions& options,
                                                const hosted::Tokenizer* tokenizer) {
  std::vector<std::int32_t> ids;
  if (!options.given()) return ids;
  if (options.ids_option->count() > 0) {
    LLMC_TRY(ids, parse_numbers(options.ids, "--source-ids"));
  } else if (tokenizer == nullptr) {
    return usage_error("--source needs a tokenizer", "give token ids with --source-ids");
  } else {
    ids = tokenizer->encode(options.text,
                            {.add_prefix = true, .parse_special = false, .add_suffix = true});
  }
  if (ids.empty()) return usage_error("the source is empty", "give a text with --source");
  return ids;
}

}  // namespace llmc::cli
