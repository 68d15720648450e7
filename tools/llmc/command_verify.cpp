#include <fmt/format.h>

#include <memory>

#include "compiler/driver/verify.h"
#include "tools/llmc/options.h"

namespace llmc::cli {
namespace {

struct VerifyCommand {
  ModelOptions model;
  std::string ids;
  std::string golden;
  std::uint32_t steps = 8;
  std::uint32_t threads = 1;
  CLI::Option* ids_option = nullptr;
  bool update = false;
  bool no_reference = false;
};

Json to_json(const driver::VerifyReport& report) {
  Json points = Json::array();
  for (const driver::VerifyPoint& p : report.points) {
    points.push_back(Json{{"phase", p.phase},
                          {"position", p.position},
                          {"max_difference", p.max_difference},
                          {"kl", p.kl},
                          {"native_token", p.native_token},
                          {"reference_token", p.reference_token}});
  }
  Json result{{"ok", report.ok()},
              {"max_difference", report.max_difference},
              {"relative_difference", report.relative_difference},
              {"relative_difference_allowed", report.relative_difference_allowed},
              {"mean_kl", report.mean_kl},
              {"max_kl", report.max_kl},
              {"max_kl_allowed", report.max_kl_allowed},
              {"greedy_agreement", report.greedy_agreement},
              {"points", points},
              {"hash", report.hash},
              {"golden_key", report.golden_key}};
  result["golden_hash"] = report.golden_hash ? Json(*report.golden_hash) : Json(nullptr);
  result["golden_file"] = report.golden_file.string();
  result["golden_updated"] = report.golden_updated;
  return result;
}

void print_table(const driver::VerifyReport& report) {
  if (!report.points.empty() && report.points.front().reference_token >= 0) {
    print(fmt::format("{:<8} {:>8} {:>14} {:>12}  {}\n", "phase", "position", "largest |d|",
                      "KL, nats", "greedy"));
    for (const driver::VerifyPoint& p : report.points) {
      print(fmt::format("{:<8} {:>8} {:>14.3e} {:>12.3e}  {}\n", p.phase, p.position,
                        p.max_difference, p.kl,
                        p.native_token == p.reference_token
                            ? fmt::format("{}", p.native_token)
                            : fmt::format("{}, reference {}", p.native_token, p.reference_token)));
    }
    print(
        fmt::format("reference: {}: mean KL {:.1e} nats (limit {:.0e}), largest {:.1e}; largest "
                    "difference of a "
                    "logit {:.1e}, {:.1e} of the largest logit{}; greedy agreement {:.0f} %\n",
                    report.reference_ok ? "ok" : "MISMATCH", report.mean_kl, report.max_kl_allowed,
                    report.max_kl, report.max_difference, report.relative_difference,
                    report.relative_difference_allowed == 0
                        ? ""
                        : fmt::format(" (limit {:.0e})", report.relative_difference_allowed),
                    100 * report.greedy_agreement));
    if (report.golden_key.starts_with("q")) {
      print(
          fmt::format("the difference is what rounding the weights to {} costs; with --quant=f32 "
                      "only a fault of the code could differ\n",
                      report.golden_key.substr(0, 2)));
    }
  }
  if (report.golden_updated) {
    print(fmt::format("golden {}: written {} to {}\n", report.golden_key, report.hash,
                      report.golden_file.string()));
  } else if (report.golden_hash) {
    print(fmt::format("golden {}: {}: {}{}\n", report.golden_key,
                      report.golden_ok ? "equal" : "MISMATCH", report.hash,
                      report.golden_ok ? "" : fmt::format(", stored {}", *report.golden_hash)));
  } else {
    print(fmt::format("golden {}: none stored; hash {}\n", report.golden_key, report.hash));
  }
}

int verify(const VerifyCommand& command, const Globals& globals) {
  const auto native = native_options(command.model);
  note_model_file(globals, command.model.model);
  if (!native.ok()) return fail(native.error());
  driver::VerifyOptions options;
  options.native = *native;
  options.threads = command.threads;
  options.steps = command.steps;
  options.golden = command.golden;
  options.update = command.update;
  options.reference = !command.no_reference;
  if (command.ids_option->count() > 0) {
    auto ids = parse_numbers(command.ids, "--ids");
    if (!ids.ok()) return fail(ids.error());
    options.prompt = std::move(*ids);
  }
  Progress line(globals);
  const auto report = driver::verify_model(options, progress_of(line));
  line.clear();
  if (!report.ok()) return fail(report.error());
  if (globals.json) {
    print_json(to_json(*report));
  } else {
    print_table(*report);
  }
  if (report->ok()) return 0;
  return fail(Diagnostic{
      .kind = ErrorKind::kMismatch,
      .file = command.model.model,
      .message = report->reference_ok
                     ? "the logits are not those of the stored hash"
                     : "native code differs from the reference by more than the format allows",
      .hint = report->reference_ok
                  ? "if a change of the numbers is meant, rewrite the stored hashes with --update"
                  : "compare with --quant=f32, where only rounding differs"});
}

}  // namespace

Action add_verify(CLI::App& app, const Globals& globals) {
  auto command = std::make_shared<VerifyCommand>();
  add_model_options(app, command->model, ModelUse::kVerify);
  command->ids_option =
      app.add_option("--ids", command->ids, "Prompt as token ids (default: a fixed sequence)")
          ->type_name("IDS");
  add_whole_number(app, "-n,--steps", command->steps, 0, plan::kMaxContext,
                   "Greedy steps after the prompt (default: 8)");
  add_whole_number(app, "-t,--threads", command->threads, 1, plan::kMaxThreads,
                   "Threads (default: 1)");
  app.add_option("--golden", command->golden, "File of hashes (default: MODEL/golden-hashes.json)")
      ->type_name("FILE");
  app.add_flag("--update", command->update, "Rewrite the stored hash instead of comparing with it");
  app.add_flag("--no-reference", command->no_reference,
               "Only the stored hash, not the interpreter");
  return [command, &globals] { return verify(*command, globals); };
}

}  // namespace llmc::cli
