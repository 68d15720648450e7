#include "compiler/exec/native_runner.h"

#include <cstring>
#include <mutex>

#include "compiler/exec/runner_process.h"
#include "compiler/support/check.h"
#include "compiler/target/target.h"

namespace llmc::exec {
namespace {

using runner::Request;

class RunnerSession final : public NativeModel::Session {
 public:
  RunnerSession(std::unique_ptr<RunnerProcess> process, const ModelInfo& model,
                const SessionOptions& options, std::filesystem::path path)
      : Session(model, options, std::move(path)), process_(std::move(process)) {}

  Result<std::span<const float>> logits() override { return floats(Request::kLogits, 0); }
  Result<std::span<const float>> logits_at(std::uint32_t row) override {
    return floats(Request::kLogitsAt, row);
  }
  Result<std::span<const float>> logits_rows(std::uint32_t row, std::uint32_t rows) override {
    return floats(Request::kLogitsRows, row, std::as_bytes(std::span(&rows, 1)), rows);
  }
  Status set_sampling(const llmc_sampling& sampling) override {
    return done(request(Request::kSetSampling, 0, std::as_bytes(std::span(&sampling, 1))));
  }
  Status set_logit_bias(std::vector<llmc_logit_bias> biases) override {
    return done(request(Request::kSetLogitBias, 0, std::as_bytes(std::span(biases))));
  }
  Status set_dry_breakers(hosted::DryBreakers breakers) override {
    const runner::DryBreakers sizes{static_cast<std::uint32_t>(breakers.heads.size()),
                                    static_cast<std::uint32_t>(breakers.tails.size())};
    const RunnerProcess::Bytes parts[] = {
        std::as_bytes(std::span(&sizes, 1)), std::as_bytes(std::span(breakers.heads)),
        std::as_bytes(std::span(breakers.tail_begins)), std::as_bytes(std::span(breakers.tails))};
    return done(checked(process_->request(Request::kSetDryBreakers, 0, parts, 0)));
  }
  Status set_grammar(std::string_view tables) override {
    return done(request(Request::kSetGrammar, 0, std::as_bytes(std::span(tables))));
  }
  Result<int> text_state() override { return token(Request::kTextState); }
  Result<std::vector<llmc_candidate>> candidates(int which, std::uint32_t n) override {
    const runner::Candidates wanted{which, n};
    LLMC_TRY(const RunnerProcess::Reply reply,
             request(Request::kCandidates, 0, std::as_bytes(std::span(&wanted, 1)),
                     std::uint64_t{vocabulary_} * sizeof(llmc_candidate)));
    std::vector<llmc_candidate> found(reply.data.size() / sizeof(llmc_candidate));
    if (!found.empty())
      std::memcpy(found.data(), reply.data.data(), found.size() * sizeof(llmc_candidate));
    return found;
  }
  Result<float> logprob(std::int32_t token) override {
    LLMC_TRY(const RunnerProcess::Reply reply,
             request(Request::kLogprob, static_cast<std::uint32_t>(token), {}, sizeof(float)));
    float value = 0;
    if (reply.data.size() == sizeof value) std::memcpy(&value, reply.data.data(), sizeof value);
    return value;
  }
  Result<std::int32_t> sample() override { return token(Request::kSample); }
  Result<std::int32_t> step() override { return token(Request::kStep); }
  Status rewind(std::uint32_t tokens) override { return done(request(Request::kRewind, tokens)); }
  Status reset() override { return done(request(Request::kReset, 0)); }
  std::uint32_t position() const override { return position_; }
  Status select(std::uint32_t sequence) override {
    return done(request(Request::kSelect, sequence));
  }
  Result<std::uint32_t> fork(std::uint32_t from) override {
    LLMC_TRY(const RunnerProcess::Reply reply, request(Request::kFork, from));
    return static_cast<std::uint32_t>(reply.value);
  }
  Status release(std::uint32_t sequence) override {
    return done(request(Request::kRelease, sequence));
  }
  Status set_guidance(std::uint32_t guide, float scale) override {
    return done(request(Request::kSetGuidance, guide, std::as_bytes(std::span(&scale, 1))));
  }
  Status append_batch(std::span<const std::uint32_t> sequences,
                      std::span<const std::int32_t> tokens) override {
    LLMC_CHECK(sequences.size() == tokens.size());
    const RunnerProcess::Bytes parts[] = {std::as_bytes(sequences), std::as_bytes(tokens)};
    return done(checked(process_->request(Request::kAppendBatch, 0, parts, 0)));
  }
  Result<std::vector<std::int32_t>> step_batch(std::span<const std::uint32_t> sequences) override {
    std::vector<std::int32_t> tokens(sequences.size());
    LLMC_TRY(const RunnerProcess::Reply reply,
             request(Request::kStepBatch, 0, std::as_bytes(sequences), sequences.size_bytes()));
    LLMC_CHECK(reply.data.size() == sequences.size_bytes());
    std::memcpy(tokens.data(), reply.data.data(), reply.data.size());
    return tokens;
  }

