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

/// Writes the sources of a planned model and of the runtime to a folder with the layout of a
/// bundle, and compiles them.
class ModelCode {
 public:
  /// Folder of the objects, relative to the folder of the sources.
  static constexpr const char* kObjects = "build";

  /// `toolchain` and `plan` must outlive the object. `cflags` apply to the model's source.
  ModelCode(const Toolchain& toolchain, const plan::Plan& plan, std::filesystem::path folder,
            std::vector<std::string> cflags);

  /// Writes NAME.h, llmc/ and src/, and determines core_sources().
  Status write(std::uint64_t weights_hash);
  /// Returns the sources of the core, relative to the folder; valid after write().
  const std::vector<std::string>& core_sources() const { return core_sources_; }
  /// Returns the compiler arguments for the model's source.
  std::vector<std::string> arguments() const;
  /// Compiles the model's source and writes the objects of the core. In parallel with the model's
  /// source, compiles the core sources that have no core_object(). Returns the objects, relative to
  /// the folder; the model's object is the first. Fails with kToolchain, and if a file cannot be
  /// written.
  Result<std::vector<std::string>> compile(const Progress& progress = {}) const;

  /// Returns build/NAME_PART.o.
  std::string object(std::string_view part) const;
  /// Writes a file in the folder; creates missing parent folders.
  Status write_file(const std::string& relative, std::string_view content) const;

 private:
  const Toolchain& toolchain_;
  const plan::Plan& plan_;
  const std::filesystem::path folder_;
  const std::vector<std::string> cflags_;
  std::vector<std::string> core_sources_;
};

}  // namespace llmc::driver
