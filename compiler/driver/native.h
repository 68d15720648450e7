#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compiler/driver/compile.h"
#include "compiler/driver/progress.h"
#include "compiler/support/result.h"
#include "llmc/llmc.h"
#include "runtime/hosted/model_library.h"

/// Compiled code inside this process: what `run`, `verify`, `bench` and `ppl` execute.
namespace llmc::driver {

struct NativeOptions {
  CompileOptions compile;  // out_dir is not used; model may also be a bundle's folder
  bool use_cache = true;   // false: compile into a temporary folder that goes away on unload
  std::uint64_t cache_limit_bytes = std::uint64_t{8} << 30;  // oldest entries go beyond it
};

/// A shared library made from a bundle's archive, loaded. Holds the file while it lives.
class NativeModel {
 public:
  virtual ~NativeModel() = default;

  virtual const std::string& name() const = 0;
  virtual const std::filesystem::path& bundle() const = 0;  // folder with NAME.h, NAME.plan.json, …
  virtual const llmc_model& model() const = 0;              // sizes and limits
  virtual bool from_cache() const = 0;

  /// A session with `threads` workers (1 ..= threads_max) over an arena of its own. Fails with
  /// kBadInput when the library was compiled for fewer workers, kUnsupported when this CPU lacks
  /// the target's features.
  class Session {
   public:
    virtual ~Session() = default;
    /// Runs `tokens` after what the session holds; the next call's logits are of the last one.
    virtual Status prefill(std::span<const std::int32_t> tokens) = 0;
    virtual std::span<const float> logits() const = 0;
    /// Keeps the first `tokens` tokens.
    virtual Status rewind(std::uint32_t tokens) = 0;
    virtual std::uint32_t position() const = 0;
    virtual llmc_session* handle() = 0;  // for the functions of api()
    /// The functions of llmc/llmc.h as the loaded library has them.
    virtual const hosted::LibraryApi& api() const = 0;
  };
  virtual Result<std::unique_ptr<Session>> start(std::uint32_t threads) const = 0;
};

/// Compiles `options.compile.model` for its target unless the cache holds it (key: contents of the
/// model, options, version of llmc and of its templates), links and loads it. A folder that is a
/// bundle (has NAME.plan.json) is linked and loaded as it is.
Result<std::unique_ptr<NativeModel>> load_native(const NativeOptions& options,
                                                 const Progress& progress = {});

/// $XDG_CACHE_HOME/llmc, or ~/.cache/llmc; empty when neither variable is set.
std::filesystem::path cache_folder();

}  // namespace llmc::driver
