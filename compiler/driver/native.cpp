#include "compiler/driver/native.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <optional>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/cache.h"
#include "compiler/driver/toolchain.h"
#include "compiler/support/atomic_output.h"
#include "compiler/support/file.h"
#include "compiler/support/remove_tree.h"
#include "compiler/support/temporary_directory.h"
#include "compiler/target/target.h"
#include "runtime/hosted/mapped_weights.h"
#include "runtime/hosted/thread_pool.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibraryFile = "model.so";
constexpr const char* kBundleFolder = "bundle";

ErrorKind kind_of(llmc_status status) {
  switch (status) {
    case LLMC_ERROR_CPU:
    case LLMC_ERROR_VERSION:
      return ErrorKind::kUnsupported;
    default:
      return ErrorKind::kBadInput;
  }
}

Diagnostic diagnostic(ErrorKind kind, const fs::path& file, std::string message,
                      std::string hint = {}) {
  return Diagnostic{.kind = kind,
                    .file = file.string(),
                    .node = {},
                    .op = {},
                    .message = std::move(message),
                    .hint = std::move(hint)};
}

class LoadedSession final : public NativeModel::Session {
 public:
  LoadedSession(std::unique_ptr<hosted::ThreadPool> pool,
                std::unique_ptr<hosted::LibrarySession> session, const llmc_model& model,
                fs::path path)
      : pool_(std::move(pool)),
        session_(std::move(session)),
        vocabulary_(model.vocab),
        context_(model.ctx),
        path_(std::move(path)) {}

  Status prefill(std::span<const std::int32_t> tokens) override {
    if (tokens.size() > context_ - position()) {
      return diagnostic(ErrorKind::kBadInput, path_,
                        fmt::format("{} tokens do not fit: the context has {}, of which {} are "
                                    "taken",
                                    tokens.size(), context_, position()),
                        "compile with a larger --ctx");
    }
    for (const std::int32_t token : tokens) {
      if (token >= 0 && static_cast<std::uint32_t>(token) < vocabulary_) continue;
      return diagnostic(
          ErrorKind::kBadInput, path_,
          fmt::format("token id {} is not below the vocabulary of {}", token, vocabulary_));
    }
    return check(api().prefill(handle(), tokens.data(), tokens.size(), nullptr));
  }
  std::span<const float> logits() const override {
    const float* logits = api().logits(session_->handle());
    return logits == nullptr ? std::span<const float>() : std::span(logits, vocabulary_);
  }
  Status rewind(std::uint32_t tokens) override { return check(api().rewind(handle(), tokens)); }
  std::uint32_t position() const override {
    return static_cast<std::uint32_t>(api().position(session_->handle()));
  }
  llmc_session* handle() override { return session_->handle(); }
  const hosted::LibraryApi& api() const override { return session_->api(); }

 private:
  Status check(llmc_status status) const {
    if (status == LLMC_OK) return ok_status();
    const std::string& detail = session_->last_message();
    return diagnostic(kind_of(status), path_,
                      detail.empty() ? api().status_text(status) : printable(detail),
                      status == LLMC_ERROR_CONTEXT_FULL ? "compile with a larger --ctx" : "");
  }

  std::unique_ptr<hosted::ThreadPool> pool_;  // outlives the session that calls it
  std::unique_ptr<hosted::LibrarySession> session_;
  std::uint32_t vocabulary_, context_;
  fs::path path_;
};

class LoadedModel final : public NativeModel {
 public:
  std::string name_;
  fs::path path_;  // as the user gave it, for messages
  fs::path bundle_, library_path_;
  bool from_cache_ = false;
  std::optional<TemporaryDirectory> temporary_;
  std::optional<hosted::MappedWeights> weights_;  // when they are in a file
  std::unique_ptr<hosted::ModelLibrary> library_;

  const std::string& name() const override { return name_; }
  const fs::path& bundle() const override { return bundle_; }
  const llmc_model& model() const override { return library_->model(); }
  bool from_cache() const override { return from_cache_; }

  Result<std::unique_ptr<Session>> start(const SessionOptions& options) const override {
    if (options.threads == 0 || options.threads > model().threads_max) {
      return diagnostic(ErrorKind::kUsage, {},
                        fmt::format("{} threads, and the model was compiled for 1 to {}",
                                    options.threads, model().threads_max),
                        "use fewer, or compile with a larger --threads-max");
    }
    auto pool = hosted::ThreadPool::create(options.threads);
    if (!pool.ok()) return diagnostic(ErrorKind::kBadInput, {}, pool.failure().message);
    llmc_config config = {};
    config.size = sizeof config;
    config.threads = options.threads;
    config.chunk = options.chunk;
    if (options.threads > 1) {
      config.parallel_for = hosted::ThreadPool::run;
      config.parallel_user = pool->get();
    }
    if (weights_) {
      config.weights = weights_->bytes().data();
      config.weights_bytes = weights_->bytes().size();
    }
    auto session = library_->start(config);
    if (!session.ok()) {
      return diagnostic(kind_of(session.failure().status), path_,
                        printable(session.failure().message));
    }
    return std::unique_ptr<Session>(
        std::make_unique<LoadedSession>(*std::move(pool), *std::move(session), model(), path_));
  }

  /// Maps the weights when they are in a file, and loads the library.
  Status load(bool embed_weights) {
    if (!embed_weights) {
      auto weights = hosted::MappedWeights::open(bundle_ / (name_ + ".weights.bin"));
      if (!weights.ok()) {
        return diagnostic(ErrorKind::kBadInput, path_,
                          "damaged bundle: " + printable(weights.failure().message),
                          "compile the model again");
      }
      weights_.emplace(*std::move(weights));
    }
    auto library = hosted::ModelLibrary::open(library_path_, name_);
    if (!library.ok()) {
      return diagnostic(kind_of(library.failure().status), {}, printable(library.failure().message),
                        "compile the model again");
    }
    library_ = *std::move(library);
    return ok_status();
  }
};

