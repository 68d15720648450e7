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
  CompileOptions compile;  // out_dir and weights are not used; model may also be a bundle's folder
  bool use_cache = true;   // false: compile into a temporary folder that goes away on unload
  std::uint64_t cache_limit_bytes = std::uint64_t{8} << 30;  // oldest entries go beyond it
};

struct SessionOptions {
  std::uint32_t threads = 1;
  std::uint32_t chunk = 0;  // tokens of a prompt run at once; 0: the model's
};

/// A shared library made from a bundle's archive, loaded. Holds the file while it lives.
class NativeModel {
 public:
  virtual ~NativeModel() = default;

  virtual const std::string& name() const = 0;
  virtual const std::filesystem::path& bundle() const = 0;  // folder with NAME.h, NAME.plan.json, …
  virtual const llmc_model& model() const = 0;              // sizes and limits
  virtual bool from_cache() const = 0;

  /// A sequence with workers and an arena of its own. The model must outlive it.
  class Session {
   public:
    virtual ~Session() = default;
    /// Runs `tokens` after what the session holds. kBadInput when the context is full or a token is
    /// outside the vocabulary.
    virtual Status prefill(std::span<const std::int32_t> tokens) = 0;
    /// After the last token; empty when nothing was run.
    virtual std::span<const float> logits() const = 0;
    /// Keeps the first `tokens` tokens.
    virtual Status rewind(std::uint32_t tokens) = 0;
    virtual std::uint32_t position() const = 0;
    virtual llmc_session* handle() = 0;  // for the functions of api()
    virtual const hosted::LibraryApi& api() const = 0;
  };
  /// kUsage when the library was compiled for fewer threads, kUnsupported when this CPU lacks
  /// the target's features.
  virtual Result<std::unique_ptr<Session>> start(const SessionOptions& options) const = 0;
  Result<std::unique_ptr<Session>> start(std::uint32_t threads) const {
    return start(SessionOptions{.threads = threads});
  }
};

/// Compiles `options.compile.model` for its target unless the cache holds it (key: contents of the
/// model, options, this llmc), links and loads it. A folder that is a bundle is linked and loaded
/// as it is. kUnsupported when this machine cannot run the target.
Result<std::unique_ptr<NativeModel>> load_native(const NativeOptions& options,
                                                 const Progress& progress = {});

/// $XDG_CACHE_HOME/llmc, or ~/.cache/llmc; empty when neither variable is set.
std::filesystem::path cache_folder();

}  // namespace llmc::driver
