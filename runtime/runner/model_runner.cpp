#include "connection.h"
#include "llmc/beams.h"
#include "llmc/embeddings.h"
#include "llmc/grammar.h"
#include "llmc/llmc.h"
#include "llmc/model.h"
#include "llmc/speculation.h"
#include "model_facts.h"
#include "workers.h"

/// Runs one session of a compiled model on request. LLMC_RUNNER_MODEL and LLMC_RUNNER_INIT are
/// defined as NAME_model and NAME_init.
extern "C" {
extern const llmc_model LLMC_RUNNER_MODEL;
llmc_status LLMC_RUNNER_INIT(llmc_session** session, void* arena, size_t bytes,
                             const llmc_config* config);
#ifdef LLMC_RUNNER_GRAMMAR  // the name of NAME_grammar, if there is one
extern const unsigned char LLMC_RUNNER_GRAMMAR[];
#endif
}

namespace llmc::runner {
namespace {

constexpr uint64_t kMaxPath = 4096;
constexpr uint64_t kMaxBatch = 4096;  // maximum number of tokens in a reply to kStepBatch or
                                      // kStepLookup

#ifdef LLMC_RUNNER_GRAMMAR
const unsigned char* const kGrammar = LLMC_RUNNER_GRAMMAR;
#else
constexpr const unsigned char* kGrammar = nullptr;
#endif

uint64_t grammar_bytes() {
  llmc_grammar_header header{};
  if (kGrammar != nullptr) __builtin_memcpy(&header, kGrammar, sizeof header);
  return header.bytes;
}

Hello hello() {
  Hello hello{};
  for (size_t i = 0; i < sizeof kMagic; ++i) hello.magic[i] = kMagic[i];
  hello.version = kVersion;
  hello.kind = Kind::kModel;
  hello.model = facts_of(LLMC_RUNNER_MODEL, grammar_bytes());
  return hello;
}

class ModelRunner {
 public:
  /// Answers requests until the input ends.
  void serve() {
    const Hello greeting = hello();
    if (!write_all(&greeting, sizeof greeting)) return;
    while (connection_.next() && answer()) {
    }
  }

 private:
  bool encode_features() {
    const RequestHeader& request = connection_.request();
    if (request.bytes != uint64_t{request.argument} * llmc_source_width(session_) * sizeof(float))
      return refuse(LLMC_ERROR_ARGUMENT, "the features do not fill their frames");
    return done(llmc_encode_features(session_, connection_.data_as<float>(), request.argument));
  }

  bool append_embeddings() {
    const uint64_t n = connection_.request().argument, bytes = connection_.request().bytes;
    const uint64_t floats = n * llmc_embedding_width(session_) * sizeof(float);
    if (bytes != floats && bytes != floats + n * llmc_position_axes(session_) * sizeof(int32_t))
      return refuse(LLMC_ERROR_ARGUMENT, "the embeddings do not fill their rows");
    const auto* const rows = connection_.data_as<float>();
    if (bytes == floats) return done(llmc_append_embeddings(session_, rows, n, nullptr));
    return done(llmc_append_embeddings_at(session_, rows, connection_.data_as<int32_t>(floats), n,
                                          nullptr));
  }

  bool encode_image() {
    constexpr uint64_t kMaxInputs = 4096;
    static const void* inputs[kMaxInputs];
    const uint64_t size = connection_.request().bytes, count = LLMC_RUNNER_MODEL.image_inputs;
    const auto* const offsets = connection_.data_as<uint64_t>();
    if (count > kMaxInputs || size < count * sizeof(uint64_t))
      return refuse(LLMC_ERROR_ARGUMENT, "an image without its inputs");
    for (uint64_t i = 0; i < count; ++i) {
      if (offsets[i] > size) return refuse(LLMC_ERROR_ARGUMENT, "an input outside the data");
      inputs[i] = connection_.data() + offsets[i];
    }
    const uint64_t width = LLMC_RUNNER_MODEL.embedding_width;
    Kept rows;
    if (!rows.take(LLMC_RUNNER_MODEL.image_rows * width * sizeof(float)))
      return refuse(LLMC_ERROR_MEMORY, kNoMemory);
    size_t n = 0;
    const llmc_status status =
        llmc_encode_image(session_, inputs, nullptr, static_cast<float*>(rows.memory), &n);
    const bool written = status != LLMC_OK ? done(status)
                                           : connection_.reply(LLMC_OK, 0, position(), rows.memory,
                                                               n * width * sizeof(float));
    rows.free();
    return written;
  }

