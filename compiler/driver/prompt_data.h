#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/driver/toolchain.h"
#include "compiler/plan/plan.h"
#include "compiler/support/result.h"

namespace llmc::driver {

/// The parts of an unfinished bundle that are needed to compute its prompt.
struct PromptJob {
  const Toolchain& toolchain;
  const plan::Plan& plan;        // must have a prompt
  std::filesystem::path folder;  // the bundle's folder
  /// In `folder`: the library, without embedded weights and with zeros instead of the prompt.
  std::string archive;
  /// In `folder`: NAME.weights.bin, or the object that embeds the weights.
  std::string weights;
  std::uint64_t weights_at = 0;  // offset in bytes of the weights in that object
  std::uint64_t weights_hash = 0;
  /// The user's flags; only -O… applies to a build for the host.
  std::vector<std::string> cflags = {};
};

/// Computes the prompt and returns its read-only data, plan.prompt.bytes bytes (plan::PromptPlan).
/// Uses the bundle's own code if the host can execute it, else the same model compiled for the
/// host. The data is the same in both cases. Fails with kToolchain if the code cannot be built, and
/// like kind_of() (library_status.h) if it cannot be run.
Result<std::string> prompt_data(const PromptJob& job);

}  // namespace llmc::driver
