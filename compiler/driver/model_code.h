#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/driver/progress.h"
#include "compiler/driver/toolchain.h"
#include "compiler/plan/plan.h"
#include "compiler/support/result.h"

namespace llmc::driver {

/// The sources of a planned model and of the runtime in a folder of their own, as bundles have
/// them, and what clang makes of them.
class ModelCode {
 public:
  static constexpr const char* kObjects = "build";  // the folder of objects, in the other one

  /// `toolchain` and `plan` must outlive it. `cflags`: for the model's source.
  ModelCode(const Toolchain& toolchain, const plan::Plan& plan, std::filesystem::path folder,
            std::vector<std::string> cflags);

  /// NAME.h and src/. Then sources of the core, relative to the folder, are known.
  Status write(std::uint64_t weights_hash);
  const std::vector<std::string>& core_sources() const { return core_sources_; }
  /// Arguments after the compiler for the model's source.
  std::vector<std::string> arguments() const;
  /// The model's source beside the core's: one clang for each, at the same time. Returns the
  /// objects, relative to the folder, the model's first.
  Result<std::vector<std::string>> compile(const Progress& progress = {}) const;

  /// build/NAME_PART.o
  std::string object(std::string_view part) const;
  /// A file of the folder; folders on its way are made.
  Status write_file(const std::string& relative, std::string_view content) const;

 private:
  const Toolchain& toolchain_;
  const plan::Plan& plan_;
  const std::filesystem::path folder_;
  const std::vector<std::string> cflags_;
  std::vector<std::string> core_sources_;
};

}  // namespace llmc::driver
