#include "compiler/driver/compile.h"

#include <fmt/format.h>

#include <chrono>
#include <deque>
#include <memory>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/bundle_writer.h"
#include "compiler/driver/chat_files.h"
#include "compiler/driver/function.h"
#include "compiler/driver/golden.h"
#include "compiler/driver/system_prompt.h"
#include "compiler/driver/tokenizer_file.h"
#include "compiler/driver/toolchain.h"
#include "compiler/driver/trained_context.h"
#include "compiler/emit/names.h"
#include "compiler/emit/weights.h"
#include "compiler/ir/text.h"
#include "compiler/plan/rounding.h"
#include "compiler/support/atomic_output.h"
#include "passes/assign_weight_formats.h"
#include "passes/pipeline.h"
#include "runtime/hosted/grammar/model_vocabulary.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;

class PhaseClock {
 public:
  explicit PhaseClock(std::vector<PhaseTime>& times) : times_(times) {}
  void finish(std::string phase) {
    const auto now = std::chrono::steady_clock::now();
    times_.push_back({std::move(phase), std::chrono::duration<double>(now - started_).count()});
    started_ = now;
  }

 private:
  std::vector<PhaseTime>& times_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

/// Import, passes and plans: all that is known before a weight is read.
struct Prepared {
  importer::ImportedModel model;
  BundleContent content;
  std::vector<plan::Plan> plans;  // one per target
};

Result<ir::Graph> run_passes(const ir::Graph& graph, const CompileOptions& options) {
  passes::PipelineOptions pipeline;
  pipeline.context.options.weights = options.quant;
  auto last = std::chrono::steady_clock::now();
  if (options.on_pass) {
    pipeline.dump = [&](std::size_t, std::string_view pass, const ir::Graph& after) -> Status {
      const auto now = std::chrono::steady_clock::now();
      options.on_pass(pass, std::chrono::duration<double>(now - last).count(),
                      options.want_ir ? ir::print(after) : std::string());
      last = std::chrono::steady_clock::now();
      return ok_status();
    };
  }
  LLMC_TRY(passes::PipelineResult result, passes::run_pipeline(graph, pipeline));
  return std::move(result.graph);
}

/// The tokens of options.system_prompt, if there is one.
Status read_system_prompt(const CompileOptions& options, Prepared& prepared,
                          plan::PlanOptions& planned) {
  if (!options.system_prompt) return ok_status();
  planned.prompt_source = options.system_prompt->source;
  BundleContent& content = prepared.content;
  LLMC_TRY(planned.prompt, system_prompt_ids(*options.system_prompt, content.tokenizer.get(),
                                             planned.tokenizer_refused, content.chat));
  return ok_status();
}

/// All but the target and what depends on it.
Result<plan::PlanOptions> plan_options(const CompileOptions& options) {
  plan::PlanOptions planned;
  planned.quant = format_name(options.quant);
  planned.name = options.name.empty() ? emit::derive_name(options.model) : options.name;
  LLMC_RETURN_IF_ERROR(emit::check_name(planned.name));
  planned.ctx = options.ctx;
  planned.ctx_given = options.ctx_given;
  planned.ctx_needed = options.ctx_needed;
  planned.block = options.block;
  planned.kv = options.kv;
  planned.threads_max = options.threads_max;
  planned.sequences = options.sequences;
  planned.batch = options.batch;
  planned.pool = options.pool;
  planned.contiguous = options.contiguous;
  planned.embed_weights = options.weights == WeightsPlace::kEmbed;
  return planned;
}

Result<plan::Plan> plan_stages(const ir::Graph& stages, plan::PlanOptions planned,
                               const CompileOptions& options, std::string_view target_name) {
  LLMC_TRY(planned.target, target::find(target_name, options.opt_level));
  planned.chunk = options.chunk != 0 ? options.chunk : planned.target->chunk;
  LLMC_TRY(plan::Plan plan, plan::make_plan(stages, planned));
  LLMC_RETURN_IF_ERROR(plan::check_budget(plan, options.max_ram));
  if (planned.embed_weights && plan.weights_bytes > kMaxEmbeddedBytes) {
    return failure(
        ErrorKind::kBadInput,
        fmt::format("{} bytes of weights cannot be embedded in a library", plan.weights_bytes),
        "use --weights=file: they are mapped at run time");
  }
  const std::uint64_t data = plan.prompt.bytes + (planned.embed_weights ? plan.weights_bytes : 0);
  if (plan.prompt.tokens > 0 && data > kMaxEmbeddedBytes) {
    return failure(
        ErrorKind::kBadInput,
        fmt::format("{} bytes of a system prompt's cache{} cannot be embedded in a library",
                    plan.prompt.bytes, planned.embed_weights ? " beside the weights" : ""),
        "a shorter prompt, --kv int8 or --weights=file make it less");
  }
  return plan;
}

/// Notes the tokenizer's vocabulary, and makes the tables of the grammar that is compiled in.
Status prepare_grammar(const CompileOptions& options, Prepared& prepared) {
  BundleContent& content = prepared.content;
  const std::uint64_t vocabulary = prepared.plans.front().program.vocabulary;
  const hosted::Tokenizer* const tokenizer = content.tokenizer.get();
  std::uint64_t hash = 0;
  if (tokenizer != nullptr)
    hash = hosted::grammar::vocabulary_hash(
        hosted::grammar::model_vocabulary(*tokenizer, vocabulary, content.chat));
  if (options.grammar.given()) {
    LLMC_TRY(hosted::grammar::Tables tables,
             grammar_tables(options.grammar, tokenizer, vocabulary, content.chat));
    content.grammar = std::move(tables.bytes);
  }
  for (plan::Plan& plan : prepared.plans) {
    plan.options.vocabulary_hash = hash;
    if (!options.grammar.given()) continue;
    plan.options.grammar_kind = kind_name(options.grammar.kind);
    plan.options.grammar_bytes = content.grammar.size();
  }
  return ok_status();
}

Status plan_targets(const ir::Graph& stages, const plan::PlanOptions& planned,
                    const CompileOptions& options, std::span<const std::string> targets,
                    Prepared& prepared) {
  for (const std::string& target : targets) {
    LLMC_TRY(plan::Plan plan, plan_stages(stages, planned, options, target));
    prepared.plans.push_back(std::move(plan));
  }
  return ok_status();
}

Result<Prepared> prepare(const CompileOptions& options, importer::ImportedModel model,
                         std::span<const std::string> targets, const Progress& progress,
                         PhaseClock& clock) {
  LLMC_TRY(plan::PlanOptions planned, plan_options(options));
  if (model.kind != importer::GraphKind::kDecoder) return not_a_decoder(model);
  Prepared prepared;
  prepared.model = std::move(model);
  prepared.content.tokenizer = read_tokenizer(options.model, prepared.model, planned);
  if (prepared.content.tokenizer && options.import.on_warning) {
    const auto& known = prepared.model.tokenizer;
    const auto warning = tokenizer_too_large(*prepared.content.tokenizer,
                                             known ? known->path : find_tokenizer(options.model),
                                             prepared.model.facts.vocabulary);
    if (warning) options.import.on_warning(*warning);
  }
  planned.prompt_template = prepared.model.prompt_template;
  LLMC_TRY(prepared.content.chat, read_chat_files(options.model));
  LLMC_TRY(planned.trained_ctx, trained_context(options.model));
  planned.golden = stored_hashes(options.model, golden_key(format_name(options.quant), options.kv));
  LLMC_RETURN_IF_ERROR(read_system_prompt(options, prepared, planned));

  report(progress, "passes", 0, 0);
  LLMC_TRY(const ir::Graph stages, run_passes(prepared.model.graph, options));
  clock.finish("passes");
  report(progress, "plan", 0, 0);
  LLMC_RETURN_IF_ERROR(plan_targets(stages, planned, options, targets, prepared));
  clock.finish("plan");
  if (options.grammar.given()) report(progress, "grammar", 0, 0);
  LLMC_RETURN_IF_ERROR(prepare_grammar(options, prepared));
  clock.finish("grammar");
  return prepared;
}

}  // namespace

