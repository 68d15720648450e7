#include "compiler/exec/native_library.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "compiler/driver/library_status.h"
#include "compiler/support/check.h"
#include "runtime/hosted/mapped_weights.h"
#include "runtime/hosted/model_library.h"
#include "runtime/hosted/thread_pool.h"

namespace llmc::exec {
namespace {

class LoadedSession final : public NativeModel::Session {
 public:
  LoadedSession(std::unique_ptr<hosted::ThreadPool> pool,
                std::unique_ptr<hosted::LibrarySession> session, const ModelInfo& model,
                const SessionOptions& options, std::span<const std::byte> grammar,
                std::filesystem::path path)
      : Session(model, options, std::move(path)),
        pool_(std::move(pool)),
        own_grammar_(grammar),
        session_(std::move(session)) {}

  Result<std::span<const float>> logits() override { return all(api().logits(handle())); }
  Result<std::span<const float>> logits_at(std::uint32_t row) override {
    return all(api().logits_at(handle(), row));
  }
  Result<std::span<const float>> logits_rows(std::uint32_t row, std::uint32_t rows) override {
    const float* logits = api().logits_rows(handle(), row, rows);
    return logits == nullptr ? std::span<const float>()
                             : std::span(logits, std::size_t{rows} * vocabulary_);
  }
  Status set_sampling(const llmc_sampling& sampling) override {
    return check(api().set_sampling(handle(), &sampling));
  }
  Status set_logit_bias(std::vector<llmc_logit_bias> biases) override {
    LLMC_RETURN_IF_ERROR(check(api().set_logit_bias(handle(), biases.data(), biases.size())));
    biases_ = std::move(biases);
    return ok_status();
  }
  Status set_dry_breakers(hosted::DryBreakers breakers) override {
    const llmc_dry_breakers table = breakers.table();
    LLMC_RETURN_IF_ERROR(check(api().set_dry_breakers(handle(), &table)));
    breakers_ = std::move(breakers);  // moving vectors keeps their memory
    return ok_status();
  }
  Status set_grammar(std::string_view tables) override {
    auto grammar = std::make_unique<Grammar>();
    std::span<const std::byte> bytes = own_grammar_;
    if (!tables.empty()) {
      grammar->tables.resize((tables.size() + 7) / 8);
      std::memcpy(grammar->tables.data(), tables.data(), tables.size());
      bytes = std::as_bytes(std::span(grammar->tables)).first(tables.size());
    }
    llmc_grammar* made = nullptr;
    LLMC_RETURN_IF_ERROR(check(api().grammar_init(grammar->memory.data(), grammar->memory.size(),
                                                  bytes.data(), bytes.size(), &made)));
    LLMC_RETURN_IF_ERROR(check(api().set_grammar(handle(), made)));
    grammar_ = std::move(grammar);
    return ok_status();
  }
  Result<int> text_state() override {
    int state = 0;
    LLMC_RETURN_IF_ERROR(check(api().text_state(handle(), &state)));
    return state;
  }
  Result<std::vector<llmc_candidate>> candidates(int which, std::uint32_t n) override {
    std::vector<llmc_candidate> found(std::min(n, vocabulary_));
    std::size_t count = 0;
    LLMC_RETURN_IF_ERROR(
        check(api().candidates(handle(), which, found.data(), found.size(), &count)));
    found.resize(count);
    return found;
  }
  Result<float> logprob(std::int32_t token) override {
    float value = 0;
    LLMC_RETURN_IF_ERROR(check(api().logprob(handle(), token, &value)));
    return value;
  }
  Result<std::int32_t> sample() override {
    std::int32_t token = -1;
    LLMC_RETURN_IF_ERROR(check(api().sample(handle(), &token)));
    return token;
  }
  Result<std::int32_t> step() override {
    std::int32_t token = -1;
    LLMC_RETURN_IF_ERROR(check(api().step(handle(), &token)));
    return token;
  }
  Status rewind(std::uint32_t tokens) override { return check(api().rewind(handle(), tokens)); }
  Status reset() override { return check(api().reset(handle())); }
  Result<std::string> save_state() override {
    std::string state(api().state_bytes(handle()), '\0');
    LLMC_RETURN_IF_ERROR(check(api().state_save(handle(), state.data(), state.size(), nullptr)));
    return state;
  }
  Status load_state(std::string_view state) override {
    return check(api().state_load(handle(), state.data(), state.size()));
  }
  std::uint32_t position() const override {
    return static_cast<std::uint32_t>(api().position(handle()));
  }
  Status select(std::uint32_t sequence) override { return check(api().select(handle(), sequence)); }
  Result<std::uint32_t> fork(std::uint32_t from) override {
    std::uint32_t to = 0;
    LLMC_RETURN_IF_ERROR(check(api().fork(handle(), from, &to)));
    return to;
  }
  Status release(std::uint32_t sequence) override {
    return check(api().release(handle(), sequence));
  }
  Status set_guidance(std::uint32_t guide, float scale) override {
    return check(api().set_guidance(handle(), guide, scale));
  }
  Status append_batch(std::span<const std::uint32_t> sequences,
                      std::span<const std::int32_t> tokens) override {
    LLMC_CHECK(sequences.size() == tokens.size());
    return check(api().append_batch(handle(), sequences.data(), sequences.size(), tokens.data()));
  }
  Result<std::vector<std::int32_t>> step_batch(std::span<const std::uint32_t> sequences) override {
    std::vector<std::int32_t> tokens(sequences.size());
    LLMC_RETURN_IF_ERROR(
        check(api().step_batch(handle(), sequences.data(), sequences.size(), tokens.data())));
    return tokens;
  }

