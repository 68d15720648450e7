#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <tuple>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/compile.h"
#include "compiler/driver/side_files.h"
#include "compiler/onnx/inspect.h"
#include "compiler/support/counted.h"
#include "passes/pipeline.h"
#include "passes/recognise.h"
#include "tools/llmc/bundle_text.h"
#include "tools/llmc/function_text.h"
#include "tools/llmc/options.h"
#include "tools/llmc/plan_text.h"

namespace llmc::cli {
namespace {

struct InspectCommand {
  std::string model;
  FunctionOptions function;
};

struct Facts {
  importer::Inspection files;
  bool function = false;                                // `compile` compiles it as a function
  std::optional<passes::ModelProperties> architecture;  // of an imported decoder
  Json loops;                      // "loops" of plan.json; null: all work is in kernels
  Json encoder_loops;              // of the media encoder, or source encoder and its projections
  std::vector<Diagnostic> errors;  // errors of `compile`; empty: it would succeed

  bool is_decoder() const { return files.model && files.model->is_decoder(); }
  bool has_cache() const {
    return is_decoder() && !function && architecture && architecture->layers > 0;
  }
};

std::string dims_text(const std::vector<std::string>& dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

std::string layout_text(ir::CacheLayout layout) {
  return layout == ir::CacheLayout::kSequenceFirst ? "[2, 1, tokens, kv_heads, head_dim]"
                                                   : "[2, 1, kv_heads, tokens, head_dim]";
}

/// Returns the bytes of a sequence's recurrent states.
std::int64_t recurrent_bytes(const ir::Module& module) {
  std::int64_t bytes = 0;
  const ir::Graph& graph = module.graph();
  for (const ir::State& state : module.states) {
    if (state.kind != ir::StateKind::kRecurrent) continue;
    const ir::ValueId input = graph.input(ir::InputKind::kRecurrent, state.layer);
    std::int64_t size = sizeof(float);
    for (const ir::Dim& dim : graph.value(input).type.dims) size *= dim.constant().value_or(1);
    bytes += size;
  }
  return bytes;
}

/// Returns the architecture as JSON. Unknown sizes, which are 0, become null.
Json architecture_json(const passes::ModelProperties& a, bool has_cache) {
  Json result = Json::object();
  const std::pair<const char*, std::int64_t> sizes[] = {
      {"layers", a.layers},        {"heads", a.heads},   {"kv_heads", a.kv_heads},
      {"head_dim", a.head_dim},    {"hidden", a.hidden}, {"intermediate", a.intermediate},
      {"vocabulary", a.vocabulary}};
  for (const auto& [name, size] : sizes) result[name] = size == 0 ? Json(nullptr) : Json(size);
  result["rope_theta"] = a.rope_theta ? Json(*a.rope_theta) : Json(nullptr);
  result["rotary_dim"] = a.rotary_dim;
  result["rope_interleaved"] = a.rope_interleaved;
  result["image_positions"] = a.image_positions;
  result["norm_epsilon"] = a.norm_epsilon ? Json(*a.norm_epsilon) : Json(nullptr);
  result["qkv_bias"] = a.qkv_bias;
  result["tied_embedding"] = a.tied;
  result["cache_layout"] = has_cache ? Json(layout_text(a.cache_layout)) : Json(nullptr);
  result["fused"] = Json{{"rms_norm", a.fused.norms},       {"rope", a.fused.ropes},
                         {"attention", a.fused.attentions}, {"layer_norm", a.fused.layer_norms},
                         {"head_norm", a.fused.head_norms}, {"mlp", a.fused.mlps},
                         {"linear", a.fused.linears},       {"expert_linear", a.fused.experts}};
  if (a.fused.cross_attentions > 0) result["fused"]["cross_attention"] = a.fused.cross_attentions;
  result["activations"] = a.activations;
  result["softcap"] = a.softcap;
  result["windows"] = Json::array();
  for (const auto& [window, count] : a.windows)
    result["windows"].push_back(Json{{"tokens", window}, {"attentions", count}});
  for (const auto& [chunk, count] : a.chunks)
    result["chunks"].push_back(Json{{"tokens", chunk}, {"attentions", count}});
  result["elementwise"] = a.elementwise;
  result["unfused"] = a.unfused;
  return result;
}

Json declared_json(const std::vector<importer::DeclaredValue>& values) {
  Json list = Json::array();
  for (const auto& v : values)
    list.push_back(Json{{"name", v.name}, {"element", v.element}, {"dims", v.dims}});
  return list;
}

/// Returns the diagnostics that satisfy `wanted` as JSON.
template <class Wanted>
Json diagnostics_json(const std::vector<Diagnostic>& diagnostics, const Wanted& wanted) {
  Json list = Json::array();
  for (const Diagnostic& d : diagnostics) {
    if (!wanted(d)) continue;
    list.push_back(Json{{"file", d.file},
                        {"node", d.node},
                        {"op", d.op},
                        {"message", d.message},
                        {"hint", d.hint}});
  }
  return list;
}

void show_json(const Facts& facts) {
  Json files = Json::array();
  for (const auto& f : facts.files.files)
    files.push_back(Json{{"name", f.name}, {"role", to_string(f.role)}, {"bytes", f.size_bytes}});
  Json onnx = Json::array();
  for (const auto& o : facts.files.onnx) {
    onnx.push_back(Json{{"file", o.file},
                        {"producer", o.producer},
                        {"ir_version", o.ir_version},
                        {"opsets", o.opsets},
                        {"inputs", declared_json(o.inputs)},
                        {"outputs", declared_json(o.outputs)},
                        {"nodes", o.nodes},
                        {"initializers", o.initializers},
                        {"weight_bytes", o.weight_bytes},
                        {"operators", o.operators}});
  }
  Json result{{"path", facts.files.path.string()}, {"files", files}, {"onnx", onnx}};
  result["decoder"] = facts.is_decoder();
  if (facts.is_decoder() && facts.files.model->module.is_recurrent())
    result["state_bytes"] = recurrent_bytes(facts.files.model->module);
  result["function"] = facts.function;
  result["compiles"] = facts.errors.empty();
  result["architecture"] = facts.architecture
                               ? architecture_json(*facts.architecture, facts.has_cache())
                               : Json(nullptr);
  const auto unsupported = [](const Diagnostic& d) { return d.kind == ErrorKind::kUnsupported; };
  result["loops"] = facts.loops;
  if (!facts.encoder_loops.is_null()) result["encoder_loops"] = facts.encoder_loops;
  result["unsupported"] = diagnostics_json(facts.errors, unsupported);
  result["problems"] = diagnostics_json(facts.errors, std::not_fn(unsupported));
  result["warnings"] =
      diagnostics_json(facts.files.warnings, [](const Diagnostic&) { return true; });
  print_json(result);
}

void show_files(const Facts& facts) {
  print("files\n");
  for (const auto& f : facts.files.files)
    print(fmt::format("  {:<28} {:>11}  {}\n", printable(f.name), human_bytes(f.size_bytes),
                      to_string(f.role)));
}

/// Prints the graphs of the files. Unless `all` is set, prints only the first of several equal
/// blocks of a split model.
void show_graphs(const Facts& facts, bool all) {
  std::map<std::string, std::int64_t> operators;
  std::int64_t nodes = 0;
  const importer::InspectedOnnx* previous = nullptr;
  for (const auto& o : facts.files.onnx) {
    for (const auto& [name, count] : o.operators) operators[name] += count;
    nodes += o.nodes;
    const bool repeats = previous && previous->operators == o.operators &&
                         previous->inputs.size() == o.inputs.size();
    previous = &o;
    if (repeats && !all) continue;
    std::string opsets;
    for (const auto& [domain, version] : o.opsets)
      opsets += fmt::format(" {}{}", domain.empty() ? "opset " : printable(domain) + " ", version);
    print(fmt::format("{}:{}, {}, {}, {} of weights\n", printable(o.file), opsets,
                      printable(o.producer), counted(o.nodes, "node"),
                      human_bytes(o.weight_bytes)));
    // Align the names of a file; a longer name shifts only its own line.
    std::size_t width = 18;
    for (const auto* values : {&o.inputs, &o.outputs})
      for (const auto& v : *values)
        width = std::max(width, std::min<std::size_t>(v.name.size(), 40));
    const auto show = [&](const char* what, const auto& values) {
      for (const auto& v : values)
        print(fmt::format("  {:<4} {:<{}} {:<4} {}\n", what, printable(v.name), width, v.element,
                          printable(dims_text(v.dims))));
    };
    show("in", o.inputs);
    show("out", o.outputs);
  }
  print(fmt::format("operators, {} in total\n ", counted(nodes, "node")));
  std::vector<std::pair<std::string, std::int64_t>> sorted(operators.begin(), operators.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::tie(b.second, a.first) < std::tie(a.second, b.first);
  });
  std::size_t column = 1;
  for (const auto& [name, count] : sorted) {
    const std::string item = fmt::format(" {} {}", printable(name), count);
    if (column + item.size() > 96) {
      print("\n ");
      column = 1;
    }
    print(item);
    column += item.size();
  }
  print("\n");
}

/// Returns sizes as text, "layers 6, heads 8". Unknown sizes are omitted.
std::string sizes_text(std::initializer_list<std::pair<const char*, std::int64_t>> sizes) {
  std::string text;
  for (const auto& [name, size] : sizes)
    if (size != 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, size);
  return text;
}

/// Prints the recognised architecture; unknown properties are omitted.
void show_architecture(const passes::ModelProperties& a, bool has_cache) {
  print("recognised\n");
  const auto line = [](const std::string& text) {
    if (!text.empty()) print("  " + text + "\n");
  };
  line(sizes_text({{"layers", a.layers},
                   {"heads", a.heads},
                   {"kv heads", a.kv_heads},
                   {"head dim", a.head_dim}}));
  std::string widths = sizes_text(
      {{"hidden", a.hidden}, {"intermediate", a.intermediate}, {"vocabulary", a.vocabulary}});
  if (a.tied)
    widths += widths.empty() ? "head tied to the embedding" : ", head tied to the embedding";
  if (a.qkv_bias) widths += widths.empty() ? "q/k/v bias" : ", q/k/v bias";
  line(widths);
  if (a.rotary_dim > 0) {
    // The size of a head is unknown if no attention was recognised.
    const std::string heads = a.head_dim > 0 ? fmt::format(" of {}", a.head_dim) : std::string();
    print(fmt::format("  rope: {}{} dims, {}, {}{}\n", a.rotary_dim, heads,
                      a.rope_interleaved ? "interleaved pairs" : "halves",
                      a.rope_theta ? fmt::format("theta {:g}", *a.rope_theta)
                                   : std::string(a.rope_table ? "a table" : "own frequencies"),
                      a.image_positions ? ", positions in images" : ""));
  }
  if (a.norm_epsilon) print(fmt::format("  norm epsilon {:g}\n", *a.norm_epsilon));
  if (has_cache) print(fmt::format("  cache {}\n", layout_text(a.cache_layout)));
  const auto counts = [](const std::map<std::string, std::int64_t>& map) {
    std::string line;
    for (const auto& [name, count] : map) line += fmt::format(" {} {}", name, count);
    return line;
  };
  for (const auto& [window, count] : a.windows)
    if (window > 0)
      print(fmt::format("  window: {} in {}\n", counted(window, "token"),
                        counted(count, "attention")));
  for (const auto& [chunk, count] : a.chunks)
    print(
        fmt::format("  chunks: {} in {}\n", counted(chunk, "token"), counted(count, "attention")));
  if (a.softcap > 0) print(fmt::format("  scores capped at {:g}\n", a.softcap));
  if (!a.activations.empty()) print(fmt::format("  mlp:{}\n", counts(a.activations)));
  if (a.experts > 0) print(fmt::format("  experts: {}\n", a.experts));
  std::string fused;
  const std::pair<const char*, std::int64_t> patterns[] = {
      {"attention", a.fused.attentions},
      {"cross-attention", a.fused.cross_attentions},
      {"rms_norm", a.fused.norms},
      {"layer_norm", a.fused.layer_norms},
      {"q/k norm", a.fused.head_norms},
      {"rope", a.fused.ropes},
      {"mlp", a.fused.mlps},
      {"linear", a.fused.linears},
      {"expert_linear", a.fused.experts}};
  for (const auto& [name, count] : patterns)
    if (count > 0) fused += fmt::format("{}{} {}", fused.empty() ? "fused: " : ", ", count, name);
  line(fused);
  if (!a.elementwise.empty())
    print(fmt::format("  element by element:{}\n", counts(a.elementwise)));
  if (!a.unfused.empty()) print(fmt::format("  not fused:{}\n", counts(a.unfused)));
}

/// Plans the model like `compile`, without encoding weights or running clang. Fails like `compile`.
Status plan_it(const driver::CompileOptions& options, Facts& facts) {
  LLMC_TRY(driver::Source source, driver::read_source(options));
  facts.function = source.is_function;
  const std::string targets[] = {options.target};
  LLMC_TRY(const auto plans, driver::plan_model(options, std::move(source), targets));
  const Json plan = plan_json(plans.front());
  if (plan.contains("loops")) facts.loops = plan.at("loops");
  for (const char* const section : {"source", "image"})
    if (plan.contains(section) && plan.at(section).contains("loops"))
      facts.encoder_loops = plan.at(section).at("loops");
  return ok_status();
}

Result<Facts> collect(driver::CompileOptions options) {
  Facts facts;
  std::vector<Diagnostic> warnings;
  options.import.on_warning = [&](const Diagnostic& d) { warnings.push_back(d); };
  options.on_stages = [&](const ir::Graph& stages) {
    facts.architecture = passes::recognise(stages);
  };
  const Status planned = plan_it(options, facts);
  auto files = importer::inspect_model(options.model, options.reader);
  if (!files.ok()) return planned.ok() ? files.error() : planned.error();
  facts.files = *std::move(files);
  driver::add_side_files(options.model, facts.files.files);
  // Add the warnings that are not already among those of the files.
  for (Diagnostic& d : warnings) {
    const auto same = [&d](const Diagnostic& known) { return format(known) == format(d); };
    if (std::ranges::none_of(facts.files.warnings, same))
      facts.files.warnings.push_back(std::move(d));
  }
  if (!planned.ok()) facts.errors = planned.error().diagnostics();
  if (facts.is_decoder() && !facts.function && !facts.architecture) {
    // The passes failed or did not run; `errors` has the reason.
    const auto result = passes::run_pipeline(facts.files.model->graph());
    if (result.ok()) facts.architecture = passes::recognise(result->graph);
  }
  return facts;
}

Result<int> inspect(const InspectCommand& command, const Globals& globals) {
  if (driver::looks_like_bundle(command.model)) {
    if (command.function.function || !command.function.dims.empty())
      return usage_error("--function and --dim cannot change a compiled bundle", "remove them");
    return show_bundle(command.model, /*files=*/true, 0, globals);
  }
  note_model_file(globals, command.model);
  ModelOptions defaults;
  defaults.model = command.model;
  defaults.use = ModelUse::kPlan;
  LLMC_TRY(auto options, compile_options(defaults));
  LLMC_RETURN_IF_ERROR(apply(command.function, options));
  const auto warn = warn_once(globals);
  options.import.on_warning = warn;
  LLMC_TRY(const auto facts, collect(options));
  if (globals.json) {
    show_json(facts);
  } else {
    show_files(facts);
    show_graphs(facts, globals.verbose > 0);
    if (facts.function)
      print(facts.is_decoder()
                ? "a decoder: --function compiles its graph as a function (docs/functions.md)\n"
                : "not a decoder (token ids, a KV cache and logits): `llmc compile` compiles it as "
                  "a function (docs/functions.md)\n");
    if (facts.architecture) show_architecture(*facts.architecture, facts.has_cache());
    if (facts.is_decoder() && facts.files.model->module.is_recurrent())
      print(fmt::format("  recurrent states: {} bytes a sequence\n",
                        recurrent_bytes(facts.files.model->module)));
    if (!facts.loops.is_null()) print("loops: " + loops_text(facts.loops) + "\n");
    if (!facts.encoder_loops.is_null())
      print("loops of the encoder: " + loops_text(facts.encoder_loops) + "\n");
  }
  std::ranges::for_each(facts.files.warnings, warn);
  // All errors of compilation go to stderr and determine the exit code.
  if (!facts.errors.empty()) return Error(facts.errors);
  return 0;
}

}  // namespace

Action add_inspect(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<InspectCommand>();
  app.add_option("MODEL", command->model, "Folder of a model, one .onnx file, or a bundle")
      ->required()
      ->check(not_empty)
      ->type_name("");
  add_function_options(app, command->function);
  return [command, &globals] { return inspect(*command, globals); };
}

}  // namespace llmc::cli
