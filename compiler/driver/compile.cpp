#include "compiler/driver/compile.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <chrono>

#include "compiler/driver/archive.h"
#include "compiler/driver/bundle_files.h"
#include "compiler/driver/chat_files.h"
#include "compiler/driver/model_code.h"
#include "compiler/driver/output_file.h"
#include "compiler/driver/prompt_data.h"
#include "compiler/driver/system_prompt.h"
#include "compiler/driver/tokenizer_file.h"
#include "compiler/driver/toolchain.h"
#include "compiler/emit/elf_object.h"
#include "compiler/emit/names.h"
#include "compiler/emit/source.h"
#include "compiler/emit/weights.h"
#include "compiler/ir/text.h"
#include "compiler/support/atomic_output.h"
#include "compiler/support/file.h"
#include "llmc/model.h"
#include "passes/pipeline.h"
#include "runtime/hosted/tokenizer.h"

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

Diagnostic bad_input(std::string message, std::string hint) {
  return Diagnostic{
      .kind = ErrorKind::kBadInput, .message = std::move(message), .hint = std::move(hint)};
}

/// Import, passes and plan: all that is known before a weight is read.
struct Prepared {
  importer::ImportedModel model;
  plan::Plan plan;
  std::unique_ptr<hosted::Tokenizer> tokenizer;  // may be nullptr
  hosted::ChatDescription chat;
  std::string grammar;  // tables, or empty
};

Result<ir::Graph> run_passes(const ir::Graph& graph, const CompileOptions& options) {
  passes::PipelineOptions pipeline;
  // Formats are left unset: the plan gives each matrix its own by what it does.
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
  LLMC_TRY(planned.prompt, system_prompt_ids(*options.system_prompt, prepared.tokenizer.get(),
                                             planned.tokenizer_refused, prepared.chat));
  return ok_status();
}

Result<plan::PlanOptions> plan_options(const CompileOptions& options) {
  LLMC_TRY(const target::Target* const target, target::find(options.target, options.opt_level));
  plan::PlanOptions planned;
  planned.target = target;
  planned.format = options.quant;
  planned.name = options.name.empty() ? emit::derive_name(options.model) : options.name;
  LLMC_RETURN_IF_ERROR(emit::check_name(planned.name));
  planned.ctx = options.ctx;
  planned.ctx_given = options.ctx_given;
  planned.block = options.block;
  planned.kv = options.kv;
  planned.chunk = options.chunk != 0 ? options.chunk : target->chunk;
  planned.threads_max = options.threads_max;
  planned.sequences = options.sequences;
  planned.batch = options.batch;
  planned.pool = options.pool;
  planned.contiguous = options.contiguous;
  planned.embed_weights = options.weights == WeightsPlace::kEmbed;
  return planned;
}

Result<plan::Plan> plan_stages(const ir::Graph& stages, const plan::PlanOptions& planned,
                               const CompileOptions& options) {
  LLMC_TRY(plan::Plan plan, plan::make_plan(stages, planned));
  LLMC_RETURN_IF_ERROR(plan::check_budget(plan, options.max_ram));
  if (planned.embed_weights && plan.weights_bytes > kMaxEmbeddedBytes) {
    return bad_input(
        fmt::format("{} bytes of weights cannot be embedded in a library", plan.weights_bytes),
        "use --weights=file: they are mapped at run time");
  }
  const std::uint64_t data = plan.prompt.bytes + (planned.embed_weights ? plan.weights_bytes : 0);
  if (plan.prompt.tokens > 0 && data > kMaxEmbeddedBytes) {
    return bad_input(
        fmt::format("{} bytes of a system prompt's cache{} cannot be embedded in a library",
                    plan.prompt.bytes, planned.embed_weights ? " beside the weights" : ""),
        "a shorter prompt, --kv int8 or --weights=file make it less");
  }
  return plan;
}

/// Notes the tokenizer's vocabulary, and makes the tables of the grammar that is compiled in.
Status prepare_grammar(const CompileOptions& options, Prepared& prepared) {
  plan::PlanOptions& planned = prepared.plan.options;
  const std::uint64_t vocabulary = prepared.plan.program.vocabulary;
  const hosted::Tokenizer* const tokenizer = prepared.tokenizer.get();
  if (tokenizer != nullptr) {
    planned.vocabulary_hash =
        grammar::vocabulary_hash(vocabulary_of(*tokenizer, vocabulary, prepared.chat));
  }
  if (!options.grammar.given()) return ok_status();
  LLMC_TRY(grammar::Tables tables,
           grammar_tables(options.grammar, tokenizer, vocabulary, prepared.chat));
  prepared.grammar = std::move(tables.bytes);
  planned.grammar_kind = kind_name(options.grammar.kind);
  planned.grammar_bytes = prepared.grammar.size();
  return ok_status();
}

