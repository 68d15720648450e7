#pragma once

#include "compiler/exec/ranks.h"

/// The command line of llmc, also for llmc-mpi-run.
namespace llmc::cli {

/// Runs a command and returns the exit code of the program. `ranks`: those of a model in several
/// processes; then only commands that run models are known, MODEL is the folder of its shards, and
/// all ranks make this call with the same arguments. nullptr: all commands.
int run_program(int argc, char** argv, exec::Ranks* ranks = nullptr);

}  // namespace llmc::cli
