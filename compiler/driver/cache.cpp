#include "compiler/driver/cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "compiler/driver/budget.h"
#include "compiler/driver/calibration.h"
#include "compiler/driver/chat_files.h"
#include "compiler/driver/dims.h"
#include "compiler/driver/resources.h"
#include "compiler/driver/tokenizer_file.h"
#include "compiler/driver/toolchain.h"
#include "compiler/driver/trained_context.h"
#include "compiler/emit/names.h"
#include "compiler/emit/source.h"
#include "compiler/support/atomic_output.h"
#include "compiler/support/folder_lock.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/remove_tree.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;

/// Returns the size and the modification time of a program's file. They are part of cache keys, so
/// that replacing the program invalidates the cache.
std::string program_identity(const fs::path& program) {
  struct stat info{};
  if (::stat(program.c_str(), &info) != 0) return {};
  return fmt::format("{}.{}.{}", info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

/// Returns a hash of the files that define a model's tokens and stop tokens. The importer does not
/// list these files, so content_hash() does not cover them.
Result<std::string> vocabulary_files(const fs::path& model) {
  LLMC_TRY(const hosted::ChatDescription chat, read_chat_files(model));
  std::string text = hosted::to_json(chat);
  if (const fs::path file = find_tokenizer(model); !file.empty()) {
    std::vector<fs::path> files = hosted::Tokenizer::sibling_files(file);
    files.insert(files.begin(), file);
    std::error_code unknown;
    for (const fs::path& part : files) {
      text += ' ';
      if (part != file && !fs::exists(part, unknown)) continue;
      LLMC_TRY(const auto content, MappedFile::open(part));
      const auto bytes = content->bytes();
      text += fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
    }
  }
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

std::uint64_t folder_bytes(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (it->is_regular_file(ignored)) bytes += it->file_size(ignored);
  }
  return bytes;
}

}  // namespace

bool is_cacheable(const CompileOptions& options) {
  return std::ranges::all_of(options.cflags, [](const std::string& flag) {
    const auto starts_flag = [&](std::string_view start) { return flag.starts_with(start); };
    // Flags that these pass on may name files, and "=native" depends on the CPU.
    constexpr std::string_view kPassedOn[] = {"-Wp,", "-Wa,", "-Wl,"};
    if (std::ranges::any_of(kPassedOn, starts_flag) || flag.ends_with("=native")) return false;
    constexpr std::string_view kNameNoFile[] = {"-O", "-D", "-m", "-W"};
    return std::ranges::any_of(kNameNoFile, starts_flag);
  });
}

Result<std::string> cache_key(const importer::ImportedModel& model, const CompileOptions& options) {
  LLMC_CHECK(is_cacheable(options));
  LLMC_TRY(const Toolchain toolchain, find_toolchain(options.cc));
  LLMC_TRY(const std::string content, importer::content_hash(model));
  LLMC_TRY(const std::uint32_t trained, trained_context(model.path));
  plan::PlanOptions planned;
  planned.ctx = options.ctx;
  planned.ctx_given = options.ctx_given;
  planned.trained_ctx = trained;
  planned.ctx_needed = options.ctx_needed;
  const std::uint32_t ctx = plan::context_of(planned);
  std::string text = fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", emit::kCompilerVersion,
      own_identity(), content, options.target, options.opt_level, passes::quant_name(options.quant),
      ctx, options.ctx_given, trained, options.block, options.chunk, plan::to_string(options.kv),
      options.threads_max, options.sequences, options.batch, options.pool, options.contiguous,
      program_identity(toolchain.compiler), resources_hash());
  LLMC_TRY(const std::string vocabulary, vocabulary_files(model.path));
  text += fmt::format(" {} {} {} {} {} {} {}", vocabulary, options.source_max, options.sources,
                      options.in_flight, options.shard.index, options.shard.count,
                      options.shard.by_memory);
  // Strings are hashed with their lengths, so that different lists cannot have the same input to
  // the hash.
  std::vector<std::string> words = options.cflags;
  if (const auto& prompt = options.system_prompt)
    words.insert(words.end(), {prompt->text, fmt::format("{}", fmt::join(prompt->ids, ","))});
  words.insert(words.end(),
               {dim_flags(options.dims), options.accelerate, calibration_key(options),
                options.requantize ? "requantize" : "", options.budget ? budget_key(options) : ""});
  words.insert(words.end(), {options.name, emit::derive_name(model.path), toolchain.compiler});
  // A calibration text that the model generates begins with the BOS token.
  LLMC_TRY(const std::int32_t bos, read_bos_id(model.path, INT32_MAX));
  words.push_back(fmt::format("{}", bos));
  for (const std::string& word : words) text += fmt::format(" {}:{}", word.size(), word);
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

fs::path cache_folder() {
  const auto absolute = [](const char* variable) {
    const char* value = std::getenv(variable);
    return value != nullptr && value[0] == '/' ? fs::path(value) : fs::path();
  };
  if (const fs::path base = absolute("XDG_CACHE_HOME"); !base.empty()) return base / "llmc";
  if (const fs::path home = absolute("HOME"); !home.empty()) return home / ".cache" / "llmc";
  return {};
}

std::string own_identity() {
  return program_identity("/proc/self/exe");
}

void touch_entry(const fs::path& entry) {
  std::error_code ignored;
  fs::last_write_time(entry, fs::file_time_type::clock::now(), ignored);
}

void trim_cache(const fs::path& folder, std::uint64_t limit_bytes, const fs::path& keep) {
  struct Entry {
    fs::path path;
    fs::file_time_type used;
    std::uint64_t bytes;
  };
  remove_stale_directories(folder);
  std::vector<Entry> entries;
  std::uint64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.empty() || name.front() == '.') continue;  // hidden: another process is creating it
    std::error_code ignored;
    entries.push_back({it->path(), it->last_write_time(ignored), folder_bytes(it->path())});
    total += entries.back().bytes;
  }
  std::ranges::sort(entries, {}, &Entry::used);
  for (const Entry& entry : entries) {
    if (total <= limit_bytes) return;
    if (entry.path == keep) continue;
    const auto unused = FolderLock::take(entry.path, FolderLock::Kind::kExclusive);
    if (unused && remove_tree(entry.path)) total -= entry.bytes;
  }
}

}  // namespace llmc::driver
