#pragma once

#include "tools/llmc/run_generation.h"

/// Generation of one text for each of several sources, for `run`.
namespace llmc::cli {

/// Fails with kUsage if there are several sources and an option that applies to a single text.
Status check_sources(const RunCommand& command);

/// With several sources, sets the sources, sequences and batch of a compilation to at least their
/// number.
void make_room_for_sources(const SourceOptions& options, driver::CompileOptions& compile);

/// Generates after `prompts.text` for each source. Each step runs all unfinished texts in one
/// batch. Each text has the tokens and logits that generate() computes for its source alone.
/// `tokenizer` may be nullptr; then the results have ids but no text. Fails with kUsage if a bundle
/// has too few sources or sequences, and with kBadInput if the prompt does not fit the context.
Result<std::vector<RunResult>> generate_each(const RunCommand& command,
                                             const exec::NativeModel& native,
                                             const RunPrompts& prompts,
                                             const hosted::Tokenizer* tokenizer,
                                             const RunStops& stops);

}  // namespace llmc::cli
