#include "compiler/driver/function.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/output_file.h"
#include "compiler/driver/resources.h"
#include "compiler/driver/toolchain.h"
#include "compiler/emit/elf_object.h"
#include "compiler/emit/names.h"
#include "compiler/emit/plain_source.h"
#include "compiler/emit/source.h"
#include "compiler/emit/weights.h"
#include "compiler/ir/text.h"
#include "compiler/support/atomic_output.h"
#include "compiler/support/file.h"
#include "passes/pipeline.h"

namespace llmc::driver {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kAlignmentBytes = 64;

std::vector<ir::Value> inputs_of(const ir::Graph& graph) {
  std::vector<ir::Value> inputs;
  for (const ir::ValueId input : graph.inputs()) inputs.push_back(graph.value(input));
  return inputs;
}

/// kUsage: inputs of `model` have sizes that only `flags` (missing_dims) fix.
Diagnostic open_sizes(const fs::path& model, const std::string& flags) {
  return file_failure(ErrorKind::kUsage, model.string(),
                      "a function has fixed sizes, and some of its inputs' are open",
                      "give each a number: " + flags);
}

/// Passes and a plan for each target. The plans differ in their target alone.
Result<std::vector<plan::Plan>> prepare(const CompileOptions& options,
                                        importer::ImportedModel model,
                                        std::span<const std::string> targets,
                                        const Progress& progress) {
  LLMC_CHECK(!targets.empty());
  if (options.grammar.given()) {
    return usage_error("a grammar is for models that write text, and this one becomes a function",
                       "leave the grammar out");
  }
  if (options.system_prompt)
    return usage_error("a function of its inputs has no system prompt",
                       "leave out --system-prompt and --system-prompt-tokens");
  std::vector<const target::Target*> found;
  for (const std::string& name : targets) {
    LLMC_TRY(const target::Target* const target, target::find(name, options.opt_level));
    LLMC_RETURN_IF_ERROR(check_cflags(options.cflags, *target));
    found.push_back(target);
  }
  plan::PlanOptions planned;
  planned.target = found.front();
  planned.name = options.name.empty() ? emit::derive_name(options.model) : options.name;
  LLMC_RETURN_IF_ERROR(emit::check_name(planned.name));
  planned.embed_weights = options.weights == WeightsPlace::kEmbed;
  planned.threads_max = options.threads_max;
  const ir::WeightFormat quant = options.quant_given ? options.quant : ir::WeightFormat::kUnset;
  if (options.quant_given) planned.quant = format_name(options.quant);
  LLMC_TRY(const ir::Graph graph, bind_dims(std::move(model.module.graph()), options.dims));
  if (const std::string flags = missing_dims(graph, options.dims); !flags.empty()) {
    return open_sizes(options.model, flags);
  }
  planned.open_dims = options.dims;
  report(progress, "plan", 0, 0);
  auto plan = plan_graph(graph, inputs_of(graph), planned, quant, options.on_pass, options.want_ir);
  if (!plan.ok()) return std::move(plan).error().in_file(options.model.string());
  LLMC_RETURN_IF_ERROR(plan::check_budget(*plan, options.max_ram));
  if (planned.embed_weights && plan->weights_bytes > kMaxEmbeddedBytes)
    return failure(
        ErrorKind::kBadInput,
        fmt::format("{} bytes of constants cannot be embedded in a library", plan->weights_bytes),
        "use --weights=file: the program then supplies them");
  std::vector<plan::Plan> plans(targets.size(), *plan);
  for (std::size_t i = 0; i < plans.size(); ++i) plans[i].options.target = found[i];
  return plans;
}

/// The files of one bundle.
class Writer {
 public:
  Writer(const CompileOptions& options, const Toolchain& toolchain, plan::Plan& plan,
         fs::path folder)
      : options_(options), toolchain_(toolchain), plan_(plan), folder_(std::move(folder)) {}

  /// The constants come in pieces, so that they are packed once for several targets.
  Status begin_weights() {
    const bool embed = plan_.options.embed_weights;
    LLMC_RETURN_IF_ERROR(make_folder("build"));
    elf_ = emit::elf_object(plan_.options.target->architecture, name() + "_weights",
                            plan_.weights_bytes, kAlignmentBytes);
    LLMC_TRY(OutputFile file,
             OutputFile::create(folder_ / (embed ? object("weights") : name() + ".weights")));
    weights_.emplace(std::move(file));
    return embed ? weights_->write(std::string_view(elf_.prefix)) : ok_status();
  }
  Status add_weights(std::span<const std::byte> data) { return weights_->write(data); }
  Status end_weights() {
    if (plan_.options.embed_weights)
      LLMC_RETURN_IF_ERROR(weights_->write(std::string_view(elf_.suffix)));
    return weights_->close();
  }

