#include "compiler/exec/native.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <xxhash.h>

#include <functional>
#include <optional>
#include <string>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/cache.h"
#include "compiler/driver/cached_content.h"
#include "compiler/driver/library_status.h"
#include "compiler/driver/source.h"
#include "compiler/driver/toolchain.h"
#include "compiler/exec/emulator.h"
#include "compiler/exec/native_library.h"
#include "compiler/exec/native_runner.h"
#include "compiler/exec/runner_process.h"
#include "compiler/support/atomic_output.h"
#include "compiler/support/file.h"
#include "compiler/support/remove_tree.h"
#include "compiler/support/temporary_directory.h"
#include "compiler/target/target.h"

namespace llmc::exec {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibraryFile = "model.so";
constexpr const char* kModelRunnerFile = "runner";
constexpr const char* kBundleFolder = "bundle";
/// Maximum size in bytes of archives whose linked binary is cached; larger ones contain weights.
constexpr std::uintmax_t kMaxKeptArchive = std::uintmax_t{64} << 20;

fs::path archive_of(const fs::path& bundle, const std::string& name) {
  return fs::absolute(bundle / ("lib" + name + ".a"));
}

/// Links the archive in `bundle` to a shared library or a runner.
Status link_model(const std::string& cc, const target::Target& target, const std::string& name,
                  bool has_grammar, const fs::path& bundle, bool runner, const fs::path& binary) {
  LLMC_TRY(const driver::Toolchain toolchain, driver::find_toolchain(cc));
  const fs::path archive = archive_of(bundle, name);
  return runner ? link_model_runner(toolchain, target, archive, name, has_grammar, binary)
                : driver::link_shared(toolchain, target, archive, binary);
}

Result<std::unique_ptr<NativeModel>> load_linked(LinkedModel linked,
                                                 std::optional<Emulator> emulator,
                                                 const NativeOptions& options) {
  return emulator
             ? load_runner(std::move(linked), *std::move(emulator))
             : load_library(std::move(linked), options.huge_pages,
                            {.device = options.opencl_device, .copies = options.opencl_copies});
}

/// Checks --opencl-device for a model that was compiled for `device`.
Status check_opencl(const NativeOptions& options, const std::string& device, bool emulated) {
  if (options.opencl_device.empty() || (device == "opencl" && !emulated)) return ok_status();
  return usage_error("--opencl-device needs a model that was compiled for opencl and runs here",
                     "compile it with --accelerate opencl");
}

/// Returns the path of the file that records the size of a cached binary. Runners are checked by
/// size, because an emulator's error does not show whether the runner or the emulator is damaged.
fs::path size_file(const fs::path& binary) {
  return binary.string() + ".size";
}

Status note_size(const fs::path& binary) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(binary, error);
  if (error) return system_error(binary, "read", error.value());
  return write_file(size_file(binary), std::to_string(bytes));
}

/// Returns whether the binary is executable and has its recorded size.
bool has_recorded_size(const fs::path& binary) {
  std::error_code error;
  const fs::file_status status = fs::status(binary, error);
  if (!fs::is_regular_file(status) ||
      (status.permissions() & fs::perms::owner_exec) == fs::perms::none)
    return false;
  const auto noted = read_file(size_file(binary));
  const std::uintmax_t bytes = fs::file_size(binary, error);
  return noted.ok() && !error && *noted == std::to_string(bytes);
}

/// Returns the cache entry for the binary that is linked from an archive; empty if the binary is
/// not cached.
fs::path link_entry(const fs::path& archive, const target::Target& target,
                    const NativeOptions& options, const char* file) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(archive, error);
  if (!options.use_cache || error || bytes > kMaxKeptArchive) return {};
  const auto content = read_file(archive);
  if (!content.ok()) return {};
  const XXH128_hash_t hash = XXH3_128bits(content->data(), content->size());
  const std::string key = fmt::format("{} {} {} {:016x}{:016x}", driver::own_identity(),
                                      target.name, options.compile.cc, hash.high64, hash.low64);
  return driver::cache_file(key, file, file).parent_path();
}

using Make = std::function<Status(const fs::path& folder)>;

/// Creates a cache entry with the binary `file`: calls `make` and records the binary's size. Fails
/// with a hint if the cache cannot be written, and like `make`.
Status make_entry(const fs::path& entry, const char* file, const Make& make,
                  std::uint64_t cache_limit_bytes) {
  auto created = AtomicDirectory::create(entry, [](const fs::path&) { return ok_status(); });
  if (!created.ok()) {
    Diagnostic d = created.error().first();
    d.hint =
        "cannot write the cache: set XDG_CACHE_HOME to a writable folder; run, chat and identity "
        "do without with --no-cache";
    return d;
  }
  AtomicDirectory output = *std::move(created);
  LLMC_RETURN_IF_ERROR(make(output.path()));
  LLMC_RETURN_IF_ERROR(note_size(output.path() / file));
  LLMC_RETURN_IF_ERROR(output.commit());
  driver::trim_cache(entry.parent_path(), cache_limit_bytes, entry);
  return ok_status();
}

