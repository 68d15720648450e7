#include "compiler/exec/native_runner.h"

#include <bit>
#include <cstring>
#include <mutex>

#include "compiler/driver/library_status.h"
#include "compiler/exec/runner_process.h"
#include "compiler/support/check.h"

namespace llmc::exec {
namespace {

using runner::Request;
using Bytes = RunnerProcess::Bytes;

template <class T>
Bytes array_bytes(const T* values, std::size_t n) {
  return std::as_bytes(std::span(values, n));
}
template <class T>
Bytes value_bytes(const T& value) {
  return array_bytes(&value, 1);
}

/// The session of a runner process. An llmc_session* of kRunnerApi points to it.
struct RunnerSession {
  std::unique_ptr<RunnerProcess> process;
  std::uint32_t vocabulary, source_width, embedding_width, position_axes, image_rows;
  std::vector<std::uint64_t> image_bytes;  // sizes of the media encoder's inputs
  RunnerProcess::Reply reply = {};         // reply to the last request
  std::string message = {};                // message of the last reply
  std::vector<float> logits = {};          // logits that the last request for logits returned
  /// The object that an llmc_beams* of kRunnerApi points to.
  struct Search {
    RunnerSession* session = nullptr;
    std::vector<std::vector<std::int32_t>> texts = {};  // results of receive_beam()
  } search = {};
  std::optional<Error> failure = {};

