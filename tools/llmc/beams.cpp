#include "tools/llmc/beams.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/check.h"
#include "compiler/support/stopwatch.h"
#include "runtime/hosted/chat/stop_texts.h"
#include "tools/llmc/numbers.h"

namespace llmc::cli {
namespace {

constexpr std::uint32_t kMaxBeams = 256;

/// Returns the maximum number of tokens: -n, limited to those that fit after the prompt. The last
/// token needs no room, because it is not run.
std::uint32_t tokens_of(const RunCommand& command, const exec::ModelFacts& model,
                        std::uint32_t position) {
  const std::uint32_t room = model.ctx - position + 1;
  return command.count < 0 ? room : std::min(static_cast<std::uint32_t>(command.count), room);
}

/// Runs a search to its end and returns the texts that it found, best first. Calls `after_first`
/// after the first step.
Result<std::vector<BeamText>> run_search(exec::Session& session, const llmc_beam_options& options,
                                         const std::function<Status()>& after_first) {
  std::vector<std::uint64_t> memory(llmc_beams_bytes(&options) / sizeof(std::uint64_t));
  LLMC_TRY(llmc_beams* const search, session.begin_beams(memory, options));
  int done = 0;
  for (bool first = true; !done; first = false) {
    LLMC_TRY(done, session.step_beams(search));
    if (first) LLMC_RETURN_IF_ERROR(after_first());
  }
  LLMC_TRY(std::vector<exec::BeamResult> results, session.end_beams(search));
  std::vector<BeamText> texts;
  for (exec::BeamResult& result : results)
    texts.push_back({.ids = std::move(result.tokens), .text = {}, .score = result.score});
  return texts;
}

}  // namespace

void add_beam_options(CLI::App& app, BeamOptions& options) {
  options.option = add_whole_number(app, "--beams", options.beams, 1, kMaxBeams,
                                    "Beam search with N beams (default: sampling)");
  auto* penalty =
      add_number(app, "--length-penalty", options.length_penalty, -16, 16,
                 "Divide the score of a beam by length^X; > 0 favours long texts (default: 1)");
  const auto take_stopping = [&options](const std::string& when) {
    options.stopping = when == "true"    ? LLMC_BEAMS_FIRST
                       : when == "never" ? LLMC_BEAMS_NEVER
                                         : LLMC_BEAMS_LIKELY;
  };
  auto* early = app.add_option_function<std::string>(
                       "--early-stopping", take_stopping,
                       "End the search when no beam is likely to become better (false), "
                       "when all have ended (true), or when none can become better "
                       "(never) (default: false)")
                    ->check(CLI::IsMember({"false", "true", "never"}))
                    ->type_name("WHEN");
  for (CLI::Option* option : {options.option, penalty, early}) option->group("Beam search");
  penalty->needs(options.option);
  early->needs(options.option);
  for (CLI::Option* other : app.get_options([](const CLI::Option* option) {
         constexpr std::string_view kOthers[] = {"--logprobs", "--context-shift", "--keep"};
         return (option->get_group() == "Sampling" && !option->check_name("--logit-bias")) ||
                (option->get_group() == "Grammar" && !option->check_name("--no-grammar")) ||
                std::ranges::any_of(kOthers, [&](std::string_view name) {
                  return option->check_name(std::string(name));
                });
       }))
    options.option->excludes(other);
}

void make_room_for_beams(const BeamOptions& options, driver::CompileOptions& compile) {
  if (!options.on()) return;
  compile.sequences = std::max(compile.sequences, options.beams);
  compile.batch = std::max(compile.batch, options.beams);
}

Result<RunResult> search_beams(const RunCommand& command, const exec::NativeModel& native,
                               const RunPrompts& prompts, const hosted::Tokenizer* tokenizer,
                               const RunStops& stops, const RunOutput& output) {
  const exec::ModelFacts& model = native.model();
  const std::uint32_t beams = command.beams.beams;
  if (model.sequences < beams || model.batch < beams)
    return usage_error(
        fmt::format("--beams={} needs a bundle with as many sequences per step", beams),
        fmt::format("compile it with --sequences={0} --batch={0}", beams));
  if (command.count == 0)
    return usage_error("--beams generates at least one token", "use -n 1 or more");
  LLMC_TRY(const std::uint32_t threads, threads_for(command.threads, model.threads_max));
  LLMC_RETURN_IF_ERROR(check_length(command, prompts, model));
  exec::SessionOptions options{.threads = threads, .cores = command.cores};
  if (prompts.begins_empty) options.begin = LLMC_BEGIN_EMPTY;
  LLMC_TRY(auto session, native.start(options));
  const auto sampling = [&](bool first) {
    return sampling_of(command, stops, /*grammar=*/false, first, model.vocab);
  };
  LLMC_RETURN_IF_ERROR(use_sampling(sampling(true), tokenizer, model.vocab, *session));
  if (output.begin) output.begin();

  RunResult result;
  Stopwatch watch;
  for (const exec::EncoderInput& source : prompts.sources)
    LLMC_RETURN_IF_ERROR(session->encode(source));
  LLMC_RETURN_IF_ERROR(session->prefill(prompts.text));
  result.prompt_seconds = watch.seconds();
  watch.restart();
  const std::uint32_t most = tokens_of(command, model, session->position());
  const std::vector<std::int32_t> stop_ids =
      command.ignore_eos ? std::vector<std::int32_t>() : stops.ids;
  LLMC_TRY(result.beams,
           run_search(*session,
                      {.size = sizeof(llmc_beam_options),
                       .beams = beams,
                       .max_tokens = most,
                       .stopping = command.beams.stopping,
                       .length_penalty = command.beams.length_penalty,
                       .stop_ids = stop_ids.data(),
                       .stop_count = static_cast<std::uint32_t>(stop_ids.size())},
                      [&] { return session->set_logit_bias(sampling(false).biases); }));
  result.generation_seconds = watch.seconds();
  result.device = session->device_use();
  LLMC_CHECK(!result.beams.empty());
  const bool at_start = tokenizer != nullptr && compiled_in(prompts, model) == 0 &&
                        tokenizer->decode(prompts.text).empty();
  for (BeamText& beam : result.beams) {
    beam.stopped = std::ranges::find(stop_ids, beam.ids.back()) != stop_ids.end();
    const auto end = beam.ids.end() - (beam.stopped ? 1 : 0);
    if (tokenizer == nullptr) continue;
    hosted::StreamDecoder decoder(*tokenizer, at_start);
    hosted::StopTexts stop_texts(stops.texts);
    for (auto id = beam.ids.begin(); id != end && !stop_texts.found(); ++id)
      beam.text += stop_texts.add(decoder.add(*id));
    if (!stop_texts.found()) beam.text += stop_texts.add(decoder.finish());
    if (!stop_texts.found()) beam.text += stop_texts.finish();
    beam.stop_text = stop_texts.found();
  }
  const BeamText& best = result.beams.front();
  result.ids.assign(best.ids.begin(), best.ids.end() - (best.stopped ? 1 : 0));
  result.text = best.text;
  result.stopped = best.stop_text ? hosted::Stopped::kStopText
                   : best.stopped ? hosted::Stopped::kStopToken
                   : best.ids.size() == most && most != static_cast<std::uint32_t>(command.count)
                       ? hosted::Stopped::kContext
                       : hosted::Stopped::kLength;
  if (best.stopped) result.stop_token = best.ids.back();
  if (output.rest && !result.text.empty()) output.rest(result.text);
  return result;
}

}  // namespace llmc::cli