Status check_runs_here(std::string_view name, std::uint32_t opt_level) {
  LLMC_TRY(const target::Target* const target, target::find(name, opt_level));
  if (target::runs_here(*target)) return ok_status();
  std::string missing;
  for (const target::Feature feature : target::missing_here(*target)) {
    missing += fmt::format("{}{}", missing.empty() ? "" : ", ", target::to_string(feature));
  }
  return diagnostic(ErrorKind::kUnsupported, {},
                    fmt::format("this machine cannot run code for {}{}", target->name,
                                missing.empty() ? "" : ": its processor lacks " + missing),
                    "`llmc targets` lists what runs here; `llmc compile` works for all");
}

Result<std::unique_ptr<NativeModel>> load_bundle(const fs::path& folder,
                                                 const CompileOptions& options) {
  LLMC_TRY(const BundleFacts facts, read_bundle(folder));
  LLMC_RETURN_IF_ERROR(check_runs_here(facts.target, facts.opt_level));
  LLMC_TRY(const target::Target* const target, target::find(facts.target, facts.opt_level));
  LLMC_TRY(const Toolchain toolchain, find_toolchain(options.cc));
  LLMC_TRY(TemporaryDirectory temporary, TemporaryDirectory::create());
  auto model = std::make_unique<LoadedModel>();
  model->name_ = facts.name;
  model->path_ = folder;
  model->bundle_ = folder;
  model->library_path_ = temporary.path() / kLibraryFile;
  LLMC_RETURN_IF_ERROR(link_shared(toolchain, *target,
                                   fs::absolute(folder / ("lib" + facts.name + ".a")),
                                   model->library_path_));
  LLMC_RETURN_IF_ERROR(model->load(facts.embed_weights));  // the file goes, what is mapped stays
  return std::unique_ptr<NativeModel>(std::move(model));
}

/// Compiles into `folder`: the bundle, and the library beside it.
Status build(CompileOptions options, const fs::path& folder, const Progress& progress) {
  options.out_dir = folder / kBundleFolder;
  options.weights = WeightsPlace::kFile;  // mapped: not copied into two more files
  LLMC_TRY(const Bundle bundle, compile_model(options, progress));
  LLMC_TRY(const Toolchain toolchain, find_toolchain(options.cc));
  return link_shared(toolchain, *bundle.plan.options.target,
                     options.out_dir / ("lib" + bundle.name + ".a"), folder / kLibraryFile);
}

Result<std::unique_ptr<LoadedModel>> load_entry(const fs::path& folder, const fs::path& path) {
  auto model = std::make_unique<LoadedModel>();
  model->path_ = path;
  model->bundle_ = folder / kBundleFolder;
  LLMC_TRY(const BundleFacts facts, read_bundle(model->bundle_));
  model->name_ = facts.name;
  model->library_path_ = folder / kLibraryFile;
  LLMC_RETURN_IF_ERROR(model->load(facts.embed_weights));
  return model;
}

}  // namespace

Result<std::unique_ptr<NativeModel>> load_native(const NativeOptions& options,
                                                 const Progress& progress) {
  const CompileOptions& compile = options.compile;
  if (looks_like_bundle(compile.model)) return load_bundle(compile.model, compile);
  LLMC_RETURN_IF_ERROR(check_runs_here(compile.target, compile.opt_level));

  const fs::path cache = options.use_cache ? cache_folder() : fs::path();
  if (cache.empty()) {
    LLMC_TRY(TemporaryDirectory temporary, TemporaryDirectory::create());
    LLMC_RETURN_IF_ERROR(build(compile, temporary.path(), progress));
    LLMC_TRY(std::unique_ptr<LoadedModel> model, load_entry(temporary.path(), compile.model));
    model->temporary_.emplace(std::move(temporary));
    return std::unique_ptr<NativeModel>(std::move(model));
  }

  report(progress, "import", 0, 0);
  std::string key;
  {
    LLMC_TRY(const importer::ImportedModel model,
             importer::import_model(compile.model, compile.import));
    LLMC_TRY(key, cache_key(model, compile));
  }
  const fs::path entry = cache / key;
  std::error_code ignored;
  if (fs::exists(entry, ignored)) {
    if (auto cached = load_entry(entry, compile.model); cached.ok()) {
      touch_entry(entry);
      (*cached)->from_cache_ = true;
      return std::unique_ptr<NativeModel>(*std::move(cached));
    }
    remove_tree(entry);  // damaged, or being removed by another process
  }
  {
    auto created = AtomicDirectory::create(entry, [](const fs::path&) { return true; });
    if (!created.ok()) {
      Diagnostic d = created.error().first();
      d.hint =
          "the cache cannot be written: use --no-cache, or set XDG_CACHE_HOME to a folder that "
          "can";
      return d;
    }
    AtomicDirectory output = *std::move(created);
    LLMC_RETURN_IF_ERROR(build(compile, output.path(), progress));
    LLMC_RETURN_IF_ERROR(output.commit());
  }
  trim_cache(cache, options.cache_limit_bytes, entry);
  LLMC_TRY(std::unique_ptr<LoadedModel> model, load_entry(entry, compile.model));
  return std::unique_ptr<NativeModel>(std::move(model));
}

}  // namespace llmc::driver