std::optional<ir::WeightFormat> parse_weight_format(std::string_view text) {
  if (text == "q4") return ir::WeightFormat::kQ4;
  if (text == "q6") return ir::WeightFormat::kQ6;
  if (text == "q8") return ir::WeightFormat::kQ8;
  if (text == "f16") return ir::WeightFormat::kF16;
  if (text == "f32") return ir::WeightFormat::kF32;
  return std::nullopt;
}

std::string_view format_name(ir::WeightFormat format) {
  return plan::weight_format_name(format);
}

namespace {

/// Encodes the weights once and hands them to the writers of all bundles: what is stored does not
/// depend on the target.
Status write_weights(const plan::Plan& plan, std::deque<BundleWriter>& writers,
                     const Progress& progress) {
  for (BundleWriter& writer : writers) LLMC_RETURN_IF_ERROR(writer.begin_weights());
  const auto add = [&](std::span<const std::byte> data) -> Status {
    for (BundleWriter& writer : writers) LLMC_RETURN_IF_ERROR(writer.add_weights(data));
    return ok_status();
  };
  LLMC_RETURN_IF_ERROR(emit::write_weights(
      plan.program, plan.weights_bytes, add,
      [&](std::uint64_t done, std::uint64_t total) { report(progress, "weights", done, total); }));
  for (BundleWriter& writer : writers) LLMC_RETURN_IF_ERROR(writer.end_weights());
  return ok_status();
}

/// Whether both keep a prompt's keys and values as the same bytes: the values are the same on every
/// target (docs/numerics.md), and so are blocks of one shape.
bool same_prompt_data(const plan::Plan& a, const plan::Plan& b) {
  return a.prompt.bytes == b.prompt.bytes && a.kv.block == b.kv.block &&
         a.kv.block_bytes == b.kv.block_bytes &&
         a.options.target->token_group == b.options.target->token_group;
}

/// Computes the system prompt, once where it is the same, preferably by a bundle's own code.
Status write_prompts(std::span<const plan::Plan> plans, std::deque<BundleWriter>& writers) {
  std::size_t first = 0;
  while (first + 1 < plans.size() && !target::runs_here(*plans[first].options.target)) ++first;
  if (!target::runs_here(*plans[first].options.target)) first = 0;
  LLMC_TRY(const std::string data, writers[first].compute_prompt());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (same_prompt_data(plans[i], plans[first])) {
      LLMC_RETURN_IF_ERROR(writers[i].add_prompt(data));
    } else {
      LLMC_TRY(const std::string own, writers[i].compute_prompt());
      LLMC_RETURN_IF_ERROR(writers[i].add_prompt(own));
    }
  }
  return ok_status();
}

