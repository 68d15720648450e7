#include "tools/llmc/build_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "compiler/driver/compile.h"
#include "compiler/support/counted.h"
#include "tools/llmc/numbers.h"
#include "tools/llmc/plan_text.h"

namespace llmc::cli {

namespace {

constexpr std::uint32_t kMaxStages = 1024;

/// Returns `count` shards of a model; for a count of 1, the whole model.
std::vector<plan::ShardOption> shards(std::uint32_t count, bool by_memory) {
  std::vector<plan::ShardOption> all(count);
  for (std::uint32_t index = 0; count > 1 && index < count; ++index)
    all[index] = {index, count, by_memory};
  return all;
}

}  // namespace

void add_build_options(CLI::App& app, BuildOptions& options, ModelUse use) {
  add_model_options(app, options.model, use);
  add_function_options(app, options.function);
  add_grammar_options(app, options.grammar);
  add_system_prompt_options(app, options.system_prompt);
  app.add_option(
         "--weights", options.weights,
         "Storage of weights, embed: in the library, file: NAME.weights.bin (default: embed)")
      ->check(CLI::IsMember({"embed", "file"}))
      ->type_name("PLACE");
  for (const char* const name :
       {"--function", "--dim", "--grammar", "--grammar-file", "--json-schema", "--json-schema-file",
        "--system-prompt", "--system-prompt-tokens", "--weights"})
    options.model.fixed.push_back(app.get_option(name));
  app.add_option("--stages", options.stages,
                 "Cut the model into N libraries of consecutive layers, for N machines; auto: the "
                 "smallest N for which weights and arena of each fit --max-ram")
      ->check(refuse_empty)
      ->type_name("N");
  app.add_option("--max-ram", options.max_ram,
                 "Fail with exit code 5 if the arena is larger, such as 512K or 64M")
      ->type_name("BYTES");
}

Result<driver::CompileOptions> driver_options(const BuildOptions& options) {
  LLMC_TRY(driver::CompileOptions compile, compile_options(options.model));
  LLMC_RETURN_IF_ERROR(apply(options.function, compile));
  LLMC_RETURN_IF_ERROR(apply(options.system_prompt, compile));
  LLMC_TRY(compile.max_ram, parse_bytes(options.max_ram, "--max-ram"));
  compile.weights =
      options.weights == "file" ? driver::WeightsStorage::kFile : driver::WeightsStorage::kEmbed;
  LLMC_TRY(compile.grammar, grammar_source(options.grammar));
  return compile;
}

Result<std::vector<plan::ShardOption>> stages_of(const BuildOptions& options,
                                                 driver::CompileOptions compile,
                                                 const driver::Source& source,
                                                 std::span<const std::string> targets,
                                                 std::uint64_t max_ram, Progress& line) {
  if (options.stages.empty()) return shards(1, false);
  if (source.is_function)
    return usage_error("--stages needs a decoder with a cache", "leave out --stages");
  if (options.stages != "auto") {
    const auto counts = parse_counts(options.stages, "--stages", kMaxStages, 2);
    if (counts.ok() && counts->size() == 1) return shards(counts->front(), false);
    return usage_error(fmt::format("--stages takes a number from 2 to {}, or auto, not '{}'",
                                   kMaxStages, printable(options.stages, 80)),
                       "each shard is for one machine");
  }
  if (max_ram == 0)
    return usage_error("--stages auto needs --max-ram",
                       "give the memory of one machine, such as --max-ram 2G");
  compile.max_ram = 0;
  compile.calibration.reset();  // sizes do not depend on it
  // Returns whether all shards fit for all targets, which are cut at the same layers.
  const auto fit = [&](const std::vector<plan::ShardOption>& stages) -> Result<bool> {
    for (const plan::ShardOption& stage : stages) {
      compile.shard = stage;
      LLMC_TRY(const auto plans, driver::plan_model(compile, source, targets, progress_of(line)));
      line.clear();
      for (const plan::Plan& plan : plans)
        if (plan.weights_bytes + plan.arena_bytes > max_ram) return false;
    }
    return true;
  };
  for (std::uint32_t count = 1; count <= kMaxStages; ++count) {
    for (const bool by_memory : {false, true}) {  // prefer the faster cuts
      if (count == 1 && by_memory) continue;
      std::vector<plan::ShardOption> stages = shards(count, by_memory);
      const auto enough = fit(stages);
      if (!enough.ok() && count > 1 && enough.error().first().kind == ErrorKind::kUsage)
        return Diagnostic{.kind = ErrorKind::kOverBudget,
                          .message = fmt::format("no cut between layers fits {} bytes", max_ram),
                          .hint = "a larger --max-ram, or a smaller --ctx or --chunk"};
      if (!enough.ok()) return enough.error();
      if (*enough) return stages;
    }
  }
  return Diagnostic{.kind = ErrorKind::kOverBudget,
                    .message = fmt::format("more than {} stages are needed", kMaxStages)};
}

Result<driver::Source> import_source(const BuildOptions& options, driver::CompileOptions& compile,
                                     const Globals& globals, Progress& line) {
  compile.import.on_warning = warn_once(globals);
  note_model_file(globals, options.model.model);
  LLMC_TRY(driver::Source source, driver::read_source(compile, progress_of(line)));
  if (source.is_function) note_without_effect(options.model, globals);
  return source;
}

void note_plan(const BuildOptions& options, const plan::Plan& plan, const Globals& globals) {
  note_warnings(globals, plan);
  const plan::PlanOptions& planned = plan.options;
  const bool has_cache = plan.kv.blocks > 0;
  if (has_cache && planned.ctx == options.model.compile.ctx && !planned.ctx_given &&
      planned.trained_ctx == 0)
    remark(globals, fmt::format("the model does not say which context it was trained for: it gets "
                                "{} tokens; --ctx sets another",
                                planned.ctx));
  if (has_cache && planned.shard.index == 0 && planned.tokenizer_file.empty() &&
      planned.tokenizer_refused.empty())
    remark(globals,
           fmt::format("{} comes without a tokenizer (docs/tokenizers.md): `llmc run` will take "
                       "token ids instead of text",
                       printable(options.model.model, 200)));
  const std::uint32_t chunk = options.model.compile.chunk;
  const std::uint32_t most = std::max(planned.ctx, planned.batch);
  if (has_cache && chunk > most)
    remark(globals, fmt::format("--chunk {} takes memory that no prompt uses: the context has {}"
                                "\nhint: --chunk {}",
                                chunk, counted(planned.ctx, "token"), most));
  if (options.model.quant_option->count() > 0)
    note_kept_codes(globals, plan::rounding_of(plan.program), options.model.quant,
                    options.model.compile.requantize);
  if (options.model.compile.requantize) note_requantized(globals, plan::rounding_of(plan.program));
}

void print_targets(const Json& list) {
  print_json(list.size() == 1 ? list.front() : list);
}

}  // namespace llmc::cli