  llmc_status request(Request what, std::uint32_t argument, std::initializer_list<Bytes> parts = {},
                      std::uint64_t max_bytes = 0) {
    auto answer = process->request(what, argument, parts, max_bytes);
    if (!answer.ok()) {
      failure = std::move(answer).error();
      return LLMC_ERROR_FILE;
    }
    reply = *std::move(answer);
    const auto status = static_cast<llmc_status>(reply.status);
    message = status == LLMC_OK ? std::string() : reply.message();
    return status;
  }
  /// Requests a number and writes it to `result`.
  template <class T>
  llmc_status request_value(Request what, std::uint32_t argument, T* result) {
    const llmc_status status = request(what, argument);
    if (status == LLMC_OK) *result = static_cast<T>(reply.value);
    return status;
  }
  /// Requests at most `n` elements, writes them to `results`, and returns their number in `count`.
  template <class T>
  llmc_status request_array(Request what, std::uint32_t argument,
                            std::initializer_list<Bytes> parts, T* results, std::size_t n,
                            std::size_t* count) {
    const llmc_status status = request(what, argument, parts, n * sizeof(T));
    if (status != LLMC_OK) return status;
    *count = reply.data.size() / sizeof(T);
    if (*count > 0) std::memcpy(results, reply.data.data(), *count * sizeof(T));
    return LLMC_OK;
  }
  const float* request_logits(Request what, std::size_t row,
                              std::initializer_list<Bytes> parts = {}, std::size_t rows = 1) {
    logits.resize(rows * vocabulary);
    std::size_t count = 0;
    const llmc_status status = request_array(what, static_cast<std::uint32_t>(row), parts,
                                             logits.data(), logits.size(), &count);
    if (status != LLMC_OK || count == 0) return nullptr;
    LLMC_CHECK(count == logits.size());
    return logits.data();
  }
};

RunnerSession& runner_of(llmc_session* session) {
  return *reinterpret_cast<RunnerSession*>(session);
}

RunnerSession& runner_of(const llmc_beams* beams) {
  return *reinterpret_cast<const RunnerSession::Search*>(beams)->session;
}

/// Implements llmc_beams_result.
llmc_status receive_beam(const llmc_beams* beams, std::uint32_t rank, const std::int32_t** tokens,
                         std::size_t* n, float* score) {
  RunnerSession& runner = runner_of(beams);
  const llmc_status status =
      runner.request(Request::kBeamsResult, rank, {}, runner::kMaxRequestBytes);
  if (status != LLMC_OK) return status;
  std::vector<std::int32_t> words(runner.reply.data.size() / sizeof(std::int32_t));
  LLMC_CHECK(!words.empty());
  std::memcpy(words.data(), runner.reply.data.data(), words.size() * sizeof(std::int32_t));
  *score = std::bit_cast<float>(words[0]);
  *tokens = runner.search.texts.emplace_back(std::move(words)).data() + 1;
  *n = runner.search.texts.back().size() - 1;
  return LLMC_OK;
}

/// Implements llmc_encode_image. Open dims have their maximum sizes.
llmc_status send_image(llmc_session* s, const void* const* inputs, const std::int64_t*, float* rows,
                       std::size_t* n) {
  RunnerSession& runner = runner_of(s);
  constexpr std::size_t kAlignment = 64;
  const auto rounded = [](std::size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  };
  const std::size_t count = runner.image_bytes.size();
  std::vector<std::uint64_t> offsets{rounded(count * sizeof(std::uint64_t))};
  for (const std::uint64_t bytes : runner.image_bytes)
    offsets.push_back(offsets.back() + rounded(bytes));
  std::vector<std::byte> data(offsets.back());
  std::memcpy(data.data(), offsets.data(), count * sizeof(std::uint64_t));
  for (std::size_t i = 0; i < count; ++i)
    std::memcpy(data.data() + offsets[i], inputs[i], runner.image_bytes[i]);
  const std::size_t width = runner.embedding_width;
  std::size_t elements = 0;
  const llmc_status status = runner.request_array(Request::kEncodeImage, 0, {data}, rows,
                                                  runner.image_rows * width, &elements);
  if (status == LLMC_OK) *n = elements / width;
  return status;
}

/// The object that an llmc_grammar* of kRunnerApi points to: the tables to send; empty for the
/// compiled-in grammar. The runner checks the tables.
using RunnerGrammar = Bytes;

/// Implements a function of llmc.h whose only argument is a number.
template <Request what, class T>
llmc_status send_number(llmc_session* s, T number) {
  return runner_of(s).request(what, static_cast<std::uint32_t>(number));
}
/// Implements a function of llmc.h that only returns a number.
template <Request what, class T>
llmc_status receive_number(llmc_session* s, T* number) {
  return runner_of(s).request_value(what, 0, number);
}

/// Implements the functions of llmc.h as requests to the runner; unsupported functions are nullptr.
constexpr hosted::LibraryApi kRunnerApi{
    .encode =
        [](llmc_session* s, const int32_t* ids, size_t n) {
          return runner_of(s).request(Request::kEncode, 0, {array_bytes(ids, n)});
        },
    .encode_features =
        [](llmc_session* s, const float* features, size_t n) {
          RunnerSession& runner = runner_of(s);
          return runner.request(Request::kEncodeFeatures, static_cast<std::uint32_t>(n),
                                {array_bytes(features, n * runner.source_width)});
        },
    .append_embeddings =
        [](llmc_session* s, const float* rows, std::size_t n, std::size_t*) {
          RunnerSession& runner = runner_of(s);
          return runner.request(Request::kAppendEmbeddings, static_cast<std::uint32_t>(n),
                                {array_bytes(rows, n * runner.embedding_width)});
        },
    .append_embeddings_at =
        [](llmc_session* s, const float* rows, const std::int32_t* positions, std::size_t n,
           std::size_t*) {
          RunnerSession& runner = runner_of(s);
          return runner.request(Request::kAppendEmbeddings, static_cast<std::uint32_t>(n),
                                {array_bytes(rows, n * runner.embedding_width),
                                 array_bytes(positions, n * runner.position_axes)});
        },
    .encode_image = send_image,
    .prefill =
        [](llmc_session* s, const std::int32_t* tokens, std::size_t n, std::size_t*) {
          return runner_of(s).request(Request::kPrefill, 0, {array_bytes(tokens, n)});
        },
    .step = receive_number<Request::kStep>,
    .sample = receive_number<Request::kSample>,
    .append_batch =
        [](llmc_session* s, const std::uint32_t* sequences, std::size_t n,
           const std::int32_t* tokens) {
          return runner_of(s).request(Request::kAppendBatch, 0,
                                      {array_bytes(sequences, n), array_bytes(tokens, n)});
        },
    .step_batch =
        [](llmc_session* s, const std::uint32_t* sequences, std::size_t n, std::int32_t* tokens) {
          std::size_t count = n;
          const llmc_status status = runner_of(s).request_array(
              Request::kStepBatch, 0, {array_bytes(sequences, n)}, tokens, n, &count);
          LLMC_CHECK(count == n);
          return status;
        },
    .set_sampling =
        [](llmc_session* s, const llmc_sampling* sampling) {
          return runner_of(s).request(Request::kSetSampling, 0, {value_bytes(*sampling)});
        },
    .set_logit_bias =
        [](llmc_session* s, const llmc_logit_bias* biases, std::size_t n) {
          return runner_of(s).request(Request::kSetLogitBias, 0, {array_bytes(biases, n)});
        },
    .set_dry_breakers =
        [](llmc_session* s, const llmc_dry_breakers* breakers) {
          const std::uint32_t count = breakers->count;
          const runner::DryBreakers sizes{count, breakers->tail_begins[count]};
          return runner_of(s).request(Request::kSetDryBreakers, 0,
                                      {value_bytes(sizes), array_bytes(breakers->heads, count),
                                       array_bytes(breakers->tail_begins, count + std::size_t{1}),
                                       array_bytes(breakers->tails, sizes.tails)});
        },
    .set_guidance =
        [](llmc_session* s, std::uint32_t guide, float scale) {
          return runner_of(s).request(Request::kSetGuidance, guide, {value_bytes(scale)});
        },
    .candidates =
        [](llmc_session* s, int which, llmc_candidate* candidates, std::size_t n,
           std::size_t* count) {
          const runner::Candidates wanted{which, static_cast<std::uint32_t>(n)};
          return runner_of(s).request_array(Request::kCandidates, 0, {value_bytes(wanted)},
                                            candidates, n, count);
        },
    .logprob =
        [](llmc_session* s, std::int32_t token, float* logprob) {
          std::size_t count = 0;
          return runner_of(s).request_array(Request::kLogprob, static_cast<std::uint32_t>(token),
                                            {}, logprob, 1, &count);
        },
    .logits = [](llmc_session* s) { return runner_of(s).request_logits(Request::kLogits, 0); },
    .logits_at =
        [](llmc_session* s, std::size_t row) {
          return runner_of(s).request_logits(Request::kLogitsAt, row);
        },
    .logits_rows =
        [](llmc_session* s, std::size_t row, std::size_t rows) {
          const auto count = static_cast<std::uint32_t>(rows);
          return runner_of(s).request_logits(Request::kLogitsRows, row, {value_bytes(count)}, rows);
        },
    .position =
        [](const llmc_session* s) {
          const auto& session = *reinterpret_cast<const RunnerSession*>(s);
          return static_cast<std::size_t>(session.reply.position);
        },
    .rewind = send_number<Request::kRewind>,
    .reset = [](llmc_session* s) { return runner_of(s).request(Request::kReset, 0); },
    .select = send_number<Request::kSelect>,
    .fork = [](llmc_session* s, std::uint32_t from,
               std::uint32_t* to) { return runner_of(s).request_value(Request::kFork, from, to); },
    .release = send_number<Request::kRelease>,
    .grammar_init =
        [](void* memory, std::size_t, const void* tables, std::size_t tables_bytes,
           llmc_grammar** grammar) {
          *grammar = reinterpret_cast<llmc_grammar*>(
              new (memory) RunnerGrammar(static_cast<const std::byte*>(tables), tables_bytes));
          return LLMC_OK;
        },
    .set_grammar =
        [](llmc_session* s, llmc_grammar* grammar) {
          return runner_of(s).request(Request::kSetGrammar, 0,
                                      {*reinterpret_cast<const RunnerGrammar*>(grammar)});
        },
    .text_state = receive_number<Request::kTextState>,
    .status_text = llmc_status_text,
    .beams_init =
        [](void*, std::size_t, llmc_session* s, const llmc_beam_options* options,
           llmc_beams** beams) {
          RunnerSession& runner = runner_of(s);
          const runner::Beams wanted{options->beams, options->max_tokens, options->stopping,
                                     options->length_penalty};
          runner.search = {.session = &runner, .texts = {}};
          *beams = reinterpret_cast<llmc_beams*>(&runner.search);
          return runner.request(
              Request::kBeamsInit, 0,
              {value_bytes(wanted), array_bytes(options->stop_ids, options->stop_count)});
        },
    .beams_step =
        [](llmc_beams* beams, int* done) {
          return runner_of(beams).request_value(Request::kBeamsStep, 0, done);
        },
    .beams_count =
        [](const llmc_beams* beams) {
          std::uint32_t count = 0;
          runner_of(beams).request_value(Request::kBeamsCount, 0, &count);
          return count;
        },
    .beams_result = receive_beam,
    .beams_end = [](llmc_beams* beams) { return runner_of(beams).request(Request::kBeamsEnd, 0); },
    .step_lookup =
        [](llmc_session* s, std::size_t n, const std::int32_t* stop_ids, std::size_t stop_count,
           std::int32_t* tokens, std::size_t* count) {
          return runner_of(s).request_array(Request::kStepLookup, static_cast<std::uint32_t>(n),
                                            {array_bytes(stop_ids, stop_count)}, tokens, n, count);
        },
};

class RunnerModel final : public NativeModel {
 public:
  RunnerModel(LinkedModel linked, Emulator emulator, std::unique_ptr<RunnerProcess> process)
      : NativeModel(std::move(linked), process->hello().model, emulator.text()),
        command_(std::move(emulator)),
        waiting_(std::move(process)) {}