/// Everything after the plans: a bundle for each, in `folders`. All are finished before the first
/// one is put in its place. `times`: of the phases before, which the first bundle gets.
Result<std::vector<Bundle>> write_bundles(const CompileOptions& options,
                                          std::span<const fs::path> folders,
                                          const Toolchain& toolchain, Prepared prepared,
                                          std::vector<PhaseTime> times, const Progress& progress) {
  std::vector<plan::Plan>& plans = prepared.plans;
  LLMC_TRY(AtomicDirectories output,
           AtomicDirectories::create(folders, replaces_bundle(options.model)));
  std::vector<Bundle> bundles(plans.size());
  bundles[0].times = std::move(times);
  std::deque<BundleWriter> writers;  // which cannot be moved
  for (std::size_t i = 0; i < plans.size(); ++i)
    writers.emplace_back(options, toolchain, prepared.content, plans[i], output.path(i), progress);
  PhaseClock clock(bundles[0].times);
  LLMC_RETURN_IF_ERROR(write_weights(plans[0], writers, progress));
  clock.finish("weights");
  for (std::size_t i = 0; i < plans.size(); ++i) {
    PhaseClock own(bundles[i].times);
    LLMC_RETURN_IF_ERROR(writers[i].write_sources());
    LLMC_RETURN_IF_ERROR(writers[i].compile());
    own.finish("compile");
  }
  PhaseClock rest(bundles[0].times);
  if (plans[0].prompt.tokens > 0) {
    LLMC_RETURN_IF_ERROR(write_prompts(plans, writers));
    rest.finish("prompt");
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    LLMC_TRY(bundles[i].files, writers[i].finish());
  }
  LLMC_RETURN_IF_ERROR(output.commit());
  rest.finish("write");
  for (std::size_t i = 0; i < plans.size(); ++i) {
    bundles[i].folder = folders[i];
    bundles[i].name = plans[i].options.name;
    bundles[i].plan = std::move(plans[i]);
  }
  return bundles;
}