  bool answer() {
    const RequestHeader& request = connection_.request();
    message_[0] = 0;
    if (request.what == Request::kStart) return start();
    if (session_ == nullptr) return refuse(LLMC_ERROR_ARGUMENT, "the session was not started");
    int32_t token = -1;
    switch (request.what) {
      case Request::kEncode:
        return done(
            llmc_encode(session_, connection_.data_as<int32_t>(), request.bytes / sizeof(int32_t)));
      case Request::kEncodeFeatures:
        return encode_features();
      case Request::kAppendEmbeddings:
        return append_embeddings();
      case Request::kEncodeImage:
        return encode_image();
      case Request::kPrefill:
        return done(llmc_prefill(session_, connection_.data_as<int32_t>(),
                                 request.bytes / sizeof(int32_t), nullptr));
      case Request::kStep: {
        const llmc_status status = llmc_step(session_, &token);
        return done(status, token);
      }
      case Request::kSample: {
        const llmc_status status = llmc_sample(session_, &token);
        return done(status, token);
      }
      case Request::kSetSampling:
        if (request.bytes != sizeof(llmc_sampling)) break;
        return done(llmc_set_sampling(session_, connection_.data_as<llmc_sampling>()));
      case Request::kSetLogitBias:
        if (request.bytes % sizeof(llmc_logit_bias) != 0) break;
        return set_logit_bias(request.bytes);
      case Request::kSetDryBreakers:
        if (request.bytes < sizeof(DryBreakers)) break;
        return set_dry_breakers(request.bytes);
      case Request::kCandidates:
        if (request.bytes != sizeof(Candidates)) break;
        return candidates(*connection_.data_as<Candidates>());
      case Request::kLogprob: {
        float logprob = 0;
        const llmc_status status =
            llmc_logprob(session_, static_cast<int32_t>(request.argument), &logprob);
        if (status != LLMC_OK) return done(status);
        return connection_.reply(LLMC_OK, 0, position(), &logprob, sizeof logprob);
      }
      case Request::kLogits:
        return logits(llmc_logits(session_));
      case Request::kLogitsAt:
        return logits(llmc_logits_at(session_, request.argument));
      case Request::kLogitsRows: {
        if (request.bytes != sizeof(uint32_t)) break;
        const uint32_t rows = *connection_.data_as<uint32_t>();
        return logits(llmc_logits_rows(session_, request.argument, rows), rows);
      }
      case Request::kRewind:
        return done(llmc_rewind(session_, request.argument));
      case Request::kSetGrammar:
        return set_grammar(request.bytes);
      case Request::kTextState: {
        int state = 0;
        const llmc_status status = llmc_text_state(session_, &state);
        return done(status, state);
      }
      case Request::kReset:
        return done(llmc_reset(session_));
      default:
        return answer_of_sequences();
    }
    return refuse(LLMC_ERROR_ARGUMENT, "not a request of a model's runner");
  }

