#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/progress.h"
#include "compiler/exec/session.h"
#include "compiler/support/folder_lock.h"
#include "compiler/support/result.h"
#include "compiler/support/temporary_directory.h"

/// Executable compiled models for `run`, `verify`, `bench` and `ppl`, with one interface for shared
/// libraries in this process (native_library.h) and programs under an emulator (native_runner.h).
namespace llmc::exec {

struct NativeOptions {
  driver::CompileOptions compile;  // out_dir and weights are unused; model may be a bundle
  bool use_cache = true;           // false: compile into a temporary folder, removed on unload
  std::uint64_t cache_limit_bytes = std::uint64_t{8} << 30;  // beyond it, remove oldest entries
  /// Command of an emulator, used for any target; empty: find_emulator chooses.
  std::string emulator = {};
};

/// Where a linked model is and what belongs to it.
struct LinkedModel {
  driver::BundleFacts facts;
  std::filesystem::path path;    // as the user gave it, for messages
  std::filesystem::path bundle;  // folder with NAME.h, NAME.plan.json, …
  std::filesystem::path binary;  // shared library or runner
  bool from_cache = false;
  /// Holds any of the above for as long as the model lives, when they are nobody else's.
  std::shared_ptr<const TemporaryDirectory> temporary;
  /// Keeps the cache's entry from being removed.
  std::shared_ptr<const FolderLock> in_use;

  std::filesystem::path weights_file() const { return bundle / (facts.name + ".weights.bin"); }
};

/// A compiled model, loaded or ready to start. Owns its temporary files.
class NativeModel {
 public:
  virtual ~NativeModel() = default;

  const std::string& name() const { return linked_.facts.name; }
  const std::filesystem::path& bundle() const { return linked_.bundle; }
  const ModelFacts& model() const { return facts_; }
  bool from_cache() const { return linked_.from_cache; }
  /// The emulator's command; empty when the code runs in this process.
  const std::string& emulator() const { return emulator_; }

  /// kUsage when the library was compiled for fewer threads, kUnsupported when the CPU lacks the
  /// target's features.
  Result<std::unique_ptr<Session>> start(const SessionOptions& options) const;
  Result<std::unique_ptr<Session>> start(std::uint32_t threads) const {
    return start(SessionOptions{.threads = threads});
  }

 protected:
  NativeModel(LinkedModel linked, const ModelFacts& facts, std::string emulator)
      : linked_(std::move(linked)), facts_(facts), emulator_(std::move(emulator)) {}
  const LinkedModel& linked() const { return linked_; }

 private:
  /// With a number of threads that was checked.
  virtual Result<SessionHandle> open(const SessionOptions& options) const = 0;

  const LinkedModel linked_;
  const ModelFacts facts_;
  const std::string emulator_;
};

/// Compiles `options.compile.model` for its target unless it is cached (key: contents of the model,
/// options, this llmc), links it and loads it or starts its runner. Bundles are only linked. Errors
/// of find_emulator if this machine cannot run the target.
Result<std::unique_ptr<NativeModel>> load_native(const NativeOptions& options,
                                                 const driver::Progress& progress = {});

}  // namespace llmc::exec