  Status write_sources() {
    const target::Target& target = *plan_.options.target;
    const std::string source = emit::function_source(plan_);
    LLMC_RETURN_IF_ERROR(write(name() + ".h", emit::function_header(plan_)));
    LLMC_RETURN_IF_ERROR(write("src/model.cpp", source));
    for (const Resource& resource : headers_for(source))
      LLMC_RETURN_IF_ERROR(write(bundle_path(resource.path), resource.content));
    std::vector<std::string> kept;
    if (plan_.options.embed_weights && plan_.weights_bytes > 0)
      kept.push_back(name() + "_weights.o");
    LLMC_RETURN_IF_ERROR(write_build_script(
        folder_, build_script(toolchain_, target, name(), arguments(), {}, kept)));
    LLMC_RETURN_IF_ERROR(write(name() + ".cmake", emit::cmake_file(name())));
    return write(name() + ".pc", emit::pkg_config_file(name(), "function", target));
  }

  Status compile(const Progress& progress) {
    report(progress, "compile", 0, 1);
    LLMC_RETURN_IF_ERROR(make_folder("build"));
    std::vector<std::string> objects{object("model")};
    LLMC_RETURN_IF_ERROR(
        compile_source(toolchain_, folder_, arguments(), "src/model.cpp", objects[0]));
    LLMC_RETURN_IF_ERROR(check_object(folder_ / objects[0], *plan_.options.target));
    if (plan_.options.embed_weights && plan_.weights_bytes > 0)
      objects.push_back(object("weights"));
    LLMC_TRY(const std::string content, read_file(folder_ / objects[0]));
    plan_.code_bytes = emit::loaded_bytes(content).value_or(0);
    return make_archive(toolchain_, folder_, "lib" + name() + ".a", objects);
  }

  /// Returns the files of the bundle.
  Result<std::vector<std::string>> finish() {
    std::error_code error;
    fs::remove_all(folder_ / "build", error);
    if (error) return system_error(folder_ / "build", "remove", error.value());
    return write_plan_file(folder_, name(), plan::to_json(plan_, {}));
  }

 private:
  const std::string& name() const { return plan_.options.name; }
  std::vector<std::string> arguments() const {
    return function_arguments(*plan_.options.target, name(), options_.cflags);
  }
  std::string object(std::string_view part) const {
    return fmt::format("build/{}_{}.o", name(), part);
  }
  Status make_folder(const fs::path& relative) const {
    std::error_code error;
    fs::create_directories(folder_ / relative, error);
    if (error) return system_error(folder_ / relative, "create", error.value());
    return ok_status();
  }
  Status write(const std::string& relative, std::string_view content) const {
    LLMC_RETURN_IF_ERROR(make_folder(fs::path(relative).parent_path()));
    return write_file(folder_ / relative, content);
  }

  const CompileOptions& options_;
  const Toolchain& toolchain_;
  plan::Plan& plan_;
  const fs::path folder_;
  emit::ElfObject elf_;
  std::optional<OutputFile> weights_;
};

Status write_weights(const plan::Plan& plan, std::deque<Writer>& writers,
                     const Progress& progress) {
  if (plan.weights_bytes == 0) return ok_status();
  for (Writer& writer : writers) LLMC_RETURN_IF_ERROR(writer.begin_weights());
  const auto add = [&](std::span<const std::byte> data) -> Status {
    for (Writer& writer : writers) LLMC_RETURN_IF_ERROR(writer.add_weights(data));
    return ok_status();
  };
  LLMC_RETURN_IF_ERROR(emit::write_weights(
      plan.program, plan.weights_bytes, add,
      [&](std::uint64_t done, std::uint64_t total) { report(progress, "weights", done, total); }));
  for (Writer& writer : writers) LLMC_RETURN_IF_ERROR(writer.end_weights());
  return ok_status();
}

/// The error of options that make a function of a decoder, which may not be what is meant.
Error with_decoder_hint(Error error) {
  std::vector<Diagnostic> all = error.diagnostics();
  Diagnostic& last = all.back();
  last.hint += (last.hint.empty() ? "" : "; ") +
               std::string(
                   "the model is a decoder, and --dim compiles its graph as a function: "
                   "leave --dim out to compile the decoder");
  return Error(std::move(all));
}

/// Whether `options.model` is a decoder. A model that cannot be bound as one is not.
bool is_decoder(const CompileOptions& options) {
  const auto model = options.reader.bind(options.model);
  return model.ok() && model->is_decoder();
}

/// Checks options.dims for `graph`, that of a decoder, and reports that it becomes a function.
Status check_decoder_dims(const CompileOptions& options, const ir::Graph& graph) {
  const auto range =
      std::ranges::find_if(options.dims, [](const auto& dim) { return !dim.second.is_number(); });
  if (range != options.dims.end())
    return file_failure(
        ErrorKind::kUsage, options.model.string(),
        fmt::format("the model is a decoder, and --dim {} has a range",
                    printable(range->first, 40)),
        "leave --dim out to compile the decoder, whose sizes are --ctx and --batch; "
        "--function compiles its graph as a function");
  auto bound = bind_dims(graph, options.dims);
  if (!bound.ok()) return with_decoder_hint(std::move(bound).error());
  if (const std::string flags = missing_dims(*bound, options.dims); !flags.empty())
    return with_decoder_hint(open_sizes(options.model, flags));
  if (options.import.on_warning)
    options.import.on_warning(
        {.file = options.model.string(),
         .message = "the model is a decoder, and --dim compiles its graph as a function",
         .hint = "leave --dim out to compile the decoder; --function says that a function is "
                 "meant"});
  return ok_status();
}

}  // namespace