Result<Prepared> prepare(const CompileOptions& options, const Progress& progress,
                         PhaseClock& clock) {
  LLMC_TRY(plan::PlanOptions planned, plan_options(options));
  if (options.grammar.given()) {  // what is wrong with it is told before a model is read
    if (auto parsed = parse_grammar(options.grammar); !parsed.ok())
      return std::move(parsed).error();
  }
  report(progress, "import", 0, 0);
  LLMC_TRY(importer::ImportedModel model, importer::import_model(options.model, options.import));
  clock.finish("import");
  if (model.kind != importer::GraphKind::kDecoder) {
    return Diagnostic{.kind = ErrorKind::kUnsupported,
                      .file = options.model.string(),
                      .message = "the graph is not a decoder with token ids, a cache and logits",
                      .hint = "`llmc inspect` shows its inputs and outputs"};
  }
  Prepared prepared;
  prepared.model = std::move(model);
  prepared.tokenizer = read_tokenizer(options.model, prepared.model, planned);
  planned.prompt_template = prepared.model.prompt_template;
  LLMC_TRY(prepared.chat, read_chat_files(options.model));
  LLMC_RETURN_IF_ERROR(read_system_prompt(options, prepared, planned));

  report(progress, "passes", 0, 0);
  LLMC_TRY(const ir::Graph stages, run_passes(prepared.model.graph, options));
  clock.finish("passes");
  report(progress, "plan", 0, 0);
  LLMC_TRY(prepared.plan, plan_stages(stages, planned, options));
  clock.finish("plan");
  if (options.grammar.given()) report(progress, "grammar", 0, 0);
  LLMC_RETURN_IF_ERROR(prepare_grammar(options, prepared));
  clock.finish("grammar");
  return prepared;
}

/// The files of one bundle, written into an AtomicDirectory.
class BundleWriter {
 public:
  BundleWriter(const CompileOptions& options, const Toolchain& toolchain, Prepared& prepared,
               fs::path folder, const Progress& progress)
      : options_(options),
        toolchain_(toolchain),
        plan_(prepared.plan),
        tokenizer_(prepared.tokenizer.get()),
        chat_(prepared.chat),
        grammar_(prepared.grammar),
        name_(prepared.plan.options.name),
        folder_(std::move(folder)),
        progress_(progress),
        code_(toolchain, prepared.plan, folder_, options.cflags) {}

  Status write_weights() {
    const bool embed = plan_.options.embed_weights;
    const fs::path path = folder_ / weights_file();
    LLMC_RETURN_IF_ERROR(make_folder(ModelCode::kObjects));
    const emit::ElfObject elf = data_object("weights", plan_.weights_bytes);
    llmc_weights_header header = {};
    LLMC_TRY(OutputFile file, OutputFile::create(path));
    LLMC_RETURN_IF_ERROR(file.write(embed ? std::string_view(elf.prefix) : bytes_of(header)));
    file.reset_hash();
    LLMC_RETURN_IF_ERROR(emit::write_weights(
        plan_.program, plan_.weights_bytes,
        [&](std::span<const std::byte> data) { return file.write(data); },
        [&](std::uint64_t done, std::uint64_t total) {
          report(progress_, "weights", done, total);
        }));
    weights_hash_ = file.hash();
    if (embed) {
      LLMC_RETURN_IF_ERROR(file.write(elf.suffix));
      weights_at_ = elf.prefix.size();
      LLMC_RETURN_IF_ERROR(write_data("weights", std::string(LLMC_ALIGNMENT, '\0')));
    } else {
      std::ranges::copy(std::string_view(LLMC_WEIGHTS_MAGIC), header.magic);
      header.bytes = plan_.weights_bytes;
      header.hash = weights_hash_;
      LLMC_RETURN_IF_ERROR(file.patch(0, bytes_of(header)));
    }
    return file.close();
  }

