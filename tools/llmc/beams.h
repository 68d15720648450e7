#pragma once

#include "tools/llmc/run_generation.h"

/// Beam search of `run`.
namespace llmc::cli {

/// Adds --beams, --length-penalty and --early-stopping. --beams excludes the options of `app` that
/// choose tokens in other ways; add those options first.
void add_beam_options(CLI::App& app, BeamOptions& options);

/// With --beams, sets the sequences and the batch of a compilation to at least that number.
void make_room_for_beams(const BeamOptions& options, driver::CompileOptions& compile);

/// Searches for the most likely continuations of `prompts.text` (llmc_beams_init). Returns the best
/// one, with all of them in RunResult::beams. Fails with kUsage if a bundle has too few sequences
/// per step or -n is 0, and with kBadInput if the prompt does not fit the context.
Result<RunResult> search_beams(const RunCommand& command, const exec::NativeModel& native,
                               const RunPrompts& prompts, const hosted::Tokenizer* tokenizer,
                               const RunStops& stops, const RunOutput& output);

}  // namespace llmc::cli