  bool answer_of_sequences() {
    const RequestHeader& request = connection_.request();
    const auto* const sequences = connection_.data_as<uint32_t>();
    const uint64_t words = request.bytes / sizeof(uint32_t);
    switch (request.what) {
      case Request::kSelect:
        return done(llmc_select(session_, request.argument));
      case Request::kFork: {
        uint32_t to = 0;
        const llmc_status status = llmc_fork(session_, request.argument, &to);
        return done(status, static_cast<int32_t>(to));
      }
      case Request::kRelease:
        return done(llmc_release(session_, request.argument));
      case Request::kSetGuidance:
        if (request.bytes != sizeof(float)) break;
        return done(llmc_set_guidance(session_, request.argument, *connection_.data_as<float>()));
      case Request::kAppendBatch:
        return done(llmc_append_batch(session_, sequences, words / 2,
                                      reinterpret_cast<const int32_t*>(sequences) + words / 2));
      case Request::kStepBatch: {
        static int32_t tokens[kMaxBatch];
        if (words > kMaxBatch) break;
        const llmc_status status = llmc_step_batch(session_, sequences, words, tokens);
        if (status != LLMC_OK) return done(status);
        return connection_.reply(LLMC_OK, 0, position(), tokens, words * sizeof(int32_t));
      }
      case Request::kStepLookup: {
        static int32_t tokens[kMaxBatch];
        size_t count = 0;
        const size_t most = request.argument < kMaxBatch ? request.argument : kMaxBatch;
        const llmc_status status = llmc_step_lookup(
            session_, most, reinterpret_cast<const int32_t*>(sequences), words, tokens, &count);
        if (status != LLMC_OK) return done(status);
        return connection_.reply(LLMC_OK, 0, position(), tokens, count * sizeof(int32_t));
      }
      default:
        return answer_of_beams();
    }
    return refuse(LLMC_ERROR_ARGUMENT, "not a request of a model's runner");
  }

  bool answer_of_beams() {
    const RequestHeader& request = connection_.request();
    switch (request.what) {
      case Request::kBeamsInit:
        if (request.bytes < sizeof(Beams)) break;
        return begin_beams(request.bytes);
      case Request::kBeamsStep: {
        int ended = 0;
        const llmc_status status = llmc_beams_step(search_, &ended);
        return done(status, ended);
      }
      case Request::kBeamsCount:
        return done(LLMC_OK, static_cast<int32_t>(llmc_beams_count(search_)));
      case Request::kBeamsResult:
        return beam_result();
      case Request::kBeamsEnd: {
        const llmc_status status = llmc_beams_end(search_);
        search_ = nullptr;
        return done(status);
      }
      default:
        break;
    }
    return refuse(LLMC_ERROR_ARGUMENT, "not a request of a model's runner");
  }

  bool begin_beams(uint64_t bytes) {
    const Beams wanted = *connection_.data_as<Beams>();
    Kept stops, memory;
    if (!stops.copy(connection_.data() + sizeof wanted, bytes - sizeof wanted))
      return refuse(LLMC_ERROR_MEMORY, kNoMemory);
    const llmc_beam_options options{
        .size = sizeof(llmc_beam_options),
        .beams = wanted.beams,
        .max_tokens = wanted.max_tokens,
        .stopping = wanted.stopping,
        .length_penalty = wanted.length_penalty,
        .stop_ids = static_cast<const int32_t*>(stops.memory),
        .stop_count = static_cast<uint32_t>((bytes - sizeof wanted) / sizeof(int32_t))};
    const size_t needed = llmc_beams_bytes(&options);
    if (needed == 0 || !memory.take(needed)) {
      stops.free();
      return refuse(needed == 0 ? LLMC_ERROR_ARGUMENT : LLMC_ERROR_MEMORY, "no room for the beams");
    }
    const llmc_status status = llmc_beams_init(memory.memory, needed, session_, &options, &search_);
    if (status == LLMC_OK) {
      stops.swap(beam_stops_);
      memory.swap(beams_);
    }
    stops.free();
    memory.free();
    return done(status);
  }

