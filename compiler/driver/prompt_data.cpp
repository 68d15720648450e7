#include "compiler/driver/prompt_data.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <vector>

#include "compiler/driver/library_status.h"
#include "compiler/driver/model_code.h"
#include "compiler/emit/weights.h"
#include "compiler/support/check.h"
#include "compiler/support/file.h"
#include "llmc/arena.h"
#include "runtime/hosted/mapped_weights.h"
#include "runtime/hosted/model_library.h"
#include "runtime/hosted/thread_pool.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;

/// Path of the library in the bundle's folder. It is in the folder of objects, which is deleted
/// when the bundle is complete.
constexpr const char* kLibrary = "build/prompt.so";
constexpr const char* kHostFolder = "build/host";

Diagnostic failed(llmc_status status, const std::string& message) {
  return failure(kind_of(status), "the system prompt was not computed: " + printable(message));
}

/// Copies the weights from the object that embeds them to `path`, a file that a library can map.
Status write_weights_file(const PromptJob& job, const fs::path& path) {
  const llmc_weights_header header = emit::weights_header(job.plan.weights_bytes, job.weights_hash);
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(&header), sizeof header);
  errno = 0;
  LLMC_RETURN_IF_ERROR(copy_bytes(job.folder / job.weights, job.weights_at, header.bytes, out));
  out.close();
  if (!out) return system_error(path, "write", errno);
  return ok_status();
}

/// Converts a saved state (llmc/model.h) to cache blocks followed by the row of the last token.
std::string blocks_of(const std::vector<unsigned char>& state, const llmc_model& model,
                      const plan::Plan& plan) {
  const plan::PromptPlan& prompt = plan.prompt;
  llmc_state_header header;
  std::memcpy(&header, state.data(), sizeof header);
  LLMC_CHECK(header.tokens == prompt.tokens && header.has_row == 1);
  LLMC_CHECK(model.kv_block == plan.kv.block && model.kv_block_bytes == plan.kv.block_bytes);
  const llmc_state_layout at = llmc_state_layout_of(&model, prompt.tokens, 1, 0);
  // Aligned like the cache's blocks. Slots after the last token are zero.
  struct alignas(LLMC_ALIGNMENT) Line {
    unsigned char bytes[LLMC_ALIGNMENT];
  };
  std::vector<Line> lines(prompt.bytes / sizeof(Line), Line{});
  auto* const data = reinterpret_cast<unsigned char*>(lines.data());
  for (std::uint32_t first = 0; first < prompt.tokens; first += model.kv_block) {
    unsigned char* const block = data + first / model.kv_block * model.kv_block_bytes;
    const std::uint32_t count = std::min(model.kv_block, prompt.tokens - first);
    std::memcpy(block, plan.options.prompt.data() + first, count * sizeof(std::int32_t));
    model.kv_load(block, 0, count, state.data() + at.kv + first * model.kv_token_bytes);
  }
  std::memcpy(data + prompt.blocks_bytes, state.data() + at.row,
              std::uint64_t{model.hidden} * sizeof(float));
  return {reinterpret_cast<const char*>(data), prompt.bytes};
}

/// Runs the prompt in a library for the host. `weights` is empty if the library embeds the weights.
Result<std::string> run_prompt(const fs::path& library, const plan::Plan& plan,
                               const fs::path& weights) {
  const auto loaded = hosted::ModelLibrary::open(library, plan.options.name);
  if (!loaded.ok()) return failed(loaded.failure().status, loaded.failure().message);
  const hosted::ModelLibrary& model = **loaded;
  const std::uint32_t threads = std::min(hosted::usable_cores(), plan.options.threads_max);
  const auto pool = hosted::ThreadPool::create(threads);
  if (!pool.ok()) return failed(pool.failure().status, pool.failure().message);
  llmc_config config = {};
  config.size = sizeof config;
  config.threads = threads;
  config.parallel_for = hosted::ThreadPool::run;
  config.parallel_user = pool->get();
  config.begin = LLMC_BEGIN_EMPTY;  // do not use the compiled-in prompt, which is computed here
  std::optional<hosted::MappedWeights> mapped;
  if (!weights.empty()) {
    auto opened = hosted::MappedWeights::open(weights);
    if (!opened.ok()) return failed(opened.failure().status, opened.failure().message);
    mapped.emplace(*std::move(opened));
    config.weights = mapped->bytes().data();
    config.weights_bytes = mapped->bytes().size();
  }
  const auto session = model.start(config);
  if (!session.ok()) return failed(session.failure().status, session.failure().message);
  llmc_session* const handle = (*session)->handle();
  const hosted::LibraryApi& api = model.api();
  const std::vector<std::int32_t>& ids = plan.options.prompt;
  llmc_status status = api.prefill(handle, ids.data(), ids.size(), nullptr);
  std::vector<unsigned char> state(api.state_bytes(handle));
  if (status == LLMC_OK) status = api.state_save(handle, state.data(), state.size(), nullptr);
  if (status != LLMC_OK) {
    const std::string& detail = (*session)->last_message();
    return failed(status, detail.empty() ? api.status_text(status) : detail);
  }
  return blocks_of(state, model.model(), plan);
}

/// Compiles the same model for the host, without a prompt and with its weights in a file.
Status build_for_host(const PromptJob& job, const fs::path& library) {
  plan::Plan plan = job.plan;
  plan.options.target = &target::best_here();
  plan.options.embed_weights = false;
  plan.options.prompt.clear();
  plan.prompt = {};
  const fs::path folder = job.folder / kHostFolder;
  std::vector<std::string> cflags;
  std::ranges::copy_if(job.cflags, std::back_inserter(cflags),
                       [](const std::string& flag) { return flag.starts_with("-O"); });
  ModelCode code(job.toolchain, plan, folder, std::move(cflags));
  LLMC_RETURN_IF_ERROR(code.write(job.weights_hash));
  LLMC_TRY(const std::vector<std::string> objects, code.compile());
  const std::string archive = "lib" + plan.options.name + ".a";
  LLMC_RETURN_IF_ERROR(make_archive(job.toolchain, folder, archive, objects));
  return link_shared(job.toolchain, *plan.options.target, folder / archive, library);
}

}  // namespace

Result<std::string> prompt_data(const PromptJob& job) {
  const fs::path folder = fs::absolute(job.folder), library = folder / kLibrary;
  const bool embed = job.plan.options.embed_weights;
  const target::Target& target = *job.plan.options.target;
  fs::path weights = embed ? fs::path() : folder / job.weights;
  if (target::runs_here(target)) {
    LLMC_RETURN_IF_ERROR(link_shared(job.toolchain, target, folder / job.archive, library,
                                     embed ? folder / job.weights : fs::path()));
  } else {
    LLMC_RETURN_IF_ERROR(build_for_host(job, library));
    if (embed) {
      weights = folder / kHostFolder / "weights.bin";
      LLMC_RETURN_IF_ERROR(write_weights_file(job, weights));
    }
  }
  return run_prompt(library, job.plan, weights);
}

}  // namespace llmc::driver