  Status write_sources() {
    LLMC_RETURN_IF_ERROR(code_.write(weights_hash_));
    std::vector<std::string> data;
    for (const std::string& part : data_parts()) data.push_back(name_ + "_" + part + ".o");
    LLMC_RETURN_IF_ERROR(code_.write_file(
        "src/build.sh", build_script(toolchain_, *plan_.options.target, name_,
                                     model_arguments(*plan_.options.target, name_, options_.cflags),
                                     code_.core_sources(), data)));
    LLMC_RETURN_IF_ERROR(code_.write_file(name_ + ".cmake", emit::cmake_file(name_)));
    LLMC_RETURN_IF_ERROR(code_.write_file(
        name_ + ".pc", emit::pkg_config_file(name_, "language model", *plan_.options.target)));
    if (tokenizer_ != nullptr) {
      const auto tables = tokenizer_->tables();
      LLMC_RETURN_IF_ERROR(
          code_.write_file(plan_.options.tokenizer_file,
                           {reinterpret_cast<const char*>(tables.data()), tables.size()}));
    }
    if (is_kept(chat_))
      LLMC_RETURN_IF_ERROR(code_.write_file(name_ + kChatSuffix, hosted::to_json(chat_)));
    return ok_status();
  }

  /// The library, but for what write_prompt() adds.
  Status compile() {
    LLMC_TRY(objects_, code_.compile(progress_));
    LLMC_RETURN_IF_ERROR(measure_code(objects_));
    for (const std::string& part : data_parts()) objects_.push_back(code_.object(part));
    if (!grammar_.empty()) LLMC_RETURN_IF_ERROR(write_data("grammar", grammar_, /*exported=*/true));
    if (plan_.prompt.tokens == 0) return write_archive();
    return write_data("prompt", std::string(plan_.prompt.bytes, '\0'));
  }

  /// Computes the prompt, which needs the rest of the library.
  Status write_prompt() {
    report(progress_, "prompt", 0, 0);
    LLMC_RETURN_IF_ERROR(make_archive(toolchain_, folder_, archive(), objects_));
    LLMC_TRY(const std::string data, prompt_data({.toolchain = toolchain_,
                                                  .plan = plan_,
                                                  .folder = folder_,
                                                  .archive = archive(),
                                                  .weights = weights_file(),
                                                  .weights_at = weights_at_,
                                                  .weights_hash = weights_hash_,
                                                  .cflags = options_.cflags}));
    LLMC_CHECK(data.size() == plan_.prompt.bytes);
    plan_.prompt.hash = XXH64(data.data(), data.size(), 0);
    LLMC_RETURN_IF_ERROR(write_data("prompt", data));
    return write_archive();
  }

  /// Returns the files of the bundle.
  Result<std::vector<std::string>> finish() {
    std::error_code error;
    fs::remove_all(folder_ / ModelCode::kObjects, error);
    if (error) return system_error(folder_ / ModelCode::kObjects, "remove", error.value());
    return write_plan_file(folder_, name_,
                           plan::to_json(plan_, fmt::format("{:016x}", weights_hash_)));
  }

 private:
  template <class T>
  static std::string_view bytes_of(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }
  std::string archive() const { return "lib" + name_ + ".a"; }
  /// The file of the weights or the object that embeds them; while the archive is made,
  /// NAME_weights.o stands in for that.
  std::string weights_file() const {
    if (!plan_.options.embed_weights) return name_ + ".weights.bin";
    return fmt::format("{}/weights", ModelCode::kObjects);
  }
  /// Parts of the library that are data alone, the weights last.
  std::vector<std::string> data_parts() const {
    std::vector<std::string> parts;
    if (!grammar_.empty()) parts.emplace_back("grammar");
    if (plan_.prompt.tokens > 0) parts.emplace_back("prompt");
    if (plan_.options.embed_weights) parts.emplace_back("weights");
    return parts;
  }
  emit::ElfObject data_object(const std::string& part, std::uint64_t bytes,
                              bool exported = false) const {
    return emit::elf_object(plan_.options.target->architecture, name_ + "_" + part, bytes,
                            LLMC_ALIGNMENT, exported);
  }
  Status write_data(const std::string& part, const std::string& data, bool exported = false) const {
    const emit::ElfObject elf = data_object(part, data.size(), exported);
    return code_.write_file(code_.object(part), elf.prefix + data + elf.suffix);
  }
  Status write_archive() const {
    LLMC_RETURN_IF_ERROR(make_archive(toolchain_, folder_, archive(), objects_));
    if (!plan_.options.embed_weights) return ok_status();
    return replace_last_member(folder_, archive(), weights_file());
  }
  Status make_folder(const fs::path& relative) const {
    std::error_code error;
    fs::create_directories(folder_ / relative, error);
    if (error) return system_error(folder_ / relative, "create", error.value());
    return ok_status();
  }
  Status measure_code(const std::vector<std::string>& objects) {
    std::uint64_t bytes = 0;
    for (const std::string& path : objects) {
      LLMC_TRY(const std::string content, read_file(folder_ / path));
      const auto loaded = emit::loaded_bytes(content);
      if (!loaded) return ok_status();  // not ELF: the estimate stays
      bytes += *loaded;
    }
    plan_.code_bytes = bytes;
    plan_.code_is_estimate = false;
    return ok_status();
  }

