#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/progress.h"
#include "compiler/exec/huge_pages.h"
#include "compiler/exec/ranks.h"
#include "compiler/exec/session.h"
#include "compiler/support/folder_lock.h"
#include "compiler/support/result.h"
#include "compiler/support/temporary_directory.h"

/// Executable compiled models for `run`, `verify`, `bench` and `ppl`, with one interface for shared
/// libraries in this process (native_library.h) and programs under an emulator (native_runner.h).
namespace llmc::exec {

/// Options to compile and load a model.
struct NativeOptions {
  driver::CompileOptions compile;  // out_dir and weights are unused; model may be a bundle
  bool use_cache = true;           // false: compile into a temporary folder, removed on unload
  /// Size above which the cache removes its least recently used entries.
  std::uint64_t cache_limit_bytes = std::uint64_t{8} << 30;
  /// Command of an emulator, used for any target; empty: see find_emulator().
  std::string emulator = {};
  /// Has no effect on code that an emulator runs.
  HugePageOptions huge_pages = {};
  /// A part of the name of the OpenCL device that computes the regions of a model that was compiled
  /// for `opencl`; empty: any. With another model, or under an emulator, loading fails with kUsage.
  std::string opencl_device = {};
  bool opencl_copies = false;  // copy rows to and from the device even if it can share memory
  /// Connects the processes of all shards; compile.model is then the bundle of this rank's shard.
  /// nullptr: a whole model, or a model that is compiled as a shard (compile.shard) for
  /// Api::forward_hidden.
  Ranks* ranks = nullptr;
};

/// Returns whether load_native() keeps what it compiles with these options in the cache.
bool keeps_compiled(const NativeOptions& options);

/// The files of a linked model, and the objects that keep them in place.
struct LinkedModel {
  driver::BundleFacts facts;
  std::filesystem::path path;    // the path that the user passed, for messages
  std::filesystem::path bundle;  // folder with NAME.h, NAME.plan.json, …
  std::filesystem::path binary;  // shared library or runner
  bool from_cache = false;
  /// Owns the temporary files, if any, while the model is loaded.
  std::shared_ptr<const TemporaryDirectory> temporary;
  /// Prevents the removal of the model's cache entry.
  std::shared_ptr<const FolderLock> in_use;

  std::filesystem::path weights_file() const { return bundle / (facts.name + ".weights.bin"); }
  std::filesystem::path kernels_file() const {
    return bundle / (facts.name + std::string(driver::kKernelsSuffix));
  }
};

/// A compiled model that is loaded, or whose runner can be started. Owns its temporary files.
class NativeModel {
 public:
  virtual ~NativeModel() = default;

  const std::string& name() const { return linked_.facts.name; }
  const std::filesystem::path& bundle() const { return linked_.bundle; }
  const ModelFacts& model() const { return facts_; }
  const driver::BundleFacts& bundle_facts() const { return linked_.facts; }
  bool from_cache() const { return linked_.from_cache; }
  /// Returns the emulator's command; empty if the code runs in this process.
  const std::string& emulator() const { return emulator_; }
  /// Returns how huge pages are used; nothing under an emulator.
  const HugePageUse& huge_pages() const { return huge_pages_; }
  /// Sets the chunk size for sessions whose SessionOptions::chunk is 0. Fails with kUsage if the
  /// model was compiled for smaller chunks.
  Status limit_chunk(std::uint32_t chunk);
  /// Makes start() return sessions of the whole model. Call it on all ranks; `ranks` must outlive
  /// the model. Fails like check_shards(), and with kUnsupported under an emulator.
  Status join(Ranks& ranks);

  /// Starts a session. Fails with kUsage if the number of threads is 0 or more than the library was
  /// compiled for, and with kToolchain if a runner cannot be started. If the library or the
  /// accelerator reports an error, such as missing CPU features, fails with the kind that
  /// driver::kind_of() returns.
  Result<std::unique_ptr<Session>> start(const SessionOptions& options) const;
  Result<std::unique_ptr<Session>> start(std::uint32_t threads) const {
    return start(SessionOptions{.threads = threads});
  }

 protected:
  NativeModel(LinkedModel linked, const ModelFacts& facts, std::string emulator)
      : linked_(std::move(linked)), facts_(facts), emulator_(std::move(emulator)) {}
  const LinkedModel& linked() const { return linked_; }
  void set_huge_pages(HugePageUse use) { huge_pages_ = std::move(use); }
  /// Returns the sizes of the media encoder's inputs in bytes.
  std::vector<std::uint64_t> image_bytes() const;

 private:
  /// Starts a session; options.threads is already validated.
  virtual Result<SessionHandle> open(const SessionOptions& options) const = 0;

  const LinkedModel linked_;
  const ModelFacts facts_;
  const std::string emulator_;
  HugePageUse huge_pages_;
  std::uint32_t chunk_ = 0;
  Ranks* ranks_ = nullptr;
};

/// Compiles `options.compile.model` for its target, links it, and loads it or starts its runner. A
/// model that is in the cache is not compiled again (driver::cache_key()). A bundle is only linked;
/// its linked binary may be in the cache, too. Fails like compile_model() or read_bundle(), like
/// find_emulator() if this machine cannot run the target, and with kUsage for the bundle of a shard
/// without options.ranks.
Result<std::unique_ptr<NativeModel>> load_native(const NativeOptions& options,
                                                 const driver::Progress& progress = {});

}  // namespace llmc::exec
