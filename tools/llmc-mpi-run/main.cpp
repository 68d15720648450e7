// Runs the stages of a model (llmc compile --stages N) on N ranks of MPI: docs/distributed.md.
#include <fmt/format.h>
#include <mpi.h>
#include <xxhash.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "compiler/exec/native.h"
#include "llmc/hosted.h"
#include "tools/llmc-mpi-run/pipeline.h"

namespace llmc::mpi {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string folder, prompt;
  std::vector<std::int32_t> ids;
  std::uint32_t tokens = 128, threads = 1, chunk = 0, bench = 0;
  llmc_sampling sampling{};
  bool hash = false;
};

/// Prints what went wrong and ends all ranks.
[[noreturn]] void fail(const Error& error) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string text = fmt::format("rank {}: {}", rank, format(error.first()));
  std::fprintf(stderr, "%s\n", text.c_str());
  std::fflush(stderr);
  MPI_Abort(MPI_COMM_WORLD, static_cast<int>(error.first().kind));
  std::abort();
}

template <class T>
T value(Result<T> result) {
  if (!result.ok()) fail(result.error());
  return *std::move(result);
}
void check(Status status) {
  if (!status.ok()) fail(status.error());
}

struct Tokenizer {
  explicit Tokenizer(const fs::path& file) {
    char message[200] = "";
    if (llmc_tokenizer_load(file.c_str(), &tokenizer, message, sizeof message) != LLMC_OK)
      fail(Error(usage_error(fmt::format("{}: {}", file.string(), message),
                             "without a tokenizer, give token ids with --ids")));
  }
  ~Tokenizer() { llmc_tokenizer_free(tokenizer); }
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  std::vector<std::int32_t> encode(const std::string& text) const {
    std::vector<std::int32_t> ids(text.size() + 8);  // a token has at least a byte
    std::size_t count = 0;
    if (llmc_tokenizer_encode(tokenizer, text.data(), text.size(), LLMC_ENCODE_PREFIX, ids.data(),
                              ids.size(), &count) != LLMC_OK)
      fail(Error(usage_error("the prompt is not valid UTF-8", "")));
    ids.resize(count);
    return ids;
  }
  llmc_tokenizer* tokenizer = nullptr;
};

/// Writes the text of tokens as they come.
class Printer {
 public:
  explicit Printer(const Tokenizer* tokenizer) {
    if (tokenizer != nullptr && llmc_decoder_create(tokenizer->tokenizer, 0, &decoder_) != LLMC_OK)
      decoder_ = nullptr;
  }
  ~Printer() { llmc_decoder_free(decoder_); }
  Printer(const Printer&) = delete;
  Printer& operator=(const Printer&) = delete;

  void add(std::int32_t token) {
    const char* text = nullptr;
    std::size_t bytes = 0;
    if (decoder_ == nullptr) {
      std::printf("%d\n", token);
    } else if (llmc_decoder_add(decoder_, token, &text, &bytes) == LLMC_OK) {
      std::fwrite(text, 1, bytes, stdout);
    }
    std::fflush(stdout);
  }
  void end() {
    const char* text = nullptr;
    std::size_t bytes = 0;
    if (decoder_ != nullptr && llmc_decoder_finish(decoder_, &text, &bytes) == LLMC_OK) {
      std::fwrite(text, 1, bytes, stdout);
      std::printf("\n");
    }
    std::fflush(stdout);
  }

 private:
  llmc_decoder* decoder_ = nullptr;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Measures a prompt and generated tokens; rank 0 prints tokens per second.
void bench(Pipeline& pipeline, const Options& options, std::uint32_t vocabulary) {
  std::vector<std::int32_t> prompt(options.bench);
  for (std::size_t i = 0; i < prompt.size(); ++i)
    prompt[i] = static_cast<std::int32_t>((i * 7919 + 13) % vocabulary);
  for (int round = 0; round < 3; ++round) {
    check(pipeline.reset());
    MPI_Barrier(MPI_COMM_WORLD);
    auto start = std::chrono::steady_clock::now();
    check(pipeline.append(prompt));
    MPI_Barrier(MPI_COMM_WORLD);
    const double prompt_seconds = seconds_since(start);
    start = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < options.tokens; ++i) {
      const std::int32_t token = value(pipeline.sample());
      check(pipeline.append({&token, 1}));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double seconds = seconds_since(start);
    if (pipeline.rank() != 0) continue;
    std::printf("prompt %u tokens: %.2f tokens/s, generation %u: %.2f tokens/s\n", options.bench,
                options.bench / prompt_seconds, options.tokens, options.tokens / seconds);
    std::fflush(stdout);
  }
}

void run(const Options& options) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  exec::NativeOptions native;
  native.compile.model = fs::path(options.folder) / fmt::format("stage-{}", rank);
  std::error_code ignored;
  if (!fs::is_directory(native.compile.model, ignored)) {
    const bool has_stages = fs::is_directory(fs::path(options.folder) / "stage-0", ignored);
    fail(Error(usage_error(fmt::format("{} has no stage-{}", printable(options.folder), rank),
                           has_stages ? "as many ranks as stages: mpirun -n"
                                      : "make it with llmc compile --stages N")));
  }
  const auto model = value(exec::load_native(native));
  if (!model->emulator().empty())
    fail(Error(Diagnostic{.kind = ErrorKind::kUnsupported,
                          .file = native.compile.model.string(),
                          .message = "the stage is for another processor",
                          .hint = "compile it with a --target of this machine"}));
  auto session = value(model->start({.threads = options.threads, .chunk = options.chunk}));
  Pipeline pipeline(*session, model->model(), options.chunk, rank, ranks);
  check(pipeline.check_stages());
  check(session->call(&exec::Api::set_sampling, &options.sampling));
  if (options.bench > 0) return bench(pipeline, options, model->model().vocab);

