#include "compiler/driver/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>

#include "compiler/driver/archive.h"
#include "compiler/driver/bundle_files.h"
#include "compiler/driver/chat_files.h"
#include "compiler/driver/output_file.h"
#include "compiler/driver/resources.h"
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

/// Above it one read-only section no longer links with default flags on every target.
constexpr std::uint64_t kMaxEmbeddedBytes = 1900ull << 20;

class Clock {
 public:
  explicit Clock(std::vector<PhaseTime>& times) : times_(times) {}
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

/// Reads the model's tokenizer, if it has one. One that is refused leaves the library without: it
/// works with token ids all the same.
void read_tokenizer(const CompileOptions& options, Prepared& prepared, plan::PlanOptions& planned) {
  const auto& known = prepared.model.tokenizer;
  const fs::path path = known ? known->path : find_tokenizer(options.model);
  if (path.empty()) return;
  std::vector<std::int64_t> prefix, stop;
  auto loaded = hosted::Tokenizer::load(path);
  if (loaded.ok()) {
    prepared.tokenizer = std::move(*loaded);
    planned.tokenizer_file = planned.name + ".tokenizer.bin";
    planned.tokenizer_kind =
        known ? std::string(importer::to_string(known->kind)) : path.filename().string();
    const hosted::SpecialIds& ids = prepared.tokenizer->special_ids();
    prefix.assign(ids.prefix.begin(), ids.prefix.end());
    stop.assign(ids.stop.begin(), ids.stop.end());
  } else {
    planned.tokenizer_refused = loaded.failure().message;
    if (const std::string folder = path.parent_path().string() + "/";
        planned.tokenizer_refused.starts_with(
            folder))  // bundles do not depend on where they were made
      planned.tokenizer_refused.erase(0, folder.size());
    if (known) {
      prefix = known->prefix_ids;
      stop = known->stop_ids;
    }
  }
  const std::int64_t vocabulary = prepared.model.facts.vocabulary;
  const auto in_model = [&](std::int64_t id) { return id >= 0 && id < vocabulary; };
  if (!prefix.empty() && in_model(prefix.front())) planned.bos_id = prefix.front();
  std::ranges::copy_if(stop, std::back_inserter(planned.stop_ids), in_model);
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

Result<Prepared> prepare(const CompileOptions& options, const Progress& progress, Clock& clock) {
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
  read_tokenizer(options, prepared, planned);
  planned.prompt_template = prepared.model.prompt_template;
  LLMC_TRY(prepared.chat, read_chat_files(options.model));

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
        progress_(progress) {}

  Status write_weights() {
    const bool embed = plan_.options.embed_weights;
    const std::string symbol = name_ + "_weights";
    const fs::path path = folder_ / (embed ? weights_content() : name_ + ".weights.bin");
    LLMC_RETURN_IF_ERROR(make_folder(kObjects));
    const emit::ElfObject elf = emit::elf_object(plan_.options.target->architecture, symbol,
                                                 plan_.weights_bytes, LLMC_ALIGNMENT);
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
      const emit::ElfObject small = emit::elf_object(plan_.options.target->architecture, symbol,
                                                     LLMC_ALIGNMENT, LLMC_ALIGNMENT);
      const std::string nothing(LLMC_ALIGNMENT, '\0');
      LLMC_RETURN_IF_ERROR(write(object("weights"), small.prefix + nothing + small.suffix));
    } else {
      std::ranges::copy(std::string_view(LLMC_WEIGHTS_MAGIC), header.magic);
      header.bytes = plan_.weights_bytes;
      header.hash = weights_hash_;
      LLMC_RETURN_IF_ERROR(file.patch(0, bytes_of(header)));
    }
    return file.close();
  }

  Status write_sources() {
    const std::string source = emit::model_source(plan_, weights_hash_);
    LLMC_RETURN_IF_ERROR(write(name_ + ".h", emit::header(plan_, weights_hash_)));
    LLMC_RETURN_IF_ERROR(write("src/model.cpp", source));
    for (const Resource& resource : resources_for(source)) {
      const std::string path = bundle_path(resource.path);
      LLMC_RETURN_IF_ERROR(write(path, resource.content));
      if (path.ends_with(".cpp")) core_sources_.push_back(path);
    }
    LLMC_RETURN_IF_ERROR(
        write("src/build.sh",
              build_script(toolchain_, *plan_.options.target, name_,
                           model_arguments(*plan_.options.target, name_, options_.cflags),
                           core_sources_, plan_.options.embed_weights, !grammar_.empty())));
    LLMC_RETURN_IF_ERROR(write(name_ + ".cmake", emit::cmake_file(name_)));
    LLMC_RETURN_IF_ERROR(write(
        name_ + ".pc", emit::pkg_config_file(name_, "language model", *plan_.options.target)));
    if (tokenizer_ != nullptr) {
      const auto tables = tokenizer_->tables();
      LLMC_RETURN_IF_ERROR(write(plan_.options.tokenizer_file,
                                 {reinterpret_cast<const char*>(tables.data()), tables.size()}));
    }
    if (is_kept(chat_)) LLMC_RETURN_IF_ERROR(write(name_ + kChatSuffix, hosted::to_json(chat_)));
    return ok_status();
  }

  /// The model's source beside the core's: one clang for each, at the same time.
  Status compile() {
    const std::uint64_t total = core_sources_.size() + 1;
    report(progress_, "compile", 0, total);
    const target::Target& target = *plan_.options.target;
    const std::string model_object = object("model");
    auto model = std::async(std::launch::async, [&] {
      return compile_source(toolchain_, folder_, model_arguments(target, name_, options_.cflags),
                            "src/model.cpp", model_object);
    });
    std::vector<std::string> objects{model_object};
    Status core = ok_status();
    for (std::size_t i = 0; i < core_sources_.size() && core.ok(); ++i) {
      objects.push_back(
          fmt::format("{}/llmc_{}.o", kObjects, fs::path(core_sources_[i]).stem().string()));
      core = compile_source(toolchain_, folder_, core_arguments(target), core_sources_[i],
                            objects.back());
      report(progress_, "compile", i + 1, total);
    }
    LLMC_RETURN_IF_ERROR(model.get());
    LLMC_RETURN_IF_ERROR(std::move(core));
    report(progress_, "compile", total, total);
    LLMC_RETURN_IF_ERROR(measure_code(objects));
    if (!grammar_.empty()) {
      const emit::ElfObject elf =
          emit::elf_object(target.architecture, name_ + "_grammar", grammar_.size(), LLMC_ALIGNMENT,
                           /*exported=*/true);
      objects.push_back(object("grammar"));
      LLMC_RETURN_IF_ERROR(write(objects.back(), elf.prefix + grammar_ + elf.suffix));
    }
    const std::string archive = "lib" + name_ + ".a";
    if (!plan_.options.embed_weights) return make_archive(toolchain_, folder_, archive, objects);
    objects.push_back(object("weights"));
    LLMC_RETURN_IF_ERROR(make_archive(toolchain_, folder_, archive, objects));
    return replace_last_member(folder_, archive, weights_content());
  }

  /// Returns the files of the bundle.
  Result<std::vector<std::string>> finish() {
    std::error_code error;
    fs::remove_all(folder_ / kObjects, error);
    if (error) return system_error(folder_ / kObjects, "remove", error.value());
    return write_plan_file(folder_, name_,
                           plan::to_json(plan_, fmt::format("{:016x}", weights_hash_)));
  }

 private:
  static constexpr const char* kObjects = "build";

  template <class T>
  static std::string_view bytes_of(const T& value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }
  std::string object(std::string_view part) const {
    return fmt::format("{}/{}_{}.o", kObjects, name_, part);
  }
  /// The object of the weights; object("weights") stands in for it while the archive is made.
  static std::string weights_content() { return fmt::format("{}/weights", kObjects); }
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
  std::uint64_t weights_hash_ = 0;
  std::vector<std::string> core_sources_;
};

}  // namespace