Result<importer::ImportedModel> import_given(const CompileOptions& options,
                                             const Progress& progress) {
  report(progress, "import", 0, 0);
  return importer::import_model(options.model, options.import);
}

}  // namespace

Status check_options(const CompileOptions& options, std::span<const std::string> targets) {
  LLMC_CHECK(!targets.empty());
  for (const std::string& name : targets) {
    LLMC_TRY(const target::Target* const target, target::find(name, options.opt_level));
    LLMC_RETURN_IF_ERROR(check_cflags(options.cflags, *target));
  }
  LLMC_RETURN_IF_ERROR(plan_options(options));
  if (options.grammar.given()) LLMC_RETURN_IF_ERROR(parse_grammar(options.grammar));
  return ok_status();
}

Result<std::vector<Bundle>> compile_model(const CompileOptions& options,
                                          importer::ImportedModel model,
                                          std::span<const std::string> targets,
                                          std::span<const fs::path> folders,
                                          const Progress& progress) {
  LLMC_CHECK(targets.size() == folders.size());
  LLMC_RETURN_IF_ERROR(check_options(options, targets));
  LLMC_TRY(const Toolchain toolchain, find_toolchain(options.cc));
  std::vector<PhaseTime> times;
  PhaseClock clock(times);
  LLMC_TRY(Prepared prepared, prepare(options, std::move(model), targets, progress, clock));
  return write_bundles(options, folders, toolchain, std::move(prepared), std::move(times),
                       progress);
}

Result<Bundle> compile_model(const CompileOptions& options, const Progress& progress) {
  const std::string targets[] = {options.target};
  const fs::path folders[] = {options.out_dir};
  LLMC_RETURN_IF_ERROR(check_options(options, targets));
  LLMC_TRY(const Toolchain toolchain, find_toolchain(options.cc));
  if (options.out_dir.empty())
    return failure(ErrorKind::kBadInput, "no output folder was given", "use -o DIR");
  std::vector<PhaseTime> times;
  PhaseClock clock(times);
  LLMC_TRY(importer::ImportedModel model, import_given(options, progress));
  clock.finish("import");
  LLMC_TRY(Prepared prepared, prepare(options, std::move(model), targets, progress, clock));
  LLMC_TRY(
      std::vector<Bundle> bundles,
      write_bundles(options, folders, toolchain, std::move(prepared), std::move(times), progress));
  return std::move(bundles.front());
}

Result<Bundle> compile_stages(const ir::Graph& stages, const CompileOptions& options) {
  const std::string targets[] = {options.target};
  const fs::path folders[] = {options.out_dir};
  LLMC_TRY(const Toolchain toolchain, find_toolchain(options.cc));
  LLMC_TRY(plan::PlanOptions planned, plan_options(options));
  Prepared prepared;
  LLMC_RETURN_IF_ERROR(read_system_prompt(options, prepared, planned));
  LLMC_TRY(const ir::Graph assigned,
           passes::assign_weight_formats(stages, {.options = {.weights = options.quant}}));
  LLMC_RETURN_IF_ERROR(plan_targets(assigned, planned, options, targets, prepared));
  LLMC_TRY(std::vector<Bundle> bundles,
           write_bundles(options, folders, toolchain, std::move(prepared), {}, {}));
  return std::move(bundles.front());
}

Result<std::vector<plan::Plan>> plan_model(const CompileOptions& options,
                                           importer::ImportedModel model,
                                           std::span<const std::string> targets,
                                           const Progress& progress) {
  LLMC_RETURN_IF_ERROR(check_options(options, targets));
  std::vector<PhaseTime> times;
  PhaseClock clock(times);
  LLMC_TRY(Prepared prepared, prepare(options, std::move(model), targets, progress, clock));
  return std::move(prepared.plans);
}

Result<plan::Plan> plan_model(const CompileOptions& options, const Progress& progress) {
  const std::string targets[] = {options.target};
  LLMC_RETURN_IF_ERROR(check_options(options, targets));
  LLMC_TRY(importer::ImportedModel model, import_given(options, progress));
  LLMC_TRY(std::vector<plan::Plan> plans, plan_model(options, std::move(model), targets, progress));
  return std::move(plans.front());
}

}  // namespace llmc::driver
