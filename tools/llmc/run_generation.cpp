#include "tools/llmc/run_generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "compiler/evaluate/logits.h"
#include "compiler/support/counted.h"
#include "compiler/support/file.h"
#include "compiler/support/stopwatch.h"
#include "runtime/hosted/chat/stop_texts.h"

namespace llmc::cli {
namespace {

constexpr std::int32_t kUntilFull = -2;  // value of -n

/// Returns the file of a saved state. A model in several processes has one file per process.
std::string state_file(const std::string& file, const exec::ModelFacts& model) {
  return model.shards == 0 ? file : fmt::format("{}.{}", file, model.shard);
}

/// Loads a saved state. Errors name its file.
Status load_state(exec::Session& session, const std::string& file) {
  LLMC_TRY(const std::string state, read_file(file));
  const Status loaded = session.load_state(state);
  if (loaded.ok() || loaded.error().first().kind != ErrorKind::kBadInput) return loaded;
  return file_failure(ErrorKind::kBadInput, file, loaded.error().first().message,
                      "give a file that --save-state wrote with the same model and formats");
}

/// Appends the prompt: its tokens, and the rows of its images. If it continues a saved text, leaves
/// out the tokens that begin a text.
Status prefill(exec::Session& session, const RunPrompts& prompts, bool continues) {
  const std::span<const std::int32_t> ids = prompts.text;
  std::size_t at = continues ? prompts.beginning : 0;
  for (const PromptImage& image : prompts.images) {
    const std::vector<std::span<const std::byte>> inputs(image.inputs.begin(), image.inputs.end());
    LLMC_RETURN_IF_ERROR(session.prefill(ids.subspan(at, image.begin - at)));
    LLMC_TRY(const std::vector<float> rows, session.encode_image(inputs));
    const std::size_t used = image.used(rows.size() / image.width) * image.width;
    const std::span used_rows = std::span(rows).first(used);
    LLMC_RETURN_IF_ERROR(image.positions.empty()
                             ? session.append_embeddings(used_rows)
                             : session.append_embeddings_at(used_rows, image.positions));
    at = image.end;
  }
  return session.prefill(ids.subspan(at));
}

}  // namespace

SamplingOptions sampling_of(const RunCommand& command, const RunStops& stops, bool grammar,
                            bool first, std::uint32_t vocabulary) {
  SamplingOptions options = command.sampling;
  const auto ban = [&](const std::vector<std::int32_t>& ids) {
    for (const std::int32_t id : ids)
      if (static_cast<std::uint32_t>(id) < vocabulary)
        options.biases.push_back({id, -std::numeric_limits<float>::infinity()});
  };
  if (grammar && command.ignore_eos) ban(stops.ids);
  ban(stops.suppressed);
  if (first) ban(stops.suppressed_first);
  return options;
}

Status check_length(const RunCommand& command, const RunPrompts& prompts,
                    const exec::ModelFacts& model) {
  const std::uint32_t before = compiled_in(prompts, model);
  std::size_t tokens = prompts.text.size();
  for (const PromptImage& image : prompts.images)
    tokens = tokens - (image.end - image.begin) + image.used(model.image_rows);
  const std::size_t longest = std::max(tokens, prompts.negative.size());
  if (longest <= model.ctx - before) return ok_status();
  return file_failure(
      ErrorKind::kBadInput, command.model.model,
      fmt::format("a prompt of {} does not fit the context of {}{}", counted(longest, "token"),
                  model.ctx, after_compiled_in(before)),
      fmt::format(
          "{}use a shorter prompt, or compile with a larger --ctx",
          command.context.shift ? "--context-shift only makes room for generated text: " : ""));
}

std::uint32_t compiled_in(const RunPrompts& prompts, const exec::ModelFacts& model) {
  return prompts.begins_empty ? 0 : model.prompt_tokens;
}

std::string after_compiled_in(std::uint32_t tokens) {
  return tokens == 0 ? std::string() : " after " + counted(tokens, "compiled-in token");
}

Result<RunResult> generate(const RunCommand& command, const exec::NativeModel& native,
                           const RunPrompts& prompts, const hosted::Tokenizer* tokenizer,
                           const RunStops& stops, const std::optional<std::string>& grammar,
                           const RunOutput& output, const Globals& globals) {
  const exec::ModelFacts& model = native.model();
  LLMC_TRY(const std::uint32_t threads, threads_for(command.threads, model.threads_max));
  LLMC_RETURN_IF_ERROR(check_length(command, prompts, model));
  exec::SessionOptions start_options{.threads = threads, .cores = command.cores};
  if (prompts.begins_empty) start_options.begin = LLMC_BEGIN_EMPTY;
  if (command.count != kUntilFull) {
    apply(command.context, compiled_in(prompts, model), prompts.beginning, prompts.text.size(),
          start_options);
  }
  LLMC_TRY(auto session, native.start(start_options));
  const auto sampling = [&](bool first) {
    return sampling_of(command, stops, grammar.has_value(), first, model.vocab);
  };
  LLMC_RETURN_IF_ERROR(use_sampling(sampling(true), tokenizer, model.vocab, *session));
  // Set the grammar before the prompt to report errors early, and again after it, where it starts.
  if (grammar) LLMC_RETURN_IF_ERROR(session->set_grammar(*grammar));
  LLMC_TRY(const auto drafts,
           DraftModel::load(command.lookup.draft_model, command.model, native, start_options,
                            sampling(false), tokenizer, command.lookup.tokens, globals));

  RunResult result;
  evaluate::LogitHash hash;  // of all logit vectors of the run, with --json
  GuidedText guided(*session);
  LookupText text(*session, model, command.lookup,
                  command.ignore_eos ? std::vector<std::int32_t>() : stops.ids, drafts.get());
  Stopwatch watch;
  for (const exec::EncoderInput& source : prompts.sources)
    LLMC_RETURN_IF_ERROR(session->encode(source));
  const double encoder_seconds = watch.seconds();
  if (command.guidance.on())
    LLMC_RETURN_IF_ERROR(guided.start_guidance(prompts.negative, command.guidance.scale));
  if (!command.load_state.empty())
    LLMC_RETURN_IF_ERROR(load_state(*session, state_file(command.load_state, model)));
  if (output.begin) output.begin();
  watch.restart();
  LLMC_RETURN_IF_ERROR(prefill(*session, prompts, !command.load_state.empty()));
  result.prompt_seconds = encoder_seconds + watch.seconds();
  if (grammar) LLMC_RETURN_IF_ERROR(session->set_grammar(*grammar));
  // Returns whether the grammar allows no further text. Tokens ahead are further text.
  const auto is_complete = [&]() -> Result<bool> {
    if (!grammar || text.is_ahead()) return false;
    LLMC_TRY(const int state, session->get<int>(&exec::Api::text_state));
    result.complete = state != LLMC_GRAMMAR_INCOMPLETE;
    return state == LLMC_GRAMMAR_COMPLETE;
  };
  const auto add_logits = [&]() -> Status {
    if (!globals.json) return ok_status();  // greedy sampling may compute few logits
    LLMC_TRY(const std::span<const float> logits, text.logits());
    hash.add(logits);
    return ok_status();
  };
  LLMC_RETURN_IF_ERROR(add_logits());
  LLMC_TRY(bool ended, is_complete());  // the grammar may accept only the empty text
  if (ended) result.stopped = hosted::Stopped::kComplete;

  std::optional<hosted::StreamDecoder> decoder;
  // With a grammar, a space at the start belongs to the text.
  const bool at_start = tokenizer != nullptr && !grammar && command.load_state.empty() &&
                        compiled_in(prompts, model) == 0 && tokenizer->decode(prompts.text).empty();
  if (tokenizer != nullptr) decoder.emplace(*tokenizer, at_start);
  hosted::StopTexts stop_texts(stops.texts);
  watch.restart();
  const std::size_t max = command.count < 0 ? SIZE_MAX : static_cast<std::size_t>(command.count);
  std::int32_t last_token = -1;  // the token appended last
  while (!ended && result.ids.size() < max) {
    // Sample the first token alone, because its biases may differ, and because a text without
    // tokens must not change the session.
    LLMC_TRY(const std::int32_t token,
             text.sample(result.ids.empty() ? 1 : max - result.ids.size()));
    if (!command.ignore_eos && std::ranges::find(stops.ids, token) != stops.ids.end()) {
      result.stopped = hosted::Stopped::kStopToken;
      result.stop_token = token;
      break;
    }
    result.ids.push_back(token);
    if (result.ids.size() == 1 && !stops.suppressed_first.empty())
      LLMC_RETURN_IF_ERROR(session->set_logit_bias(sampling(false).biases));
    if (command.logprobs > 0) {
      TokenLogprobs entry;
      LLMC_TRY(entry.chosen, session->get<float>(&exec::Api::logprob, token));
      LLMC_TRY(entry.top, session->candidates(LLMC_CANDIDATES_MODEL, command.logprobs));
      result.logprobs.push_back(std::move(entry));
    }
    const std::string piece = decoder ? stop_texts.add(decoder->add(token)) : std::string();
    result.text += piece;
    const TokenLogprobs* const logprobs = command.logprobs > 0 ? &result.logprobs.back() : nullptr;
    if (output.token && !output.token(token, piece, logprobs)) break;  // the caller checks stdout
    if (stop_texts.found()) {
      result.stopped = hosted::Stopped::kStopText;
      if (grammar) result.complete.reset();  // it describes the text before this token
      break;
    }
    const bool last = result.ids.size() == max;
    if (last && !grammar && command.save_state.empty()) break;  // no further token is needed
    if (!has_room(start_options, model,
                  command.guidance.on() ? guided.position() : text.position())) {
      result.stopped = last ? hosted::Stopped::kLength : hosted::Stopped::kContext;
      result.complete.reset();  // unknown, because the next token does not fit the cache
      break;
    }
    LLMC_RETURN_IF_ERROR(command.guidance.on() ? guided.append(token)
                                               : text.append(std::span(&token, 1)));
    last_token = token;
    LLMC_TRY(ended, is_complete());
    if (ended) result.stopped = hosted::Stopped::kComplete;
    if (!last && !ended) LLMC_RETURN_IF_ERROR(add_logits());
  }
  if (decoder && !stop_texts.found()) {
    std::string rest = stop_texts.add(decoder->finish());
    rest += stop_texts.finish();
    if (stop_texts.found()) result.stopped = hosted::Stopped::kStopText;
    result.text += rest;
    if (output.rest && !rest.empty()) output.rest(rest);
  }
  result.generation_seconds = watch.seconds();
  if (globals.json) result.hash = hash.text();
  result.tokens_per_pass = text.passes().tokens_per_pass();
  result.device = session->device_use();
  if (!command.save_state.empty()) {
    LLMC_RETURN_IF_ERROR(text.drop_ahead(last_token));
    LLMC_TRY(const std::string state, session->save_state());
    LLMC_RETURN_IF_ERROR(replace_file(state_file(command.save_state, model), state));
  }
  return result;
}

}  // namespace llmc::cli