/// Creates the entry by link(folder), unless it exists, and returns its lock; nullopt if the entry
/// cannot be used.
std::optional<FolderLock> keep_linked(const fs::path& entry, const char* file, const Make& link,
                                      std::uint64_t cache_limit_bytes) {
  auto lock = FolderLock::take(entry, FolderLock::Kind::kShared);
  if (lock && has_recorded_size(entry / file)) {
    driver::touch_entry(entry);
    return lock;
  }
  lock.reset();
  remove_tree(entry);  // if the entry exists, it is damaged
  if (!make_entry(entry, file, link, cache_limit_bytes).ok()) return std::nullopt;
  return FolderLock::take(entry, FolderLock::Kind::kShared);
}

Result<std::unique_ptr<NativeModel>> load_bundle(const fs::path& folder,
                                                 const NativeOptions& options) {
  LLMC_TRY(driver::BundleFacts facts, driver::read_bundle(folder));
  if (facts.shards > 0 && options.ranks == nullptr)
    return usage_error(fmt::format("{} is shard {} of {} of a model", printable(folder.string()),
                                   facts.shard, facts.shards),
                       fmt::format("run all of them: mpirun -n {} llmc-mpi-run run {}",
                                   facts.shards, printable(folder.parent_path().string())));
  LLMC_TRY(const target::Target* const target, target::find(facts.target, facts.opt_level));
  LLMC_TRY(std::optional<Emulator> emulator, find_emulator(*target, options.emulator));
  LLMC_RETURN_IF_ERROR(check_opencl(options, facts.device, emulator.has_value()));
  const char* const file = emulator ? kModelRunnerFile : kLibraryFile;
  const auto link = [&](const fs::path& to) {
    return link_model(options.compile.cc, *target, facts.name, facts.grammar_bytes > 0, folder,
                      emulator.has_value(), to / file);
  };
  LinkedModel linked;
  linked.path = linked.bundle = folder;
  linked.facts = facts;
  const auto entry_now = [&] {
    return link_entry(archive_of(folder, facts.name), *target, options, file);
  };
  const fs::path entry = entry_now();
  if (!entry.empty()) {
    // If the bundle is replaced during linking, the entry would not belong to its archive.
    const auto link_entry_archive = [&](const fs::path& to) -> Status {
      LLMC_RETURN_IF_ERROR(link(to));
      if (entry_now() == entry) return ok_status();
      return failure(ErrorKind::kToolchain, "the archive was replaced while it was linked");
    };
    if (auto lock = keep_linked(entry, file, link_entry_archive, options.cache_limit_bytes)) {
      LinkedModel kept = linked;
      kept.binary = entry / file;
      kept.in_use = std::make_shared<const FolderLock>(*std::move(lock));
      auto loaded = load_linked(std::move(kept), emulator, options);
      // A failure of the emulator does not mean that the entry is damaged.
      if (loaded.ok() || loaded.error().first().kind == ErrorKind::kToolchain) return loaded;
      remove_tree(entry);
    }
  }
  LLMC_TRY(TemporaryDirectory temporary, TemporaryDirectory::create());
  LLMC_RETURN_IF_ERROR(link(temporary.path()));
  linked.binary = temporary.path() / file;
  // A library's file is not needed after loading. Its folder is removed at the end of this
  // function, so that the file does not remain if the process is killed later. A runner's file is
  // needed to start each session.
  if (emulator) linked.temporary = std::make_shared<TemporaryDirectory>(std::move(temporary));
  return load_linked(std::move(linked), std::move(emulator), options);
}

/// Writes the bundle to `folder`, and the shared library or the runner next to it.
Status build(driver::CompileOptions options, const fs::path& folder, bool runner,
             const driver::Progress& progress) {
  options.out_dir = folder / kBundleFolder;
  // The weights are mapped, so that the binary and the archive contain no copies of them.
  options.weights = driver::WeightsStorage::kFile;
  LLMC_TRY(const driver::Bundle bundle, driver::compile_model(options, progress));
  const plan::PlanOptions& made = bundle.plan.options;
  return link_model(options.cc, *made.target, bundle.name, made.grammar_bytes > 0, options.out_dir,
                    runner, folder / (runner ? kModelRunnerFile : kLibraryFile));
}

Result<LinkedModel> linked_entry(const fs::path& folder, const fs::path& path, bool runner) {
  LinkedModel linked;
  if (auto lock = FolderLock::take(folder, FolderLock::Kind::kShared))
    linked.in_use = std::make_shared<const FolderLock>(*std::move(lock));
  linked.path = path;
  linked.bundle = folder / kBundleFolder;
  linked.binary = folder / (runner ? kModelRunnerFile : kLibraryFile);
  LLMC_TRY(linked.facts, driver::read_bundle(linked.bundle));
  return linked;
}

}  // namespace

