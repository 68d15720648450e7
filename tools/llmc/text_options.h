#pragma once

#include <string>

#include "compiler/evaluate/perplexity.h"
#include "tools/llmc/options.h"

/// The text that `ppl` and `compare` measure a model on.
namespace llmc::cli {

struct TextOptions {
  std::string file, ids, counted = "half";
  std::uint32_t size = 0, stride = 0, chunks = 0;  // 0: the defaults of evaluate::WindowOptions
  bool no_bos = false;
  CLI::Option *file_option = nullptr, *ids_option = nullptr;
};

/// Adds --text, --ids and the options that say how they are cut into windows.
void add_text_options(CLI::App& app, TextOptions& options);

/// The text as the driver takes it, with the tokenizer of `model`. kUsage when there is none.
Result<evaluate::MeasuredText> measured_text(const TextOptions& options, const std::string& model);

/// Lets windows be as long as the context that was given, unless --window says otherwise, and makes
/// room for windows longer than the default context. Warns about windows longer than the context
/// that the model was trained for. A bundle's context stays as it is. `steps`: tokens that are
/// generated after half a window.
Status fit_context(const ModelOptions& model, std::uint32_t steps, evaluate::WindowOptions& windows,
                   driver::CompileOptions& compile, const Globals& globals);

/// "windows of 512 tokens, their second halves counted": how a report was made.
std::string windows_text(const TextOptions& options, const evaluate::PerplexityReport& report,
                         std::int32_t bos);

/// What the results of both commands begin with in JSON.
Json windows_json(const TextOptions& options, const evaluate::PerplexityReport& report,
                  std::int32_t bos);

/// {"value": …, "standard_error": …}
Json to_json(const evaluate::Estimate& estimate);
Json to_json(const evaluate::Divergence& divergence);

}  // namespace llmc::cli