std::optional<ir::WeightFormat> parse_weight_format(std::string_view text) {
  if (text == "q4") return ir::WeightFormat::kQ4;
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
  Clock clock(bundle.times);
  LLMC_TRY(AtomicDirectory output, AtomicDirectory::create(options.out_dir, is_only_a_bundle));
  BundleWriter writer(options, toolchain, prepared, output.path(), progress);
  LLMC_RETURN_IF_ERROR(writer.write_weights());
  clock.finish("weights");
  LLMC_RETURN_IF_ERROR(writer.write_sources());
  LLMC_RETURN_IF_ERROR(writer.compile());
  clock.finish("compile");
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
  Clock clock(bundle.times);
  LLMC_TRY(const Toolchain toolchain, find_toolchain(options.cc));
  if (options.out_dir.empty()) return bad_input("no output folder was given", "use -o DIR");
  LLMC_TRY(Prepared prepared, prepare(options, progress, clock));
  return write_bundle(options, toolchain, std::move(prepared), std::move(bundle), progress);
}

Result<Bundle> compile_stages(const ir::Graph& stages, const CompileOptions& options) {
  LLMC_TRY(const Toolchain toolchain, find_toolchain(options.cc));
  LLMC_TRY(const plan::PlanOptions planned, plan_options(options));
  Prepared prepared;
  LLMC_TRY(prepared.plan, plan_stages(stages, planned, options));
  return write_bundle(options, toolchain, std::move(prepared), {}, {});
}

Result<plan::Plan> plan_model(const CompileOptions& options, const Progress& progress) {
  std::vector<PhaseTime> times;
  Clock clock(times);
  LLMC_TRY(Prepared prepared, prepare(options, progress, clock));
  return std::move(prepared.plan);
}

}  // namespace llmc::driver
