#pragma once

#include "tools/llmc/grammar_options.h"
#include "tools/llmc/table.h"

namespace llmc::cli {

struct GrammarBench {
  std::uint32_t tokens = 128, threads = 1, cores = LLMC_CORES_OF_TARGET, repetitions = 5;
  TableFormat format = TableFormat::kText;
};

/// Implements `llmc bench --grammar`: prints the cost of a grammar per generation step and the
/// slowest steps. Returns the exit code.
Result<int> bench_grammar(const GrammarOptions& grammar, const ModelOptions& model,
                          const GrammarBench& options, const Globals& globals);

}  // namespace llmc::cli
