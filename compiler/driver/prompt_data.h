#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/driver/toolchain.h"
#include "compiler/plan/plan.h"
#include "compiler/support/result.h"

namespace llmc::driver {

/// What a bundle that is being made has when its prompt is computed.
struct PromptJob {
  const Toolchain& toolchain;
  const plan::Plan& plan;        // with a prompt
  std::filesystem::path folder;  // the bundle's
  std::string archive;           // in it: with zeros for the prompt, embedded weights aside
  std::string weights;           // in it: NAME.weights.bin, or the object of embedded weights
  std::uint64_t weights_at = 0;  // where weights begin in that object
  std::uint64_t weights_hash = 0;
  std::vector<std::string> cflags = {};  // the user's; of another machine's only -O… counts here
};

/// Runs the prompt and gives its read-only data, plan.prompt.bytes bytes (plan::PromptPlan). It is
/// run by the bundle's own code where this machine can execute it, else by code compiled for this
/// machine: keys, values and the way they lie in blocks are the same on every target.
Result<std::string> prompt_data(const PromptJob& job);

}  // namespace llmc::driver
