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
  std::string
      archive;  // in `folder`: the library with zeros for the prompt and without embedded weights
  std::string weights;           // in `folder`: NAME.weights.bin, or the object of embedded weights
  std::uint64_t weights_at = 0;  // offset of the weights in that object
  std::uint64_t weights_hash = 0;
  std::vector<std::string> cflags = {};  // the user's; in a build for the host, only -O… applies
};

/// Runs the prompt and returns its read-only data, plan.prompt.bytes bytes (plan::PromptPlan). Uses
/// the bundle's own code if the host can execute it, else the same model compiled for the host.
/// Keys, values and their layout in blocks are identical on every target.
Result<std::string> prompt_data(const PromptJob& job);

}  // namespace llmc::driver
