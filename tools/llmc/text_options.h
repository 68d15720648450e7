#pragma once

#include <optional>
#include <string>

#include "compiler/evaluate/perplexity.h"
#include "tools/llmc/options.h"
#include "tools/llmc/source_options.h"

/// The text on which `ppl` and `compare` measure a model.
namespace llmc::cli {

struct TextOptions {
  std::optional<std::string> file, ids;  // one of them
  std::string counted = "half";
  std::uint32_t size = 0, stride = 0, chunks = 0;  // 0: the defaults of evaluate::WindowOptions
  bool no_bos = false;
  SourceOptions source;
};

/// Adds --text, --ids, --parse-special (which sets model.parse_special), and the options for
/// windows and for a source.
void add_text_options(CLI::App& app, TextOptions& options, ModelOptions& model);

/// Returns the text and the source as ids, tokenized with the tokenizer of `model`. Prints a note
/// about control tokens in the text that are read as plain text. Fails with kUsage if no text is
/// given, if ids are invalid, or if --parse-special applies to no text. Fails with kBadInput if the
/// text is empty. Also fails like load_tokenizer() and read_text().
Result<evaluate::MeasuredText> measured_text(const TextOptions& options, const ModelOptions& model,
                                             const Globals& globals);

/// Sets the window to a given --ctx, unless --window is given. Sets the context to at least the
/// window, except for bundles. Warns about windows longer than the trained context, unless the text
/// cannot be cut into such windows, which is an error later. `steps`: number of tokens that are
/// generated after half a window.
Status fit_context(const ModelOptions& model, std::uint32_t steps, evaluate::MeasuredText& text,
                   driver::CompileOptions& compile, const Globals& globals);

/// Returns a text about a report's windows, such as "5 windows of 512 tokens, the second half of
/// each counted: 1280 tokens".
std::string windows_text(const TextOptions& options, const evaluate::PerplexityReport& report,
                         std::int32_t bos);

/// Returns the first fields of both commands' results in JSON.
Json windows_json(const TextOptions& options, const evaluate::PerplexityReport& report,
                  std::int32_t bos);

/// Return JSON; for an estimate, {"value": …, "standard_error": …}.
Json to_json(const evaluate::Estimate& estimate);
Json to_json(const evaluate::Divergence& divergence);

}  // namespace llmc::cli
