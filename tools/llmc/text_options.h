#pragma once

#include <string>

#include "compiler/driver/perplexity.h"
#include "tools/llmc/options.h"

/// The text that `ppl` and `compare` measure a model on.
namespace llmc::cli {

struct TextOptions {
  std::string file, ids, counted = "half";
  std::uint32_t size = 0, stride = 0, chunks = 0;  // 0: the defaults of driver::WindowOptions
  bool no_bos = false;
  CLI::Option *file_option = nullptr, *ids_option = nullptr;
};

/// Adds --text, --ids and what says how they are cut: -c among them, which other commands have for
/// the context.
void add_text_options(CLI::App& app, TextOptions& options);

/// The text as the driver takes it, with the tokenizer of `model`. kUsage when there is none.
Result<driver::MeasuredText> measured_text(const TextOptions& options, const std::string& model);

/// Makes room for windows that are longer than the default context, unless --ctx says otherwise.
void fit_context(const driver::WindowOptions& windows, driver::CompileOptions& compile);

/// "windows of 512 tokens, their second halves counted": how a report was made.
std::string windows_text(const TextOptions& options, const driver::PerplexityReport& report,
                         std::int32_t bos);

/// What the results of both commands begin with in JSON.
Json windows_json(const TextOptions& options, const driver::PerplexityReport& report,
                  std::int32_t bos);

/// {"value": …, "standard_error": …}
Json to_json(const driver::Estimate& estimate);
Json to_json(const driver::Divergence& divergence);

}  // namespace llmc::cli
