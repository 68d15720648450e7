#include "tools/llmc/run_sources.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "compiler/evaluate/logits.h"
#include "compiler/support/stopwatch.h"
#include "runtime/hosted/chat/stop_texts.h"

namespace llmc::cli {
namespace {

/// The text that is generated for one source.
struct SourceText {
  SourceText(std::uint32_t number, const std::vector<std::string>& stops)
      : sequence(number), stop_texts(stops) {}

  /// Adds the characters of `token`. Returns false if a stop text ends it.
  bool add(std::int32_t token) {
    result.ids.push_back(token);
    if (decoder) result.text += stop_texts.add(decoder->add(token));
    if (stop_texts.found()) result.stopped = hosted::Stopped::kStopText;
    return !stop_texts.found();
  }
  /// Adds the characters that were withheld.
  void finish() {
    if (!decoder || stop_texts.found()) return;
    result.text += stop_texts.add(decoder->finish());
    result.text += stop_texts.finish();
    if (stop_texts.found()) result.stopped = hosted::Stopped::kStopText;
  }

  std::uint32_t sequence;
  RunResult result;
  evaluate::LogitHash hash;  // of all logit vectors of the text
  std::optional<hosted::StreamDecoder> decoder;
  hosted::StopTexts stop_texts;
};

Status check_room(std::size_t sources, const exec::ModelFacts& model) {
  if (std::min({model.sources, model.sequences, model.batch}) >= sources) return ok_status();
  return usage_error(
      fmt::format("{} sources need a bundle with as many sources and sequences per step", sources),
      fmt::format("compile it with --sources={0} --sequences={0} --batch={0}", sources));
}

/// Appends `tokens`, one for each of `texts`, in one step, and hashes the logits.
Status append(exec::Session& session, const std::vector<SourceText*>& texts,
              const std::vector<std::int32_t>& tokens) {
  std::vector<std::uint32_t> sequences;
  for (const SourceText* text : texts) sequences.push_back(text->sequence);
  LLMC_RETURN_IF_ERROR(
      session.call(&exec::Api::append_batch, sequences.data(), sequences.size(), tokens.data()));
  for (SourceText* text : texts) {
    LLMC_RETURN_IF_ERROR(session.call(&exec::Api::select, text->sequence));
    LLMC_TRY(const std::span<const float> logits, session.logits());
    text->hash.add(logits);
  }
  return ok_status();
}

}  // namespace

Status check_sources(const RunCommand& command) {
  const char* const option = command.beams.on()      ? "--beams"
                             : command.guidance.on() ? "--cfg-scale"
                             : command.logprobs > 0  ? "--logprobs"
                             : command.context.shift ? "--context-shift"
                                                     : nullptr;
  if (command.source.count() <= 1 || option == nullptr) return ok_status();
  return usage_error(fmt::format("{} takes a single source", option),
                     "run the sources one after the other");
}

void make_room_for_sources(const SourceOptions& options, driver::CompileOptions& compile) {
  const auto count = static_cast<std::uint32_t>(options.count());
  if (count <= 1) return;
  for (std::uint32_t* limit : {&compile.sources, &compile.sequences, &compile.batch})
    *limit = std::max(*limit, count);
}

Result<std::vector<RunResult>> generate_each(const RunCommand& command,
                                             const exec::NativeModel& native,
                                             const RunPrompts& prompts,
                                             const hosted::Tokenizer* tokenizer,
                                             const RunStops& stops) {
  const exec::ModelFacts& model = native.model();
  LLMC_RETURN_IF_ERROR(check_room(prompts.sources.size(), model));
  LLMC_TRY(const std::uint32_t threads, threads_for(command.threads, model.threads_max));
  LLMC_RETURN_IF_ERROR(check_length(command, prompts, model));
  LLMC_TRY(auto session, native.start({.threads = threads, .cores = command.cores}));
  const auto sampling = [&](bool first) {
    return sampling_of(command, stops, /*grammar=*/false, first, model.vocab);
  };
  LLMC_RETURN_IF_ERROR(use_sampling(sampling(true), tokenizer, model.vocab, *session));

  const bool at_start = tokenizer != nullptr && tokenizer->decode(prompts.text).empty();
  std::deque<SourceText> texts;
  std::vector<SourceText*> unfinished;
  Stopwatch watch;
  for (std::size_t i = 0; i < prompts.sources.size(); ++i) {
    std::uint32_t sequence = 0;  // forks of it inherit its sampling
    if (i > 0) {
      LLMC_TRY(sequence, session->get<std::uint32_t>(&exec::Api::fork, 0));
    }
    SourceText& text = texts.emplace_back(sequence, stops.texts);
    if (tokenizer != nullptr) text.decoder.emplace(*tokenizer, at_start);
    unfinished.push_back(&text);
    LLMC_RETURN_IF_ERROR(session->call(&exec::Api::select, sequence));
    LLMC_RETURN_IF_ERROR(session->encode(prompts.sources[i]));
    LLMC_RETURN_IF_ERROR(session->prefill(prompts.text));
    LLMC_TRY(const std::span<const float> logits, session->logits());
    text.hash.add(logits);
  }
  const double prompt_seconds = watch.seconds();

  watch.restart();
  const std::size_t max = command.count < 0 ? SIZE_MAX : static_cast<std::size_t>(command.count);
  for (std::size_t count = 0; count < max && !unfinished.empty(); ++count) {
    std::vector<SourceText*> others;
    std::vector<std::int32_t> tokens;
    for (SourceText* text : unfinished) {
      LLMC_RETURN_IF_ERROR(session->call(&exec::Api::select, text->sequence));
      LLMC_TRY(const std::int32_t token, session->sample());
      if (!command.ignore_eos && std::ranges::find(stops.ids, token) != stops.ids.end()) {
        text->result.stopped = hosted::Stopped::kStopToken;
        text->result.stop_token = token;
        continue;
      }
      if (count == 0 && !stops.suppressed_first.empty())
        LLMC_RETURN_IF_ERROR(session->set_logit_bias(sampling(false).biases));
      if (!text->add(token) || count + 1 == max) continue;
      if (session->position() == model.ctx) {
        text->result.stopped = hosted::Stopped::kContext;
        continue;
      }
      others.push_back(text);
      tokens.push_back(token);
    }
    unfinished = std::move(others);
    if (!unfinished.empty()) LLMC_RETURN_IF_ERROR(append(*session, unfinished, tokens));
  }

  std::vector<RunResult> results;
  for (SourceText& text : texts) {
    text.finish();
    text.result.prompt_seconds = prompt_seconds;
    text.result.generation_seconds = watch.seconds();
    text.result.device = session->device_use();  // of all texts together
    text.result.hash = text.hash.text();
    results.push_back(std::move(text.result));
  }
  return results;
}

}  // namespace llmc::cli
