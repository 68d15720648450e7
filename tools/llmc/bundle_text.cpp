#include "tools/llmc/bundle_text.h"

#include <fmt/format.h>

#include "compiler/driver/bundle_files.h"
#include "tools/llmc/function_text.h"
#include "tools/llmc/plan_text.h"

namespace llmc::cli {
namespace {

/// Returns a line of "name value" pairs. Pairs without a value are omitted.
std::string fact_line(std::string_view what,
                      std::initializer_list<std::pair<std::string_view, std::string>> facts) {
  std::string text = fmt::format("{:<11} ", what);
  const char* separator = "";
  for (const auto& [name, value] : facts) {
    if (value.empty()) continue;
    text += fmt::format("{}{}{}{}", separator, name, name.empty() ? "" : " ", printable(value, 80));
    separator = ", ";
  }
  return text + "\n";
}

/// Returns a member of a JSON object as text; empty if it is missing or null.
std::string fact(const Json& object, const char* name) {
  const auto it = object.find(name);
  if (it == object.end() || it->is_null()) return {};
  return it->is_string() ? it->get<std::string>() : it->dump();
}

std::string bundle_text(const Json& plan) {
  const Json& options = plan.at("options");
  std::string text = fact_line(
      "bundle", {{"", fact(plan, "name")},
                 {"target", fact(plan, "target")},
                 {"level", fact(plan, "opt_level")},
                 {"numerics", fact(plan, "numerics")},
                 {"quant", fact(options, "quant")},
                 {"weights in", fact(options, "weights") == "file" ? "a file" : "the library"}});
  if (plan.contains("kind")) return text + plan_text(plan);
  const Json& model = plan.at("model");
  text += fact_line("model", {{"layers", fact(model, "layers")},
                              {"hidden", fact(model, "hidden")},
                              {"heads", fact(model, "heads")},
                              {"kv heads", fact(model, "kv_heads")},
                              {"head dim", fact(model, "head_dim")},
                              {"vocabulary", fact(model, "vocabulary")}});
  if (plan.contains("tokenizer")) {
    const Json& tokenizer = plan.at("tokenizer");
    text += fact_line("tokenizer", {{"", fact(tokenizer, "kind")},
                                    {"in", fact(tokenizer, "file")},
                                    {"stop ids", fact(tokenizer, "stop_ids")}});
  } else if (plan.contains("tokenizer_refused")) {
    text += fact_line("tokenizer", {{"none:", fact(plan, "tokenizer_refused")}});
  }
  return text + plan_text(plan);
}

void show_bundle_files(const std::filesystem::path& folder, const Json& plan) {
  print("files\n");
  for (const Json& entry : plan.value("files", Json::array())) {
    const auto name = entry.get<std::string>();
    std::error_code unknown;
    const auto bytes = std::filesystem::file_size(folder / name, unknown);
    print(fmt::format("  {:<40} {:>11}\n", printable(name),
                      unknown ? "missing" : human_bytes(bytes)));
  }
}

}  // namespace

Result<int> show_bundle(const std::filesystem::path& folder, bool files, std::uint64_t max_ram,
                        const Globals& globals) {
  LLMC_TRY(const auto text, driver::read_plan_file(folder));
  const Json plan = Json::parse(text);
  const Diagnostic damaged{.kind = ErrorKind::kBadInput,
                           .file = folder.string(),
                           .message = fmt::format("damaged bundle: {}.plan.json was changed",
                                                  driver::bundle_name(folder).value_or("NAME")),
                           .hint = "compile the model again"};
  try {
    const std::string shown = bundle_text(plan);
    const auto arena = plan.at("bytes").at("arena").get<std::uint64_t>();
    if (globals.json) {
      print_json(plan);
    } else {
      print(shown + "\n");
      if (files) show_bundle_files(folder, plan);
    }
    if (max_ram == 0 || arena <= max_ram) return 0;
    return file_failure(ErrorKind::kOverBudget, folder.string(),
                        fmt::format("the bundle needs {} bytes of RAM, {} more than --max-ram",
                                    arena, arena - max_ram),
                        "compile the model again with a smaller --ctx, --chunk or --threads-max");
  } catch (const Json::exception&) {
    return damaged;
  }
}

}  // namespace llmc::cli