  bool beam_result() {
    const int32_t* tokens = nullptr;
    size_t n = 0;
    float score = 0;
    const llmc_status status =
        llmc_beams_result(search_, connection_.request().argument, &tokens, &n, &score);
    if (status != LLMC_OK) return done(status);
    Kept all;
    if (!all.take((n + 1) * sizeof(int32_t))) return refuse(LLMC_ERROR_MEMORY, kNoMemory);
    auto* const words = static_cast<int32_t*>(all.memory);
    __builtin_memcpy(words, &score, sizeof score);
    __builtin_memcpy(words + 1, tokens, n * sizeof(int32_t));
    const bool written =
        connection_.reply(LLMC_OK, 0, position(), words, (n + 1) * sizeof(int32_t));
    all.free();
    return written;
  }

  bool start() {
    if (session_ != nullptr || connection_.request().bytes < sizeof(Start))
      return refuse(LLMC_ERROR_ARGUMENT, "a runner starts one session");
    const Start& wanted = *connection_.data_as<Start>();
    static char path[kMaxPath];
    if (!copy_path(connection_, path))
      return refuse(LLMC_ERROR_FILE, "the path of the weights is too long");
    llmc_config config{};
    config.size = sizeof config;
    config.threads = wanted.threads;
    config.chunk = wanted.chunk;
    config.cores = wanted.cores;
    config.begin = wanted.begin;
    config.full_context = wanted.full_context;
    config.keep_first = wanted.keep_first;
    config.log = keep_message;
    config.log_user = this;
    if (wanted.threads > 1) {
      if (!workers_.start(wanted.threads))
        return refuse(LLMC_ERROR_MEMORY, "the system gives no more threads");
      config.parallel_for = Workers::run;
      config.parallel_user = &workers_;
    }
    if (path[0] != 0) {
      uint64_t bytes = 0;
      config.weights = map_file(path, &bytes);
      config.weights_bytes = bytes;
      if (config.weights == nullptr)
        return refuse(LLMC_ERROR_FILE, "the file of the weights cannot be read");
    }
    const uint64_t bytes = LLMC_RUNNER_MODEL.arena_bytes;
    void* const arena = allocate(bytes);
    if (arena == nullptr) return refuse(LLMC_ERROR_MEMORY, "no memory for the arena");
    return done(LLMC_RUNNER_INIT(&session_, arena, bytes, &config));
  }