 private:
  Result<SessionHandle> open(const SessionOptions& options) const override {
    std::unique_ptr<RunnerProcess> process;
    {
      const std::lock_guard lock(mutex_);
      process = std::move(waiting_);
    }
    if (!process) {
      LLMC_TRY(process, RunnerProcess::start(command_, linked().binary, runner::Kind::kModel));
    }
    std::string weights;
    if (!linked().facts.embed_weights)
      weights = std::filesystem::absolute(linked().weights_file()).string();
    const auto session = std::make_shared<RunnerSession>(
        std::move(process), model().vocab, model().source_width, model().embedding_width,
        model().position_axes, model().image_rows, image_bytes());
    const runner::Start request{options.threads, options.chunk,        options.cores,
                                options.begin,   options.full_context, options.keep_first};
    const llmc_status status = session->request(
        Request::kStart, 0, {value_bytes(request), array_bytes(weights.data(), weights.size())});
    if (session->failure) return *session->failure;
    if (status != LLMC_OK) {
      return file_failure(driver::kind_of(status), linked().path.string(),
                          printable(session->message),
                          status == LLMC_ERROR_CPU
                              ? "`llmc targets --json` names each target's features; qemu-user "
                                "takes a processor that has them with -cpu"
                              : "");
    }
    return SessionHandle{.owner = session,
                         .api = &kRunnerApi,
                         .session = reinterpret_cast<llmc_session*>(session.get()),
                         .message = &session->message,
                         .failure = &session->failure,
                         .grammar = {}};
  }

  const Emulator command_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<RunnerProcess> waiting_;  // a process without a session yet
};

}  // namespace

Result<std::unique_ptr<NativeModel>> load_runner(LinkedModel linked, Emulator emulator) {
  // The first process provides the model's facts; the first session runs in it.
  LLMC_TRY(auto process, RunnerProcess::start(emulator, linked.binary, runner::Kind::kModel));
  return std::unique_ptr<NativeModel>(
      std::make_unique<RunnerModel>(std::move(linked), std::move(emulator), std::move(process)));
}

}  // namespace llmc::exec