  const CompileOptions& options_;
  const Toolchain& toolchain_;
  plan::Plan& plan_;
  const hosted::Tokenizer* const tokenizer_;
  const hosted::ChatDescription& chat_;
  const std::string& grammar_;
  const std::string name_;
  const fs::path folder_;
  const Progress& progress_;
  ModelCode code_;
  std::vector<std::string> objects_;  // of the library
  std::uint64_t weights_hash_ = 0, weights_at_ = 0;
};

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
  switch (format) {
    case ir::WeightFormat::kF32:
      return "f32";
    case ir::WeightFormat::kF16:
      return "f16";
    case ir::WeightFormat::kQ6:
      return "q6";
    case ir::WeightFormat::kQ8:
      return "q8";
    default:
      return "q4";
  }
}

namespace {

/// Everything behind the plan. `bundle` has the times of what went before.
Result<Bundle> write_bundle(const CompileOptions& options, const Toolchain& toolchain,
                            Prepared prepared, Bundle bundle, const Progress& progress) {
  PhaseClock clock(bundle.times);
  LLMC_TRY(AtomicDirectory output, AtomicDirectory::create(options.out_dir, is_only_a_bundle));
  BundleWriter writer(options, toolchain, prepared, output.path(), progress);
  LLMC_RETURN_IF_ERROR(writer.write_weights());
  clock.finish("weights");
  LLMC_RETURN_IF_ERROR(writer.write_sources());
  LLMC_RETURN_IF_ERROR(writer.compile());
  clock.finish("compile");
  if (prepared.plan.prompt.tokens > 0) {
    LLMC_RETURN_IF_ERROR(writer.write_prompt());
    clock.finish("prompt");
  }
  LLMC_TRY(bundle.files, writer.finish());
  LLMC_RETURN_IF_ERROR(output.commit());
  clock.finish("write");
  bundle.folder = options.out_dir;
  bundle.name = prepared.plan.options.name;
  bundle.plan = std::move(prepared.plan);
  return bundle;
}

}  // namespace

Result<Bundle> compile_model(const CompileOptions& options, const Progress& progress) {
  Bundle bundle;
  PhaseClock clock(bundle.times);
  LLMC_TRY(const Toolchain toolchain, find_toolchain(options.cc));
  if (options.out_dir.empty()) return bad_input("no output folder was given", "use -o DIR");
  LLMC_TRY(Prepared prepared, prepare(options, progress, clock));
  return write_bundle(options, toolchain, std::move(prepared), std::move(bundle), progress);
}

Result<Bundle> compile_stages(const ir::Graph& stages, const CompileOptions& options) {
  LLMC_TRY(const Toolchain toolchain, find_toolchain(options.cc));
  LLMC_TRY(plan::PlanOptions planned, plan_options(options));
  Prepared prepared;
  LLMC_RETURN_IF_ERROR(read_system_prompt(options, prepared, planned));
  LLMC_TRY(prepared.plan, plan_stages(stages, planned, options));
  return write_bundle(options, toolchain, std::move(prepared), {}, {});
}

Result<plan::Plan> plan_model(const CompileOptions& options, const Progress& progress) {
  std::vector<PhaseTime> times;
  PhaseClock clock(times);
  LLMC_TRY(Prepared prepared, prepare(options, progress, clock));
  return std::move(prepared.plan);
}

}  // namespace llmc::driver
