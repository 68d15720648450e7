#pragma once

#include "compiler/exec/ranks.h"

/// The command line of llmc, also for llmc-mpi-run.
namespace llmc::cli {

/// Runs a command and returns the exit code of the program. `ranks` connects the processes of
/// llmc-mpi-run, which all make this call with the same arguments. Then only commands that run
/// models exist, and MODEL is the folder of a model's shards. nullptr: llmc, with all commands.
int run_program(int argc, char** argv, exec::Ranks* ranks = nullptr);

}  // namespace llmc::cli