  // These functions keep a copy of the request's data, because the session uses it after the call.
  bool set_logit_bias(uint64_t bytes) {
    Kept kept;
    if (!kept.copy(connection_.data(), bytes)) return refuse(LLMC_ERROR_MEMORY, kNoMemory);
    const llmc_status status =
        llmc_set_logit_bias(session_, reinterpret_cast<const llmc_logit_bias*>(kept.memory),
                            bytes / sizeof(llmc_logit_bias));
    if (status != LLMC_OK) kept.free();  // otherwise the sequence, and later its forks, use it
    return done(status);
  }
  bool set_dry_breakers(uint64_t bytes) {
    const DryBreakers sizes = *connection_.data_as<DryBreakers>();
    const uint64_t words = 2 * uint64_t{sizes.count} + 1 + sizes.tails;
    if (bytes != sizeof sizes + words * sizeof(uint32_t))
      return refuse(LLMC_ERROR_ARGUMENT, "breakers of another size than they say");
    Kept kept;
    if (!kept.copy(connection_.data() + sizeof sizes, bytes - sizeof sizes))
      return refuse(LLMC_ERROR_MEMORY, kNoMemory);
    const auto* const heads = reinterpret_cast<const int32_t*>(kept.memory);
    const llmc_dry_breakers breakers{heads, reinterpret_cast<const uint32_t*>(heads + sizes.count),
                                     heads + 2 * uint64_t{sizes.count} + 1, sizes.count};
    const llmc_status status = llmc_set_dry_breakers(session_, &breakers);
    if (status == LLMC_OK) kept.swap(breakers_);
    kept.free();
    return done(status);
  }
  bool set_grammar(uint64_t bytes) {
    Kept tables, memory;
    if ((bytes > 0 && !tables.copy(connection_.data(), bytes)) ||
        !memory.take(LLMC_GRAMMAR_BYTES)) {
      tables.free();
      return refuse(LLMC_ERROR_MEMORY, kNoMemory);
    }
    llmc_grammar* grammar = nullptr;
    llmc_status status = bytes > 0 ? llmc_grammar_init(memory.memory, LLMC_GRAMMAR_BYTES,
                                                       tables.memory, bytes, &grammar)
                                   : llmc_grammar_init(memory.memory, LLMC_GRAMMAR_BYTES, kGrammar,
                                                       grammar_bytes(), &grammar);
    if (status == LLMC_OK) status = llmc_set_grammar(session_, grammar);
    if (status == LLMC_OK) {
      tables.swap(grammar_tables_);
      memory.swap(grammar_memory_);
    }
    tables.free();
    memory.free();
    return done(status);
  }
  bool candidates(const Candidates& wanted) {
    const uint32_t n = wanted.n < LLMC_RUNNER_MODEL.vocab ? wanted.n : LLMC_RUNNER_MODEL.vocab;
    Kept room;
    if (!room.take(n * sizeof(llmc_candidate))) return refuse(LLMC_ERROR_MEMORY, kNoMemory);
    auto* const found = static_cast<llmc_candidate*>(room.memory);
    size_t count = 0;
    const llmc_status status = llmc_candidates(session_, wanted.which, found, n, &count);
    const bool written = status != LLMC_OK ? done(status)
                                           : connection_.reply(LLMC_OK, 0, position(), found,
                                                               count * sizeof(llmc_candidate));
    room.free();
    return written;
  }

  bool logits(const float* values, uint64_t rows = 1) {
    const uint64_t count = values != nullptr ? rows * LLMC_RUNNER_MODEL.vocab : 0;
    return connection_.reply(LLMC_OK, 0, position(), values, count * sizeof(float));
  }
  bool done(llmc_status status, int32_t value = 0) {
    if (status == LLMC_OK) return connection_.reply(status, value, position());
    return refuse(status, message_[0] != 0 ? message_ : llmc_status_text(status));
  }
  bool refuse(llmc_status status, const char* message) {
    return connection_.fail(status, position(), message);
  }
  uint64_t position() const { return session_ != nullptr ? llmc_position(session_) : 0; }

  static void keep_message(void* self, int, const char* text) {
    char* const to = static_cast<ModelRunner*>(self)->message_;
    size_t i = 0;
    for (; text[i] != 0 && i + 1 < sizeof message_; ++i) to[i] = text[i];
    to[i] = 0;
  }

  static constexpr const char* kNoMemory = "the system gives no more memory";

  /// Owned memory. Must be released with free().
  struct Kept {
    void* memory = nullptr;
    uint64_t bytes = 0;
    bool take(uint64_t wanted) {
      bytes = wanted + 1;  // never zero
      memory = allocate(bytes);
      return memory != nullptr;
    }
    bool copy(const unsigned char* from, uint64_t count) {
      if (!take(count)) return false;
      __builtin_memcpy(memory, from, count);
      return true;
    }
    void swap(Kept& other) {
      const Kept mine = *this;
      *this = other;
      other = mine;
    }
    void free() {
      if (memory != nullptr) release(memory, bytes);
      memory = nullptr;
    }
  };

  Connection connection_;
  Workers workers_;
  Kept breakers_, grammar_tables_, grammar_memory_, beam_stops_, beams_;
  llmc_session* session_ = nullptr;
  llmc_beams* search_ = nullptr;
  char message_[512] = {};
};

}  // namespace
}  // namespace llmc::runner

extern "C" int llmc_runner_main() {
  static llmc::runner::ModelRunner runner;
  runner.serve();
  return 0;
}
