#include "compiler/driver/prepare.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/driver/budget.h"
#include "compiler/driver/calibration.h"
#include "compiler/driver/chat_files.h"
#include "compiler/driver/dims.h"
#include "compiler/driver/encoder_source.h"
#include "compiler/driver/golden.h"
#include "compiler/driver/grammar_source.h"
#include "compiler/driver/image_config.h"
#include "compiler/driver/sound_config.h"
#include "compiler/driver/system_prompt.h"
#include "compiler/driver/tokenizer_file.h"
#include "compiler/driver/trained_context.h"
#include "compiler/emit/names.h"
#include "compiler/ir/text.h"
#include "compiler/target/device.h"
#include "passes/assign_weight_formats.h"
#include "passes/match.h"
#include "passes/pipeline.h"
#include "runtime/hosted/grammar/model_vocabulary.h"

namespace llmc::driver {
namespace {

Result<ir::Graph> run_passes(const ir::Graph& graph, const CompileOptions& options,
                             const passes::PassContext& context) {
  passes::PipelineOptions pipeline;
  pipeline.context = context;
  pipeline.context.options.requantize = options.requantize;
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
  if (options.on_stages) options.on_stages(result.graph);
  return std::move(result.graph);
}

/// Returns whether the model has an image encoder, but the passes could not use the positions of
/// image tokens. `stages`: the graph after the passes.
bool loses_image_positions(const ir::Module& module, const ir::Graph& stages) {
  const ir::Graph* const encoder = module.media_encoder();
  if (encoder == nullptr || encoder->name == importer::kAudioEncoder) return false;
  const auto has_axes = [](const ir::Graph& graph) {
    return graph.input(ir::InputKind::kPositionAxes).exists();
  };
  return has_axes(module.graph()) && !has_axes(stages);
}

/// Computes the tokens of options.system_prompt, if it is set.
Status read_system_prompt(const CompileOptions& options, Prepared& prepared,
                          plan::PlanOptions& planned) {
  if (!options.system_prompt) return ok_status();
  planned.prompt_source = options.system_prompt->source;
  BundleContent& content = prepared.content;
  LLMC_TRY(planned.prompt, system_prompt_ids(*options.system_prompt, content.tokenizer.get(),
                                             planned.tokenizer_refused, content.chat));
  return ok_status();
}

Status check_sizes(const plan::Plan& plan, const CompileOptions& options) {
  LLMC_RETURN_IF_ERROR(plan::check_budget(plan, options.max_ram));
  const bool embed = plan.options.embed_weights;
  if (embed && plan.weights_bytes > kMaxEmbeddedBytes) {
    return failure(
        ErrorKind::kBadInput,
        fmt::format("{} bytes of weights cannot be embedded in a library", plan.weights_bytes),
        plan.program.is_plain() ? "compile with --weights=file: the program then supplies them"
                                : "compile with --weights=file: they are mapped at run time");
  }
  const std::uint64_t data = plan.prompt.bytes + (embed ? plan.weights_bytes : 0);
  if (plan.prompt.tokens > 0 && data > kMaxEmbeddedBytes) {
    return failure(
        ErrorKind::kBadInput,
        fmt::format("{} bytes of a system prompt's cache{} cannot be embedded in a library",
                    plan.prompt.bytes, embed ? " beside the weights" : ""),
        "a shorter prompt, --kv int8 or --weights=file make it less");
  }
  return ok_status();
}

/// Records the size of the tokenizer's vocabulary and builds the tables of the compiled-in grammar.
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

/// An encoder of a decoder.
struct EncoderGraph {
  ir::EntryKind kind = ir::EntryKind::kEncode;  // or kEncodeMedia
  ir::Graph stages;                             // after the passes
  plan::DimRanges dims;                         // ranges of the symbols in the inputs