  /// Creates the session in the runner.
  Status start(const SessionOptions& options, const std::string& weights) {
    const runner::Start request{options.threads, options.chunk,        options.cores,
                                options.begin,   options.full_context, options.keep_first};
    const RunnerProcess::Bytes parts[] = {std::as_bytes(std::span(&request, 1)),
                                          std::as_bytes(std::span(weights))};
    return done(checked(process_->request(Request::kStart, 0, parts, 0)));
  }

 protected:
  Status run(std::span<const std::int32_t> tokens) override {
    return done(request(Request::kPrefill, 0, std::as_bytes(tokens)));
  }

 private:
  Result<RunnerProcess::Reply> request(Request what, std::uint32_t argument,
                                       RunnerProcess::Bytes bytes = {},
                                       std::uint64_t max_bytes = 0) {
    return checked(process_->request(what, argument, std::span(&bytes, 1), max_bytes));
  }
  Result<RunnerProcess::Reply> checked(Result<RunnerProcess::Reply> reply) {
    if (!reply.ok()) return reply;
    position_ = static_cast<std::uint32_t>(reply->position);
    if (reply->status == LLMC_OK) return reply;
    Diagnostic d = refused(static_cast<llmc_status>(reply->status), reply->message());
    if (reply->status == LLMC_ERROR_CPU)
      d.hint =
          "`llmc targets --json` lists each target's features; select a CPU model with them by "
          "qemu-user's option -cpu";
    return d;
  }
  static Status done(Result<RunnerProcess::Reply> reply) {
    if (!reply.ok()) return std::move(reply).error();
    return ok_status();
  }
  Result<std::int32_t> token(Request what) {
    LLMC_TRY(const RunnerProcess::Reply reply, request(what, 0));
    return reply.value;
  }
  Result<std::span<const float>> floats(Request what, std::uint32_t argument,
                                        RunnerProcess::Bytes bytes = {}, std::uint64_t rows = 1) {
    LLMC_TRY(const RunnerProcess::Reply reply,
             request(what, argument, bytes, rows * vocabulary_ * sizeof(float)));
    logits_.resize(reply.data.size() / sizeof(float));
    if (!logits_.empty())
      std::memcpy(logits_.data(), reply.data.data(), logits_.size() * sizeof(float));
    return std::span<const float>(logits_);
  }

  std::unique_ptr<RunnerProcess> process_;
  std::uint32_t position_ = 0;
  std::vector<float> logits_;
};

class RunnerModel final : public NativeModel {
 public:
  RunnerModel(LinkedModel linked, Emulator emulator)
      : linked_(std::move(linked)), emulator_(std::move(emulator)), text_(emulator_.text()) {}

  const std::string& name() const override { return linked_.facts.name; }
  const std::filesystem::path& bundle() const override { return linked_.bundle; }
  const ModelInfo& model() const override { return info_; }
  bool from_cache() const override { return linked_.from_cache; }
  const std::string& emulator() const override { return text_; }

  /// Starts a process and reads the model's sizes; the first session uses it.
  Status load() {
    LLMC_TRY(waiting_, start_process());
    const runner::ModelFacts& m = waiting_->hello().model;
    info_ = {m.target,      m.vocab,     m.layers, m.ctx,           m.chunk,        m.kv_block,
             m.threads_max, m.sequences, m.batch,  m.grammar_bytes, m.prompt_tokens};
    return ok_status();
  }

 protected:
  Result<std::unique_ptr<Session>> start_session(const SessionOptions& options) const override {
    std::unique_ptr<RunnerProcess> process;
    {
      const std::lock_guard lock(mutex_);
      process = std::move(waiting_);
    }
    if (!process) {
      LLMC_TRY(process, start_process());
    }
    std::string weights;
    if (!linked_.facts.embed_weights)
      weights = std::filesystem::absolute(linked_.bundle / (linked_.facts.name + ".weights.bin"))
                    .string();
    auto session =
        std::make_unique<RunnerSession>(std::move(process), info_, options, linked_.path);
    LLMC_RETURN_IF_ERROR(session->start(options, weights));
    return std::unique_ptr<Session>(std::move(session));
  }

 private:
  Result<std::unique_ptr<RunnerProcess>> start_process() const {
    return RunnerProcess::start(emulator_, linked_.binary, runner::Kind::kModel);
  }

  LinkedModel linked_;
  Emulator emulator_;
  const std::string text_;
  ModelInfo info_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<RunnerProcess> waiting_;  // started, without a session
};

}  // namespace

Result<std::unique_ptr<NativeModel>> load_runner(LinkedModel linked, Emulator emulator) {
  auto model = std::make_unique<RunnerModel>(std::move(linked), std::move(emulator));
  LLMC_RETURN_IF_ERROR(model->load());
  return std::unique_ptr<NativeModel>(std::move(model));
}

}  // namespace llmc::exec
