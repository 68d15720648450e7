#pragma once

#include "tools/llmc/run_generation.h"

/// Beam search of `run`.
namespace llmc::cli {

/// Adds --beams, --length-penalty and --early-stopping. Excludes the options of `app` that choose
/// tokens in other ways, which must have been added.
void add_beam_options(CLI::App& app, BeamOptions& options);

/// With --beams, sets the sequences and the batch of a compilation to at least that number.
void make_room_for_beams(const BeamOptions& options, driver::CompileOptions& compile);

/// Searches the most likely continuations of `prompts.text` (llmc_beams_init). The result has the
/// best one, and all of them in `beams`. Fails with kUsage if a bundle has too few sequences per
/// step, and with kBadInput if the prompt does not fit the context.
Result<RunResult> search_beams(const RunCommand& command, const exec::NativeModel& native,
                               const RunPrompts& prompts, const hosted::Tokenizer* tokenizer,
                               const RunStops& stops, const RunOutput& output);

}  // namespace llmc::cli