  bool is_media() const { return kind == ir::EntryKind::kEncodeMedia; }
};

/// Runs the passes on an encoder.
Result<EncoderGraph> prepare_encoder(const ir::Graph& graph, const CompileOptions& options) {
  EncoderGraph encoder;
  passes::PipelineOptions pipeline;
  pipeline.context = {.options = {.weights = options.quant}};
  LLMC_TRY(passes::PipelineResult result, passes::run_pipeline(graph, pipeline));
  encoder.stages = std::move(result.graph);
  return encoder;
}

/// Prepares the media encoder of a decoder.
Result<EncoderGraph> prepare_media_encoder(const ir::Graph& graph, const CompileOptions& options) {
  LLMC_TRY(const MediaGraph image, bind_media_dims(graph, options));
  LLMC_TRY(EncoderGraph encoder, prepare_encoder(image.graph, options));
  encoder.dims = image.dims;
  encoder.kind = ir::EntryKind::kEncodeMedia;
  return encoder;
}

/// Returns whether a decoder is compiled without its media encoder, which failed with `error`. This
/// is so if no sizes were requested, and the encoder is unsupported or its inputs have no default
/// sizes.
bool may_leave_out(const Error& error, const CompileOptions& options) {
  const ErrorKind kind = error.first().kind;
  return options.dims.empty() && (kind == ErrorKind::kUnsupported || kind == ErrorKind::kUsage);
}

Result<std::shared_ptr<const plan::Plan>> plan_encoder(const EncoderGraph& encoder,
                                                       plan::PlanOptions planned) {
  planned.entry = encoder.kind;
  planned.name += encoder.is_media() ? "_image" : "_encoder";
  planned.open_dims = encoder.dims;
  LLMC_TRY(plan::Plan plan, plan::make_plan(encoder.stages, planned));
  return std::make_shared<const plan::Plan>(std::move(plan));
}

/// Plans `stages`, the graph after the passes, for each target.
Result<std::vector<plan::Plan>> plan_targets(const ir::Graph& stages, plan::PlanOptions planned,
                                             const CompileOptions& options,
                                             std::span<const std::string> targets,
                                             const EncoderGraph* encoder = nullptr) {
  std::vector<plan::Plan> plans;
  for (const std::string& name : targets) {
    LLMC_TRY(planned.target, target::find(name, options.opt_level));
    planned.chunk_given = options.chunk != 0;
    planned.chunk = planned.chunk_given ? options.chunk : planned.target->chunk;
    plan::EncoderPlans encoders;
    if (encoder) {
      LLMC_TRY((encoder->is_media() ? encoders.media : encoders.source),
               plan_encoder(*encoder, planned));
    }
    auto plan = plan::make_plan(stages, planned, std::move(encoders));
    if (!plan.ok()) return std::move(plan).error();
    LLMC_RETURN_IF_ERROR(check_sizes(*plan, options));
    if (plan->partition && options.want_ir && options.on_text)
      options.on_text("partition-" + name + ".txt",
                      to_text(plan->program, *plan->partition, plan->options.chunk));
    plans.push_back(*std::move(plan));
  }
  return plans;
}

/// Prepares a plain graph: assigns its dims, runs the passes, and makes one plan per target.
Result<Prepared> prepare_plain(const CompileOptions& options, Source source,
                               std::span<const std::string> targets, const Progress& progress,
                               PhaseClock& clock) {
  if (options.grammar.given()) {
    return usage_error("a grammar needs a decoder; this graph is compiled as a function",
                       "leave the grammar out");
  }
  if (options.system_prompt)
    return usage_error("a system prompt needs a decoder; this graph is compiled as a function",
                       "leave out --system-prompt and --system-prompt-tokens");
  if (options.budget)
    return failure(ErrorKind::kUnsupported,
                   "--fit and --max-kl need a decoder; this graph is compiled as a function",
                   "choose a format with --quant");
  LLMC_TRY(plan::PlanOptions planned, plan_options(options));
  if (!options.quant_given) planned.quant.clear();
  LLMC_TRY(const ir::Graph graph, bind_dims(std::move(source.model.module.graph()), source.dims));
  if (const std::string flags = missing_dims(graph, source.dims); !flags.empty())
    return open_sizes(options, flags);
  planned.open_dims = source.dims;
  planned.entry = ir::EntryKind::kRun;
  Prepared prepared;
  prepared.model = std::move(source.model);
  report(progress, "passes", 0, 0);
  const auto quant = options.quant_given ? options.quant : passes::QuantScheme();
  LLMC_TRY(const ir::Graph stages, run_passes(graph, options, {.options = {.weights = quant}}));
  clock.finish("passes");
  report(progress, "plan", 0, 0);
  auto plans = plan_targets(stages, planned, options, targets);
  if (!plans.ok()) return std::move(plans).error().in_file(options.model.string());
  prepared.plans = *std::move(plans);
  clock.finish("plan");
  return prepared;
}

}  // namespace

namespace {

Diagnostic unknown_device(const std::string& name) {
  return usage_error(fmt::format("there is no accelerator '{}'", printable(name, 40)),
                     fmt::format("--accelerate takes none, {}", target::device_names()));
}

}  // namespace

Result<plan::PlanOptions> plan_options(const CompileOptions& options) {
  plan::PlanOptions planned;
  planned.quant = options.budget ? budget_key(options) : passes::quant_name(options.quant);
  planned.calibration = calibration_key(options);
  planned.requantize = options.requantize;
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
  planned.embed_weights = options.weights == WeightsStorage::kEmbed;
  planned.in_flight = options.in_flight;
  planned.shard = options.shard;
  if (options.shard.count > 0 && options.system_prompt)
    return usage_error("a system prompt cannot be compiled into the shards of a model",
                       "leave out --stages, or pass the prompt at run time");
  if (!options.accelerate.empty()) {
    planned.device = target::find_device(options.accelerate);
    if (planned.device == nullptr) return unknown_device(options.accelerate);
  }
  if (options.shard.count > 0 && planned.device != nullptr)
    return usage_error("--stages and --accelerate cannot be combined", "leave out one of them");
  return planned;
}

namespace {

Result<Prepared> prepare_decoder(const CompileOptions& options, Source source,
                                 std::span<const std::string> targets, Purpose purpose,
                                 const Progress& progress, PhaseClock& clock) {
  LLMC_TRY(plan::PlanOptions planned, plan_options(options));
  if (!source.model.is_decoder()) return not_a_decoder(source.model);
  Prepared prepared;
  prepared.model = std::move(source.model);
  const auto warn = [&](const Diagnostic& warning) {
    if (options.import.on_warning)
      options.import.on_warning(importer::with_path(warning, prepared.model));
  };
  prepared.content.tokenizer = read_tokenizer(options.model, prepared.model, planned);
  if (prepared.content.tokenizer && options.import.on_warning) {
    const auto& known = prepared.model.tokenizer;
    const auto warning = tokenizer_too_large(*prepared.content.tokenizer,
                                             known ? known->path : find_tokenizer(options.model),
                                             prepared.model.module.vocabulary());
    if (warning) warn(*warning);
  }
  planned.prompt_template = prepared.model.prompt_template;
  LLMC_TRY(prepared.content.chat, read_chat_files(options.model));
  LLMC_TRY(const std::vector<Diagnostic> outside,
           stop_ids_outside(options.model, prepared.model.module.vocabulary()));
  std::ranges::for_each(outside, warn);
  LLMC_TRY(planned.trained_ctx, trained_context(options.model));
  planned.golden =
      stored_hashes(options.model,
                    golden_key(planned.quant, options.kv, planned.calibration, planned.requantize));
  LLMC_RETURN_IF_ERROR(read_system_prompt(options, prepared, planned));

  report(progress, "passes", 0, 0);
  const passes::QuantScheme scheme = options.budget ? ir::WeightFormat::kQ8 : options.quant;
  LLMC_TRY(ir::Graph stages,
           run_passes(prepared.model.graph(), options,
                      {.options = {.weights = scheme, .context = plan::context_of(planned)}}));
  if (loses_image_positions(prepared.model.module, stages))
    warn(importer::without_image_positions(options.model.string()));
  std::optional<EncoderGraph> encoder;
  if (const ir::Graph* const graph = prepared.model.module.encoder()) {
    if (options.calibration)
      return failure(ErrorKind::kUnsupported,
                     "the model has an encoder, and --calibrate is for decoders without one",
                     "leave out --calibrate");
    LLMC_TRY(const plan::DimRange range, source_range(*graph, options));
    planned.source_min = static_cast<std::uint32_t>(range.min);
    planned.source_max = static_cast<std::uint32_t>(range.max);
    planned.sources = options.sources;
    planned.start_ids = prepared.content.chat.start_ids;
    LLMC_RETURN_IF_ERROR(
        check_start_ids(planned.start_ids, prepared.model.module.vocabulary(), options.model));
    planned.source_vocab = source_vocabulary(*graph);
    LLMC_TRY(planned.sound, read_sound_features(options.model));
    if (options.system_prompt)
      return usage_error("a system prompt needs a decoder without an encoder",
                         "leave out --system-prompt and --system-prompt-tokens");
    LLMC_TRY(encoder, prepare_encoder(*graph, options));
    encoder->dims = {{"source", range}};
  } else if (options.source_max != 0 || options.sources > 1) {
    return usage_error(fmt::format("{} needs an encoder-decoder",
                                   options.source_max != 0 ? "--source-ctx" : "--sources"),
                       "leave it out");
  }
  if (const ir::Graph* const graph = prepared.model.module.media_encoder()) {
    auto image = prepare_media_encoder(*graph, options);
    if (image.ok()) {
      encoder = *std::move(image);
      if (graph->name == importer::kAudioEncoder) {
        LLMC_TRY(planned.media, read_sound_token(options.model));
        LLMC_TRY(planned.sound, read_sound_features(options.model));
      } else {
        LLMC_TRY(planned.media, read_image_pixels(options.model));
      }
    } else if (may_leave_out(image.error(), options)) {
      warn(importer::without_media_encoder(image.error()));
    } else {
      return std::move(image).error();
    }
  } else if (!options.dims.empty()) {
    return usage_error("the model is a decoder without an image encoder, so it has no dims to set",
                       "leave --dim out");
  }
  clock.finish("passes");
  std::map<const ir::Constant*, double> shares;
  if (options.budget) {
    if (encoder)
      return failure(
          ErrorKind::kUnsupported,
          "the model has an encoder, and --fit and --max-kl are for decoders without one",
          "choose a format with --quant");
    LLMC_TRY(FittedGraph fitted,
             fit_formats(stages,
                         {options, prepared.model, prepared.content.tokenizer.get(),
                          planned.tokenizer_refused, planned, targets.front()},
                         progress));
    stages = std::move(fitted.stages);
    planned.budget = std::move(fitted.report);
    shares = std::move(fitted.shares);
    clock.finish("measure");
  }
  report(progress, "plan", 0, 0);
  const auto plans_with = [&](const EncoderGraph* of) {
    return plan_targets(stages, planned, options, targets, of);
  };
  auto plans = plans_with(encoder ? &*encoder : nullptr);
  if (!plans.ok() && encoder && encoder->is_media() && may_leave_out(plans.error(), options)) {
    if (auto alone = plans_with(nullptr); alone.ok()) {
      warn(importer::without_media_encoder(plans.error()));
      plans = std::move(alone);
    }
  }
  if (!plans.ok()) return std::move(plans).error();
  prepared.plans = *std::move(plans);
  use_shares(shares, prepared.plans);
  clock.finish("plan");
  // Calibrate last, because it takes minutes and other steps may reject the model.
  LLMC_TRY(const calibrate::Matrices matrices,
           calibrated(stages, options, purpose, prepared.model, prepared.content.tokenizer.get(),
                      planned.tokenizer_refused, plan::context_of(planned), progress));
  use_encoded(matrices, prepared.plans);
  if (options.calibration) clock.finish("calibrate");
  if (options.grammar.given()) report(progress, "grammar", 0, 0);
  LLMC_RETURN_IF_ERROR(prepare_grammar(options, prepared));
  clock.finish("grammar");
  return prepared;
}

}  // namespace

Result<Prepared> prepare(const CompileOptions& options, Source source,
                         std::span<const std::string> targets, Purpose purpose,
                         const Progress& progress, PhaseClock& clock) {
  importer::ImportedModel named;  // resolves file names in errors
  named.path = source.model.path;
  named.files = source.model.files;
  auto prepared =
      source.is_function
          ? prepare_plain(options, std::move(source), targets, progress, clock)
          : prepare_decoder(options, std::move(source), targets, purpose, progress, clock);
  if (!prepared.ok()) return importer::with_paths(prepared.error(), named);
  return prepared;
}

Result<Prepared> prepare_stages(const ir::Graph& stages, const CompileOptions& options) {
  LLMC_TRY(plan::PlanOptions planned, plan_options(options));
  Prepared prepared;
  LLMC_RETURN_IF_ERROR(read_system_prompt(options, prepared, planned));
  LLMC_TRY(const ir::Graph assigned,
           passes::assign_weight_formats(stages, {.options = {.weights = options.quant}}));
  const std::string targets[] = {options.target};
  LLMC_TRY(prepared.plans, plan_targets(assigned, planned, options, targets));
  return prepared;
}

Result<plan::Plan> plan_graph(const ir::Graph& graph, plan::PlanOptions options,
                              passes::QuantScheme quant) {
  LLMC_TRY(const ir::Graph stages, run_passes(graph, {}, {.options = {.weights = quant}}));
  options.entry = ir::EntryKind::kRun;
  return plan::make_plan(stages, options);
}

}  // namespace llmc::driver
