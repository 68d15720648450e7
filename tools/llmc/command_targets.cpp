#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "compiler/driver/toolchain.h"
#include "compiler/exec/emulator.h"
#include "compiler/exec/runner_process.h"
#include "compiler/target/target.h"
#include "runtime/hosted/device/opencl_find.h"
#include "tools/llmc/cli.h"

namespace llmc::cli {
namespace {

/// Whether this machine can compile and run a target. Messages are empty if it can.
struct Abilities {
  std::string no_compiler, compiler_hint;
  std::string run_with;  // "natively", or the emulator's command line; empty: cannot run
  std::string no_run, run_hint;
};

Abilities abilities(const target::Target& t, const std::string& cc) {
  Abilities result;
  const auto toolchain = driver::find_toolchain(cc);
  const Status tried =
      toolchain.ok() ? driver::try_target(*toolchain, t) : Status(toolchain.error().first());
  if (!tried.ok()) {
    result.no_compiler = tried.error().first().message;
    result.compiler_hint =
        "use clang-19, which supports every target (on Debian: apt install clang-19)";
  }
  const auto cannot_run = [&result](const Diagnostic& why) {
    result.no_run = why.message;
    result.run_hint = why.hint;
  };
  // Targets that cannot be compiled cannot be tried.
  const auto emulator =
      tried.ok() ? exec::find_working_emulator(*toolchain, t, {}) : exec::find_emulator(t, {});
  if (!emulator.ok()) {
    cannot_run(emulator.error().first());
  } else {
    result.run_with = *emulator ? (*emulator)->text() : "natively";
  }
  return result;
}

Json row(const target::Target& t, const Abilities& can) {
  Json row{{"name", t.name},
           {"aliases", t.aliases},
           {"triple", t.triple},
           {"description", t.description},
           {"features", t.features},
           {"lanes", t.lanes},
           {"compiles", can.no_compiler.empty()},
           {"runs", !can.run_with.empty()},
           {"runs_here", target::runs_here(t)},
           {"run_with", nullptr},
           {"emulated_cpu", t.emulated_cpu}};
  if (!can.run_with.empty()) row["run_with"] = can.run_with;
  if (!can.no_compiler.empty()) row["compile_problem"] = can.no_compiler;
  if (!can.no_run.empty()) {
    row["run_problem"] = can.no_run;
    row["run_hint"] = can.run_hint;
  }
  return row;
}

void print_text(const target::Target& t, const Abilities& can) {
  const auto line = [](std::string_view name, std::string value) {
    for (std::size_t at = 0; (at = value.find("\n", at)) != value.npos; ++at)
      value.replace(at, 1, "\n" + std::string(10, ' '));  // program output is indented by two more
    if (!value.empty()) print(fmt::format("  {:<9} {}\n", name, value));
  };
  print(fmt::format("{}: {}\n", t.name, t.description));
  line("triple", std::string(t.triple));
  line("features", fmt::format("{}", fmt::join(t.features, ", ")));
  line("aliases", fmt::format("{}", fmt::join(t.aliases, ", ")));
  line("compiles", can.no_compiler.empty() ? "yes" : "no: " + can.no_compiler);
  line("", can.compiler_hint);
  line("runs", can.run_with.empty() ? "no: " + can.no_run : can.run_with);
  line("", can.run_hint);
}

/// Returns whether prompts use matrix instructions of the device, if its driver compiles them.
bool multiplies_matrices(const hosted::opencl::FoundDevice& device) {
  return device.matrix_products != hosted::opencl::MatrixProducts::kNone;
}

/// Prints the OpenCL devices that --accelerate opencl can use.
void print_opencl() {
  const auto api = hosted::opencl::load_api();
  if (!api.ok()) return print(fmt::format("accelerator opencl: {}\n", api.failure().message));
  print("accelerator opencl:\n");
  const auto devices = hosted::opencl::list_devices(**api);
  for (const hosted::opencl::FoundDevice& device : devices)
    print(fmt::format("  {}{}{}\n", printable(device.name),
                      multiplies_matrices(device) ? " (matrix instructions)" : "",
                      device.obstacle.empty() ? "" : ": no: " + device.obstacle));
  if (devices.empty()) print("  no device\n");
}

/// Adds "opencl", the list of these devices, and "opencl_problem" if there is no OpenCL.
void add_opencl(Json& json) {
  Json& rows = json["opencl"] = Json::array();
  const auto api = hosted::opencl::load_api();
  if (!api.ok()) {
    json["opencl_problem"] = api.failure().message;
    return;
  }
  for (const hosted::opencl::FoundDevice& device : hosted::opencl::list_devices(**api)) {
    rows.push_back({{"name", printable(device.name)},
                    {"versions", printable(device.versions)},
                    {"usable", device.obstacle.empty()},
                    {"shares_memory", device.shares_memory},
                    {"matrix_instructions", multiplies_matrices(device)}});
    if (!device.obstacle.empty()) rows.back()["problem"] = device.obstacle;
  }
}

int targets(const Globals& globals, const std::string& cc) {
  Json list = Json::array();
  for (const target::Target& t : target::all()) {
    const Abilities can = abilities(t, cc);
    if (globals.json) {
      list.push_back(row(t, can));
    } else {
      print_text(t, can);
    }
  }
  if (globals.json) {
    Json json{{"targets", std::move(list)}};
    add_opencl(json);
    print_json(json);
  } else {
    print_opencl();
  }
  return 0;
}

}  // namespace

Action add_targets(CLI::App& app, const Globals& globals) {
  const auto cc = std::make_shared<std::string>();
  app.add_option("--cc", *cc, "clang++ to check (default: $LLMC_CC, clang++-19, clang++)")
      ->type_name("PROGRAM");
  return [&globals, cc] { return targets(globals, *cc); };
}

}  // namespace llmc::cli
