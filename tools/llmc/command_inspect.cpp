#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <tuple>

#include "compiler/onnx/inspect.h"
#include "passes/pipeline.h"
#include "passes/recognise.h"
#include "tools/llmc/options.h"

namespace llmc::cli {
namespace {

struct Facts {
  importer::Inspection files;
  std::optional<passes::Architecture> architecture;  // of a model that could be imported
};

std::string dims_text(const std::vector<std::string>& dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

std::string layout_text(ir::CacheLayout layout) {
  return layout == ir::CacheLayout::kSequenceFirst ? "[2, 1, tokens, kv_heads, head_dim]"
                                                   : "[2, 1, kv_heads, tokens, head_dim]";
}

Json architecture_json(const passes::Architecture& a) {
  Json result{{"layers", a.layers},        {"heads", a.heads},   {"kv_heads", a.kv_heads},
              {"head_dim", a.head_dim},    {"hidden", a.hidden}, {"intermediate", a.intermediate},
              {"vocabulary", a.vocabulary}};
  result["rope_theta"] = a.rope_theta ? Json(*a.rope_theta) : Json(nullptr);
  result["rotary_dim"] = a.rotary_dim;
  result["rope_interleaved"] = a.rope_interleaved;
  result["norm_epsilon"] = a.norm_epsilon ? Json(*a.norm_epsilon) : Json(nullptr);
  result["qkv_bias"] = a.qkv_bias;
  result["tied_embedding"] = a.tied;
  result["cache_layout"] = layout_text(a.cache_layout);
  result["fused"] = Json{{"rms_norm", a.fused.norms},       {"rope", a.fused.ropes},
                         {"attention", a.fused.attentions}, {"layer_norm", a.fused.layer_norms},
                         {"head_norm", a.fused.head_norms}, {"mlp", a.fused.mlps},
                         {"linear", a.fused.linears}};
  result["activations"] = a.activations;
  result["softcap"] = a.softcap;
  result["windows"] = Json::array();
  for (const auto& [window, count] : a.windows)
    result["windows"].push_back(Json{{"tokens", window}, {"attentions", count}});
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

Json diagnostics_json(const std::vector<Diagnostic>& diagnostics) {
  Json list = Json::array();
  for (const Diagnostic& d : diagnostics) {
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
  result["decoder"] = facts.files.model && facts.files.model->kind == importer::GraphKind::kDecoder;
  result["architecture"] =
      facts.architecture ? architecture_json(*facts.architecture) : Json(nullptr);
  result["unsupported"] = diagnostics_json(facts.files.unsupported);
  result["problems"] = diagnostics_json(facts.files.problems);
  print_json(result);
}

void show_files(const Facts& facts) {
  print("files\n");
  for (const auto& f : facts.files.files)
    print(fmt::format("  {:<28} {:>11}  {}\n", printable(f.name), human_bytes(f.size_bytes),
                      to_string(f.role)));
}

/// Blocks of a split model are alike: the first of each kind stands for the rest.
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
    print(fmt::format("{}:{}, {}, {} nodes, {} of weights\n", printable(o.file), opsets,
                      printable(o.producer), o.nodes, human_bytes(o.weight_bytes)));
    // One column for all names of a file; a name beyond it shifts its own line only.
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
  print(fmt::format("operators, {} nodes in all\n ", nodes));
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

void show_architecture(const passes::Architecture& a) {
  print("recognised\n");
  print(fmt::format("  layers {}, heads {}, kv heads {}, head dim {}\n", a.layers, a.heads,
                    a.kv_heads, a.head_dim));
  print(fmt::format("  hidden {}, intermediate {}, vocabulary {}{}{}\n", a.hidden, a.intermediate,
                    a.vocabulary, a.tied ? ", head tied to the embedding" : "",
                    a.qkv_bias ? ", q/k/v bias" : ""));
  if (a.rotary_dim > 0) {
    // Without an attention that was recognised nobody knows how large a head is.
    const std::string heads = a.head_dim > 0 ? fmt::format(" of {}", a.head_dim) : std::string();
    print(fmt::format("  rope: {}{} dims, {}, {}\n", a.rotary_dim, heads,
                      a.rope_interleaved ? "interleaved pairs" : "halves",
                      a.rope_theta ? fmt::format("theta {:g}", *a.rope_theta)
                                   : std::string(a.rope_table ? "a table" : "own frequencies")));
  }
  if (a.norm_epsilon) print(fmt::format("  norm epsilon {:g}\n", *a.norm_epsilon));
  print(fmt::format("  cache {}\n", layout_text(a.cache_layout)));
  const auto counts = [](const std::map<std::string, std::int64_t>& map) {
    std::string line;
    for (const auto& [name, count] : map) line += fmt::format(" {} {}", name, count);
    return line;
  };
  for (const auto& [window, count] : a.windows)
    if (window > 0) print(fmt::format("  window: {} tokens in {} attentions\n", window, count));
  if (a.softcap > 0) print(fmt::format("  scores capped at {:g}\n", a.softcap));
  if (!a.activations.empty()) print(fmt::format("  mlp:{}\n", counts(a.activations)));
  std::string norms;
  if (a.fused.norms > 0) norms += fmt::format(", {} rms_norm", a.fused.norms);
  if (a.fused.layer_norms > 0) norms += fmt::format(", {} layer_norm", a.fused.layer_norms);
  if (a.fused.head_norms > 0) norms += fmt::format(", {} q/k norm", a.fused.head_norms);
  print(fmt::format("  fused: {} attention{}, {} rope, {} mlp, {} linear\n", a.fused.attentions,
                    norms, a.fused.ropes, a.fused.mlps, a.fused.linears));
  if (!a.elementwise.empty())
    print(fmt::format("  element by element:{}\n", counts(a.elementwise)));
  if (!a.unfused.empty()) print(fmt::format("  not fused:{}\n", counts(a.unfused)));
}

Result<Facts> collect(const std::string& path) {
  Facts facts;
  LLMC_TRY(facts.files, importer::inspect_model(path));
  if (facts.files.model) {
    LLMC_TRY(const passes::PipelineResult result, passes::run_pipeline(facts.files.model->graph));
    facts.architecture = passes::recognise(result.graph);
  }
  return facts;
}

int inspect(const std::string& path, const Globals& globals) {
  if (const Status model = refuse_bundle(path); !model.ok()) return fail(model.error());
  note_model_file(globals, path);
  const auto facts = collect(path);
  if (!facts.ok()) return fail(facts.error());
  if (globals.json) {
    show_json(*facts);
  } else {
    show_files(*facts);
    show_graphs(*facts, globals.verbose > 0);
    const auto& imported = facts->files.model;
    if (imported && imported->kind == importer::GraphKind::kGeneric)
      print("no decoder: `llmc compile` makes a function of it (docs/functions.md)\n");
    else if (facts->architecture)
      show_architecture(*facts->architecture);
  }
  // What stands in the way goes to stderr, all of it, and decides the exit code.
  std::vector<Diagnostic> all = facts->files.unsupported;
  all.insert(all.end(), facts->files.problems.begin(), facts->files.problems.end());
  return all.empty() ? 0 : fail(Error(std::move(all)));
}

}  // namespace

Action add_inspect(CLI::App& app, const Globals& globals) {
  auto path = std::make_shared<std::string>();
  app.add_option("MODEL", *path, "Folder of a model, or one .onnx file")->required()->type_name("");
  return [path, &globals] { return inspect(*path, globals); };
}

}  // namespace llmc::cli
