#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "compiler/driver/function.h"
#include "compiler/driver/resources.h"
#include "compiler/driver/toolchain.h"
#include "compiler/emit/function_source.h"
#include "compiler/emit/function_weights.h"
#include "compiler/support/check.h"
#include "compiler/support/file.h"
#include "compiler/support/temporary_directory.h"

/// Functions that are compiled and run at once, in this process.
namespace llmc::driver {
namespace {

namespace fs = std::filesystem;

Diagnostic failure(ErrorKind kind, std::string message) {
  return Diagnostic{
      .kind = kind, .file = {}, .node = {}, .op = {}, .message = std::move(message), .hint = {}};
}

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};
/// Memory of at least one byte at a multiple of 64.
using Block = std::unique_ptr<std::byte[], Free>;
Result<Block> allocate(std::uint64_t bytes) {
  const std::uint64_t size = (std::max<std::uint64_t>(bytes, 1) + 63) / 64 * 64;
  Block block(static_cast<std::byte*>(std::aligned_alloc(64, size)));
  if (!block) return failure(ErrorKind::kOverBudget, fmt::format("no memory for {} bytes", bytes));
  return block;
}

using RunFunction = int (*)(const void* const*, void* const*, void*);

}  // namespace

struct FunctionLibrary::State {
  struct Entry {
    plan::FunctionPlan plan;
    Block weights;
    RunFunction run = nullptr;
  };
  std::vector<std::optional<Entry>> entries;
  void* handle = nullptr;

  ~State() {
    if (handle != nullptr) ::dlclose(handle);
  }
};

FunctionLibrary::FunctionLibrary(std::unique_ptr<State> state) : state_(std::move(state)) {}
FunctionLibrary::~FunctionLibrary() = default;

const plan::FunctionPlan& FunctionLibrary::plan(std::size_t index) const {
  LLMC_CHECK(index < state_->entries.size() && state_->entries[index]);
  return state_->entries[index]->plan;
}

Result<std::unique_ptr<FunctionLibrary>> FunctionLibrary::compile(std::span<const Job> jobs,
                                                                  const std::string& target_name,
                                                                  const std::string& optimisation,
                                                                  Outcome& outcome,
                                                                  std::uint32_t opt_level) {
  LLMC_TRY(const target::Target* const target, target::find(target_name, opt_level));
  if (!target::runs_here(*target))
    return failure(ErrorKind::kUnsupported,
                   fmt::format("this machine cannot run code for {}", target->name));
  LLMC_TRY(const Toolchain toolchain, find_toolchain({}));
  auto state = std::make_unique<State>();
  outcome.assign(jobs.size(), std::nullopt);
  std::string source = emit::function_includes();
  bool any = false;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    state->entries.emplace_back();
    // Constants stay in this process: nothing has to be written and read again.
    auto plan = plan_graph(*jobs[i].graph, jobs[i].inputs, {target, jobs[i].name, false});
    if (!plan.ok()) {
      outcome[i] = plan.error();
      continue;
    }
    State::Entry entry{*std::move(plan), {}, nullptr};
    LLMC_TRY(entry.weights, allocate(entry.plan.weights_bytes));
    std::byte* to = entry.weights.get();
    LLMC_RETURN_IF_ERROR(
        emit::write_function_weights(entry.plan, [&](std::span<const std::byte> bytes) {
          std::memcpy(to, bytes.data(), bytes.size());
          to += bytes.size();
          return ok_status();
        }));
    source += emit::function_body(entry.plan);
    any = true;
    state->entries.back() = std::move(entry);
  }
  if (!any) return std::unique_ptr<FunctionLibrary>(new FunctionLibrary(std::move(state)));

  LLMC_TRY(TemporaryDirectory folder, TemporaryDirectory::create());
  for (const Resource& resource : headers_for(source)) {
    const fs::path path = folder.path() / bundle_path(resource.path);
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) return system_error(path, "create", error.value());
    LLMC_RETURN_IF_ERROR(write_file(path, resource.content));
  }
  LLMC_RETURN_IF_ERROR(write_file(folder.path() / "functions.cpp", source));
  LLMC_RETURN_IF_ERROR(compile_shared(
      toolchain, folder.path(),
      function_arguments(*target, "functions", {optimisation, "-fvisibility=default"}),
      "functions.cpp", "functions.so"));
  state->handle = ::dlopen((folder.path() / "functions.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (state->handle == nullptr) {
    const char* reason = ::dlerror();
    return failure(ErrorKind::kToolchain,
                   fmt::format("cannot load the compiled functions: {}", reason ? reason : ""));
  }
  for (auto& entry : state->entries) {
    if (!entry) continue;
    void* const address = ::dlsym(state->handle, (entry->plan.options.name + "_run").c_str());
    LLMC_CHECK(address != nullptr);
    std::memcpy(&entry->run, &address, sizeof address);
  }
  return std::unique_ptr<FunctionLibrary>(new FunctionLibrary(std::move(state)));
}

Result<std::vector<ir::ConstantPtr>> FunctionLibrary::run(
    std::size_t index, std::span<const ir::ConstantPtr> inputs) const {
  LLMC_CHECK(index < state_->entries.size() && state_->entries[index]);
  const State::Entry& entry = *state_->entries[index];
  const plan::FunctionProgram& program = entry.plan.program;
  LLMC_CHECK(inputs.size() == program.inputs.size());
  std::vector<Block> blocks;
  std::vector<const void*> input_pointers;
  std::vector<void*> output_pointers;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const plan::FunctionPort& port = program.inputs[i];
    if (inputs[i]->element() != port.element || inputs[i]->dims() != port.dims)
      return failure(
          ErrorKind::kBadInput,
          fmt::format("input '{}' has another type than the function's", printable(port.name)));
    LLMC_TRY(Block block, allocate(port.bytes()));
    const std::vector<std::byte> bytes = inputs[i]->bytes();
    if (!bytes.empty()) std::memcpy(block.get(), bytes.data(), bytes.size());
    input_pointers.push_back(block.get());
    blocks.push_back(std::move(block));
  }
  input_pointers.push_back(entry.weights.get());
  for (const plan::FunctionPort& port : program.outputs) {
    LLMC_TRY(Block block, allocate(port.bytes()));
    // A value the code forgets to write must not look right by chance.
    std::memset(block.get(), 0xa5, port.bytes());
    output_pointers.push_back(block.get());
    blocks.push_back(std::move(block));
  }
  LLMC_TRY(const Block arena, allocate(entry.plan.arena_bytes));
  std::memset(arena.get(), 0xa5, entry.plan.arena_bytes);
  const int status = entry.run(input_pointers.data(), output_pointers.data(), arena.get());
  if (status != 0)
    return failure(ErrorKind::kBadInput, status == 2
                                             ? "an index in the data is outside its tensor"
                                             : fmt::format("the function returned {}", status));
  std::vector<ir::ConstantPtr> outputs;
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const plan::FunctionPort& port = program.outputs[i];
    const auto* data = static_cast<const std::byte*>(output_pointers[i]);
    outputs.push_back(ir::make_constant(port.element, port.dims, {data, data + port.bytes()}));
  }
  return outputs;
}

}  // namespace llmc::driver