  std::unique_ptr<Tokenizer> tokenizer;
  const std::string& file = model->bundle_facts().tokenizer_file;
  if (!file.empty()) tokenizer = std::make_unique<Tokenizer>(model->bundle() / file);
  std::vector<std::int32_t> prompt = options.ids;
  if (prompt.empty()) {
    if (!tokenizer)
      fail(Error(usage_error("the model has no tokenizer", "give token ids with --ids")));
    prompt = tokenizer->encode(options.prompt);
  }
  check(pipeline.append(prompt));
  Printer printer(tokenizer.get());
  XXH64_state_t* const hash = XXH64_createState();
  XXH64_reset(hash, 0);
  for (std::uint32_t i = 0;; ++i) {
    if (options.hash && pipeline.is_last()) {
      const auto logits = value(session->logits());
      XXH64_update(hash, logits.data(), logits.size_bytes());
    }
    if (i == options.tokens) break;
    const std::int32_t token = value(pipeline.sample());
    const bool stops = tokenizer && llmc_tokenizer_is_stop(tokenizer->tokenizer, token) != 0;
    if (pipeline.decide(stops)) break;
    if (rank == 0) printer.add(token);
    if (i + 1 == options.tokens || session->position() == model->model().ctx) break;
    check(pipeline.append({&token, 1}));
  }
  if (rank == 0) printer.end();
  MPI_Barrier(MPI_COMM_WORLD);  // the text comes first
  if (options.hash && pipeline.is_last())
    std::fprintf(stderr, "hash of the logits: %016llx\n",
                 static_cast<unsigned long long>(XXH64_digest(hash)));
  XXH64_freeState(hash);
}

int main(int count, char** arguments) {
  Options options;
  llmc_sampling_defaults(&options.sampling);
  options.sampling.temperature = 0;
  CLI::App app("Runs a model in stages, one on each rank of MPI: mpirun -n 2 llmc-mpi-run FOLDER",
               "llmc-mpi-run");
  app.add_option("FOLDER", options.folder,
                 "Folder of stage-0, stage-1, … (llmc compile --stages N)")
      ->required();
  auto* const prompt = app.add_option("-p,--prompt", options.prompt, "Text to continue");
  auto* const ids = app.add_option("--ids", options.ids, "Token ids in place of a text")
                        ->delimiter(',')
                        ->excludes(prompt);
  app.add_option("-n,--n-predict", options.tokens, "Tokens to generate (default: 128)");
  app.add_option("-t,--threads", options.threads, "Threads of each rank (default: 1)")
      ->check(CLI::Range(1, 256));
  app.add_option("--chunk", options.chunk, "Tokens of a prompt per forward pass");
  app.add_option("--temp", options.sampling.temperature, "Temperature; 0: greedy (default)");
  app.add_option("--seed", options.sampling.seed, "Seed of sampling (default: 0)");
  app.add_option("--bench", options.bench, "Measure a prompt of N tokens, and generation")
      ->excludes(prompt)
      ->excludes(ids);
  app.add_flag("--hash", options.hash, "Print a hash of all logits");
  try {
    app.parse(count, arguments);
    if (options.prompt.empty() && options.ids.empty() && options.bench == 0)
      throw CLI::RequiredError("--prompt, --ids or --bench");
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : 2;
  }
  MPI_Init(&count, &arguments);
  run(options);
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace llmc::mpi

int main(int count, char** arguments) {
  return llmc::mpi::main(count, arguments);
}