std::vector<std::uint64_t> NativeModel::image_bytes() const {
  std::vector<std::uint64_t> sizes;
  for (const driver::ImageInput& input : linked_.facts.image_inputs) sizes.push_back(input.bytes);
  return sizes;
}

Result<std::unique_ptr<Session>> NativeModel::start(const SessionOptions& options) const {
  if (options.threads == 0 || options.threads > facts_.threads_max) {
    return usage_error(fmt::format("{} threads requested, but the model was compiled for 1 to {}",
                                   options.threads, facts_.threads_max),
                       "use fewer, or compile with a larger --threads-max");
  }
  SessionOptions used = options;
  if (used.chunk == 0) used.chunk = chunk_;
  LLMC_TRY(SessionHandle handle, open(used));
  handle.image_bytes = image_bytes();
  if (ranks_ != nullptr)
    handle = make_distributed_session(std::move(handle), *ranks_, facts_, used.chunk);
  return std::make_unique<Session>(facts_, used, linked_.path, std::move(handle));
}

Status NativeModel::limit_chunk(std::uint32_t chunk) {
  if (chunk > facts_.chunk)
    return usage_error(
        fmt::format("--chunk {}: the model was compiled for at most {}", chunk, facts_.chunk),
        "use a smaller one, or compile with a larger --chunk");
  chunk_ = chunk;
  return ok_status();
}

Status NativeModel::join(Ranks& ranks) {
  if (!emulator_.empty())
    return file_failure(ErrorKind::kUnsupported, linked_.path.string(),
                        "the shard is for another processor",
                        "compile it with a --target of this machine");
  LLMC_RETURN_IF_ERROR(check_shards(ranks, facts_, linked_.facts.source_hash));
  ranks_ = &ranks;
  return ok_status();
}

bool keeps_compiled(const NativeOptions& options) {
  return options.use_cache && driver::is_cacheable(options.compile) &&
         !driver::cache_folder().empty();
}

Result<std::unique_ptr<NativeModel>> load_native(const NativeOptions& options,
                                                 const driver::Progress& progress) {
  const driver::CompileOptions& compile = options.compile;
  if (options.ranks != nullptr || driver::looks_like_bundle(compile.model)) {
    LLMC_TRY(auto model, load_bundle(compile.model, options));
    LLMC_RETURN_IF_ERROR(model->limit_chunk(compile.chunk));
    if (options.ranks != nullptr) LLMC_RETURN_IF_ERROR(model->join(*options.ranks));
    return model;
  }
  LLMC_TRY(const target::Target* const target, target::find(compile.target, compile.opt_level));
  LLMC_TRY(const std::optional<Emulator> emulator, find_emulator(*target, options.emulator));
  const bool runner = emulator.has_value();
  LLMC_RETURN_IF_ERROR(check_opencl(options, compile.accelerate, runner));

  if (!keeps_compiled(options)) {
    LLMC_TRY(TemporaryDirectory temporary, TemporaryDirectory::create());
    LLMC_RETURN_IF_ERROR(build(compile, temporary.path(), runner, progress));
    LLMC_TRY(LinkedModel linked, linked_entry(temporary.path(), compile.model, runner));
    linked.temporary = std::make_shared<TemporaryDirectory>(std::move(temporary));
    return load_linked(std::move(linked), emulator, options);
  }

  driver::report(progress, "import", 0, 0);
  std::string key;
  {
    LLMC_TRY(const importer::ImportedModel model,
             compile.reader.bind(compile.model, driver::import_options(compile)));
    LLMC_TRY(key, driver::cache_key(model, compile));
  }
  const fs::path cache = driver::cache_folder();
  const fs::path entry = cache / (runner ? key + "-runner" : key);
  std::error_code ignored;
  if (fs::exists(entry, ignored)) {
    auto linked = linked_entry(entry, compile.model, runner);
    if (linked.ok() && has_recorded_size(linked->binary)) {
      linked->from_cache = true;
      auto cached = load_linked(*std::move(linked), emulator, options);
      // A failure of the emulator does not mean that the entry is damaged.
      if (cached.ok() || cached.error().first().kind == ErrorKind::kToolchain) {
        driver::touch_entry(entry);
        return cached;
      }
    }
    remove_tree(entry);  // damaged, or being removed by another process
  }
  const auto make = [&](const fs::path& folder) {
    return build(compile, folder, runner, progress);
  };
  LLMC_RETURN_IF_ERROR(
      make_entry(entry, runner ? kModelRunnerFile : kLibraryFile, make, options.cache_limit_bytes));
  LLMC_TRY(LinkedModel linked, linked_entry(entry, compile.model, runner));
  return load_linked(std::move(linked), emulator, options);
}

}  // namespace llmc::exec