Diagnostic not_a_decoder(const importer::ImportedModel& model) {
  Diagnostic d{.kind = ErrorKind::kUnsupported, .file = model.path.string()};
  if (model.lacks_cache) {
    d.message =
        "the graph has token ids and logits but no cache that it extends, so it cannot generate "
        "text";
    d.hint =
        "export it with past key values (use_cache), or compile it as a function of fixed "
        "sizes: ";
  } else {
    d.message = "the graph is not a decoder with token ids, a cache and logits";
    d.hint = "compile it as a function: ";
  }
  const std::string flags = missing_dims(model.graph());
  const std::string options = flags.empty() && model.lacks_cache ? "--function" : flags;
  const std::string arguments = " MODEL" + (options.empty() ? "" : " " + options);
  d.hint += "`llmc compile" + arguments + "`; `llmc bench" + arguments + "` measures one";
  return d;
}

Result<Source> read_source(const CompileOptions& options, const Progress& progress) {
  report(progress, "import", 0, 0);
  const auto started = std::chrono::steady_clock::now();
  const bool asked = options.function || !options.dims.empty();
  Source source;
  LLMC_TRY(source.model, asked ? options.reader.bind_plain(options.model, {}, options.import)
                               : options.reader.bind(options.model, options.import));
  source.is_function = asked || !source.model.is_decoder();
  if (!asked && source.model.lacks_cache) return not_a_decoder(source.model);
  if (!options.function && !options.dims.empty() && is_decoder(options))
    LLMC_RETURN_IF_ERROR(check_decoder_dims(options, source.model.graph()));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
  source.import_seconds = seconds.count();
  return source;
}

Result<plan::Plan> plan_graph(const ir::Graph& graph, const std::vector<ir::Value>& inputs,
                              const plan::PlanOptions& options, ir::WeightFormat quant,
                              const PassHook& on_pass, bool want_ir) {
  passes::PipelineOptions pipeline;
  auto last = std::chrono::steady_clock::now();
  if (on_pass) {
    pipeline.dump = [&](std::size_t, std::string_view pass, const ir::Graph& after) -> Status {
      const auto now = std::chrono::steady_clock::now();
      on_pass(pass, std::chrono::duration<double>(now - last).count(),
              want_ir ? ir::print(after) : std::string());
      last = std::chrono::steady_clock::now();
      return ok_status();
    };
  }
  pipeline.context.is_decoder = false;
  pipeline.context.options.weights = quant;
  LLMC_TRY(const passes::PipelineResult result, passes::run_pipeline(graph, pipeline));
  return plan::make_plain_plan(result.graph, inputs, options);
}

Result<std::vector<FunctionBundle>> compile_function(const CompileOptions& options,
                                                     importer::ImportedModel model,
                                                     std::span<const std::string> targets,
                                                     std::span<const fs::path> folders,
                                                     const Progress& progress) {
  LLMC_CHECK(targets.size() == folders.size());
  const auto started = std::chrono::steady_clock::now();
  LLMC_TRY(const Toolchain toolchain, find_toolchain(options.cc));
  LLMC_TRY(std::vector<plan::Plan> plans, prepare(options, std::move(model), targets, progress));
  LLMC_TRY(AtomicDirectories output,
           AtomicDirectories::create(folders, replaces_bundle(options.model)));
  std::deque<Writer> writers;  // which cannot be moved
  for (std::size_t i = 0; i < plans.size(); ++i)
    writers.emplace_back(options, toolchain, plans[i], output.path(i));
  LLMC_RETURN_IF_ERROR(write_weights(plans[0], writers, progress));
  std::vector<FunctionBundle> bundles(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    LLMC_RETURN_IF_ERROR(writers[i].write_sources());
    LLMC_RETURN_IF_ERROR(writers[i].compile(progress));
    LLMC_TRY(bundles[i].files, writers[i].finish());
  }
  LLMC_RETURN_IF_ERROR(output.commit());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    bundles[i].folder = folders[i];
    bundles[i].name = plans[i].options.name;
    bundles[i].plan = std::move(plans[i]);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
  bundles[0].times.push_back({"function", seconds.count()});
  return bundles;
}

Result<std::vector<plan::Plan>> plan_function(const CompileOptions& options,
                                              importer::ImportedModel model,
                                              std::span<const std::string> targets,
                                              const Progress& progress) {
  return prepare(options, std::move(model), targets, progress);
}

}  // namespace llmc::driver