 protected:
  Status run(std::span<const std::int32_t> tokens) override {
    return check(api().prefill(handle(), tokens.data(), tokens.size(), nullptr));
  }

 private:
  llmc_session* handle() const { return session_->handle(); }
  const hosted::LibraryApi& api() const { return session_->api(); }
  Result<std::span<const float>> all(const float* logits) const {
    return logits == nullptr ? std::span<const float>() : std::span(logits, vocabulary_);
  }
  Status check(llmc_status status) const {
    if (status == LLMC_OK) return ok_status();
    const std::string& detail = session_->last_message();
    return refused(status, detail.empty() ? api().status_text(status) : detail);
  }

  std::unique_ptr<hosted::ThreadPool> pool_;  // outlives the session that calls it
  // Owned here because the session points into them.
  std::vector<llmc_logit_bias> biases_;
  hosted::DryBreakers breakers_;
  struct Grammar {
    std::vector<std::uint64_t> tables;  // of u64 for alignment
    alignas(8) std::array<unsigned char, LLMC_GRAMMAR_BYTES> memory;
  };
  std::unique_ptr<Grammar> grammar_;
  const std::span<const std::byte> own_grammar_;  // the compiled-in grammar; may be empty
  std::unique_ptr<hosted::LibrarySession> session_;
};

class LoadedModel final : public NativeModel {
 public:
  explicit LoadedModel(LinkedModel linked) : linked_(std::move(linked)) {}

  const std::string& name() const override { return linked_.facts.name; }
  const std::filesystem::path& bundle() const override { return linked_.bundle; }
  const ModelInfo& model() const override { return info_; }
  bool from_cache() const override { return linked_.from_cache; }
  const std::string& emulator() const override { return nobody_; }

  Status load() {
    if (!linked_.facts.embed_weights) {
      auto weights =
          hosted::MappedWeights::open(linked_.bundle / (linked_.facts.name + ".weights.bin"));
      if (!weights.ok()) {
        return file_failure(ErrorKind::kBadInput, linked_.path.string(),
                            "damaged bundle: " + printable(weights.failure().message),
                            "compile the model again");
      }
      weights_.emplace(*std::move(weights));
    }
    auto library = hosted::ModelLibrary::open(linked_.binary, linked_.facts.name);
    if (!library.ok()) {
      return failure(driver::kind_of(library.failure().status),
                     printable(library.failure().message), "compile the model again");
    }
    library_ = *std::move(library);
    const llmc_model& m = library_->model();
    const auto grammar_bytes = static_cast<std::uint32_t>(library_->grammar().size());
    info_ = {m.target,      m.vocab,     m.layers, m.ctx,         m.chunk,        m.kv_block,
             m.threads_max, m.sequences, m.batch,  grammar_bytes, m.prefix_tokens};
    return ok_status();
  }

 protected:
  Result<std::unique_ptr<Session>> start_session(const SessionOptions& options) const override {
    auto pool = hosted::ThreadPool::create(options.threads);
    if (!pool.ok()) return failure(ErrorKind::kBadInput, pool.failure().message);
    llmc_config config = {};
    config.size = sizeof config;
    config.threads = options.threads;
    config.chunk = options.chunk;
    config.cores = options.cores;
    config.begin = options.begin;
    config.full_context = options.full_context;
    config.keep_first = options.keep_first;
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
      return file_failure(driver::kind_of(session.failure().status), linked_.path.string(),
                          printable(session.failure().message));
    }
    return std::unique_ptr<Session>(std::make_unique<LoadedSession>(
        *std::move(pool), *std::move(session), info_, options, library_->grammar(), linked_.path));
  }

 private:
  LinkedModel linked_;
  ModelInfo info_;
  const std::string nobody_;
  std::optional<hosted::MappedWeights> weights_;  // if they are in a file
  std::unique_ptr<hosted::ModelLibrary> library_;
};

}  // namespace

Result<std::unique_ptr<NativeModel>> load_library(LinkedModel linked) {
  auto model = std::make_unique<LoadedModel>(std::move(linked));
  LLMC_RETURN_IF_ERROR(model->load());
  return std::unique_ptr<NativeModel>(std::move(model));
}

}  // namespace llmc::exec
