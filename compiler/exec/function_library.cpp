#include "compiler/exec/function_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "compiler/driver/compile.h"
#include "compiler/driver/output_file.h"
#include "compiler/driver/prepare.h"
#include "compiler/driver/resources.h"
#include "compiler/driver/toolchain.h"
#include "compiler/emit/run_entry.h"
#include "compiler/emit/runner_table.h"
#include "compiler/emit/weights.h"
#include "compiler/emit/wrap.h"
#include "compiler/exec/dim_sizes.h"
#include "compiler/exec/emulator.h"
#include "compiler/exec/runner_process.h"
#include "compiler/exec/stage_clock.h"
#include "compiler/support/check.h"
#include "compiler/support/file.h"
#include "compiler/support/stopwatch.h"
#include "compiler/support/temporary_directory.h"
#include "llmc/model.h"
#include "llmc/run.h"
#include "runtime/hosted/thread_pool.h"

namespace llmc::exec {
namespace {

namespace fs = std::filesystem;

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};
/// A block of zeros, aligned to 64 bytes. Its size is a multiple of 64 and not 0.
using Block = std::unique_ptr<std::byte[], Free>;
Result<Block> allocate(std::uint64_t bytes) {
  const std::uint64_t size = (std::max<std::uint64_t>(bytes, 1) + 63) / 64 * 64;
  Block block(static_cast<std::byte*>(std::aligned_alloc(64, size)));
  if (!block)
    return failure(ErrorKind::kOverBudget, fmt::format("cannot allocate {} bytes", bytes));
  std::memset(block.get(), 0, size);
  return block;
}

using RunFunction = int (*)(const void* const*, void* const*, void*, const llmc_run_options*);

constexpr const char* kFunctionRunnerFile = "functions";
constexpr const char* kConstantsFile = "constants.bin";

Diagnostic returned(int status) {
  return failure(ErrorKind::kBadInput, status == 2
                                           ? "an index in the data is outside its tensor"
                                           : fmt::format("the function returned {}", status));
}

}  // namespace

struct FunctionLibrary::State {
  struct Entry {
    plan::Plan plan;
    Block weights;
    RunFunction run = nullptr;         // in this process
    std::uint32_t number = 0;          // in a runner: index in its table
    std::uint64_t weights_offset = 0;  // in a runner: offset in its file of constants
  };
  std::vector<std::optional<Entry>> entries;
  void* handle = nullptr;

  std::optional<Emulator> emulator;          // set if the code runs in a runner
  std::optional<TemporaryDirectory> folder;  // contains the runner
  std::unique_ptr<RunnerProcess> process;

  ~State() {
    if (handle != nullptr) ::dlclose(handle);
  }
  static Result<std::uint64_t> make_weights(Entry& entry);
  Status load(const fs::path& library);
  Status link(const driver::Toolchain& toolchain, const target::Target& target,
              std::vector<std::string> arguments);
  Status start();
  Result<std::vector<std::vector<std::byte>>> run_here(const Entry& entry, const DimSizes& dims,
                                                       std::span<const ir::ConstantPtr> inputs,
                                                       std::uint32_t threads) const;
  Result<std::vector<std::vector<std::byte>>> run_in_runner(
      const Entry& entry, const DimSizes& dims, std::span<const ir::ConstantPtr> inputs);
};

FunctionLibrary::FunctionLibrary(std::unique_ptr<State> state) : state_(std::move(state)) {}
FunctionLibrary::~FunctionLibrary() = default;

const plan::Plan& FunctionLibrary::plan(std::size_t index) const {
  LLMC_CHECK(index < state_->entries.size() && state_->entries[index]);
  return state_->entries[index]->plan;
}

Result<std::unique_ptr<FunctionLibrary>> FunctionLibrary::compile(
    std::span<const Job> jobs, const std::string& target_name,
    const std::vector<std::string>& cflags, Outcome& outcome, std::uint32_t opt_level,
    const std::string& emulator, const std::string& cc) {
  LLMC_TRY(const target::Target* const target, target::find(target_name, opt_level));
  auto state = std::make_unique<State>();
  LLMC_TRY(state->emulator, find_emulator(*target, emulator));
  LLMC_TRY(const driver::Toolchain toolchain, driver::find_toolchain(cc));
  outcome.assign(jobs.size(), std::nullopt);
  std::string source;
  std::vector<emit::RunnerFunction> functions;
  std::vector<const plan::Plan*> plans;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    state->entries.emplace_back();
    // Plan for weights in a file, but keep them in memory.
    plan::PlanOptions options;
    options.target = target;
    options.entry = ir::EntryKind::kRun;
    options.name = jobs[i].name;
    options.embed_weights = false;
    options.open_dims = jobs[i].open_dims;
    options.threads_max = std::max(options.threads_max, jobs[i].threads);
    auto plan = jobs[i].plan ? Result(*jobs[i].plan)
                             : driver::plan_graph(*jobs[i].graph, options, jobs[i].quant);
    if (!plan.ok()) {
      outcome[i] = plan.error();
      continue;
    }
    options.threads_max = plan->options.threads_max;
    plan->options = options;
    State::Entry entry{.plan = *std::move(plan), .weights = {}};
    entry.number = static_cast<std::uint32_t>(functions.size());
    LLMC_TRY(const std::uint64_t hash, State::make_weights(entry));
    source += emit::wrapped(emit::run_entry(entry.plan, hash, jobs[i].stage_times));
    functions.push_back({jobs[i].name + "_run_with", true});
    state->entries.back() = std::move(entry);
  }
  if (functions.empty())
    return std::unique_ptr<FunctionLibrary>(new FunctionLibrary(std::move(state)));
  for (const auto& entry : state->entries)
    if (entry) plans.push_back(&entry->plan);
  const auto timed = std::ranges::count_if(jobs, &Job::stage_times);
  LLMC_CHECK(timed <= 1);
  if (timed > 0) source = "#include \"llmc/stage_times.h\"\n" + source;
  source = emit::run_includes(plans) + source;
  if (state->emulator) source += emit::runner_table(functions);

  LLMC_TRY(TemporaryDirectory folder, TemporaryDirectory::create());
  LLMC_RETURN_IF_ERROR(driver::write_resources(folder.path(), driver::headers_for(source)));
  LLMC_RETURN_IF_ERROR(write_file(folder.path() / "functions.cpp", source));
  std::vector<std::string> extra = cflags;
  extra.emplace_back("-fvisibility=default");
  const std::vector<std::string> arguments =
      driver::function_arguments(*target, "functions", extra);
  if (state->emulator) {
    state->folder.emplace(std::move(folder));
    LLMC_RETURN_IF_ERROR(state->link(toolchain, *target, arguments));
    LLMC_RETURN_IF_ERROR(state->start());
  } else {
    LLMC_RETURN_IF_ERROR(driver::compile_shared(toolchain, folder.path(), arguments,
                                                "functions.cpp", "functions.so"));
    LLMC_RETURN_IF_ERROR(state->load(folder.path() / "functions.so"));
  }
  return std::unique_ptr<FunctionLibrary>(new FunctionLibrary(std::move(state)));
}

/// Stores the content of a weights file in memory and returns the hash of the weights.
Result<std::uint64_t> FunctionLibrary::State::make_weights(Entry& entry) {
  const std::uint64_t bytes = entry.plan.weights_bytes;
  LLMC_TRY(entry.weights, allocate(sizeof(llmc_weights_header) + bytes));
  std::byte* const first = entry.weights.get() + sizeof(llmc_weights_header);
  std::byte* to = first;
  LLMC_RETURN_IF_ERROR(
      emit::write_weights(entry.plan.program, bytes, [&](std::span<const std::byte> part) {
        if (!part.empty()) std::memcpy(to, part.data(), part.size());
        to += part.size();
        return ok_status();
      }));
  const llmc_weights_header header = emit::weights_header(bytes, XXH64(first, bytes, 0));
  std::memcpy(entry.weights.get(), &header, sizeof header);
  return header.hash;
}

Result<std::unique_ptr<FunctionLibrary>> FunctionLibrary::compile(
    const driver::CompileOptions& options, driver::Source source, const std::string& emulator,
    const driver::Progress& progress) {
  const std::string targets[] = {options.target};
  driver::CompileOptions kept = options;
  kept.weights = driver::WeightsStorage::kFile;  // they are not embedded, whatever their size
  LLMC_TRY(const auto plans, driver::plan_model(kept, std::move(source), targets, progress));
  driver::report(progress, "compile", 0, 0);
  return compile(options, plans.front(), emulator);
}

Result<std::unique_ptr<FunctionLibrary>> FunctionLibrary::compile(
    const driver::CompileOptions& options, const plan::Plan& plan, const std::string& emulator,
    bool stage_times) {
  Outcome outcome;
  const Job job{.name = "model", .plan = &plan, .stage_times = stage_times};
  LLMC_TRY(auto library, compile(std::span(&job, 1), options.target, options.cflags, outcome,
                                 options.opt_level, emulator, options.cc));
  if (outcome[0]) return std::move(*outcome[0]).in_file(options.model.string());
  return library;
}

Status FunctionLibrary::State::load(const fs::path& library) {
  handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    return failure(ErrorKind::kToolchain,
                   fmt::format("cannot load the compiled functions: {}", reason ? reason : ""));
  }
  for (auto& entry : entries) {
    if (!entry) continue;
    void* const address = ::dlsym(handle, (entry->plan.options.name + "_run_with").c_str());
    LLMC_CHECK(address != nullptr);
    std::memcpy(&entry->run, &address, sizeof address);
  }
  return ok_status();
}

/// Links the runner and writes its file of constants, both in `folder`.
Status FunctionLibrary::State::link(const driver::Toolchain& toolchain,
                                    const target::Target& target,
                                    std::vector<std::string> arguments) {
  LLMC_RETURN_IF_ERROR(driver::compile_source(toolchain, folder->path(), std::move(arguments),
                                              "functions.cpp", "functions.o"));
  LLMC_RETURN_IF_ERROR(link_function_runner(toolchain, target, folder->path() / "functions.o",
                                            folder->path() / kFunctionRunnerFile));
  LLMC_TRY(driver::OutputFile file, driver::OutputFile::create(folder->path() / kConstantsFile));
  std::uint64_t offset = 0;
  for (auto& entry : entries) {
    if (!entry) continue;
    entry->weights_offset = offset;
    const std::uint64_t bytes =
        (sizeof(llmc_weights_header) + entry->plan.weights_bytes + 63) / 64 * 64;
    LLMC_RETURN_IF_ERROR(file.write(std::span(entry->weights.get(), bytes)));
    offset += bytes;
    entry->weights.reset();
  }
  LLMC_RETURN_IF_ERROR(file.write(std::string_view("\0", 1)));  // empty files cannot be mapped
  return file.close();
}

Status FunctionLibrary::State::start() {
  LLMC_TRY(process, RunnerProcess::start_functions(*emulator, folder->path() / kFunctionRunnerFile,
                                                   folder->path() / kConstantsFile));
  return ok_status();
}

Result<std::vector<std::vector<std::byte>>> FunctionLibrary::State::run_in_runner(
    const Entry& entry, const DimSizes& dims, std::span<const ir::ConstantPtr> inputs) {
  if (!process) LLMC_RETURN_IF_ERROR(start());
  const plan::Program& program = entry.plan.program;
  const runner::Call call{entry.weights_offset,
                          entry.plan.arena_bytes,
                          static_cast<std::uint32_t>(program.inputs.size()),
                          static_cast<std::uint32_t>(program.outputs.size()),
                          static_cast<std::uint32_t>(program.open_dims.size()),
                          0};
  std::vector<std::uint64_t> sizes;
  for (const plan::Port& port : program.inputs) sizes.push_back(port.bytes(dims));
  std::uint64_t total = 0;
  for (const plan::Port& port : program.outputs) {
    sizes.push_back(port.bytes(dims));
    total += port.bytes(dims);
  }
  const std::vector<std::int64_t> in_order = sizes_in_order(program, dims);
  std::vector<std::vector<std::byte>> data;
  for (const ir::ConstantPtr& input : inputs) data.push_back(input->bytes());
  std::vector<RunnerProcess::Bytes> parts{std::as_bytes(std::span(&call, 1)),
                                          std::as_bytes(std::span(sizes)),
                                          std::as_bytes(std::span(in_order))};
  parts.insert(parts.end(), data.begin(), data.end());
  auto result = process->request(runner::Request::kCall, entry.number, parts, total);
  if (!result.ok()) {
    process.reset();
    return std::move(result).error();
  }
  const RunnerProcess::Reply& reply = *result;
  if (reply.status != 0) {
    if (reply.data.empty()) return returned(static_cast<int>(reply.status));
    return failure(ErrorKind::kBadInput, printable(reply.message()));
  }
  if (reply.data.size() != total) {
    process.reset();
    return failure(ErrorKind::kToolchain, emulator->text() + " sent an incomplete reply");
  }
  std::vector<std::vector<std::byte>> outputs;
  auto from = reply.data.begin();
  for (const plan::Port& port : program.outputs) {
    const auto to = from + static_cast<std::ptrdiff_t>(port.bytes(dims));
    outputs.emplace_back(from, to);
    from = to;
  }
  return outputs;
}

namespace {

/// The arguments of a call in this process, and the threads that it uses.
struct LocalCall {
  std::vector<Block> blocks;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  Block arena;
  std::vector<std::int64_t> dims;
  std::unique_ptr<hosted::ThreadPool> pool;
  llmc_run_options options{};

  Status run(RunFunction function) const {
    const int status = function(inputs.data(), outputs.data(), arena.get(), &options);
    if (status != 0) return returned(status);
    return ok_status();
  }
};

Result<LocalCall> local_call(const plan::Plan& plan, const std::byte* weights,
                             const std::map<std::string, std::int64_t>& dims,
                             std::span<const ir::ConstantPtr> inputs, std::uint32_t threads) {
  LocalCall call;
  call.dims = sizes_in_order(plan.program, dims);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    LLMC_TRY(Block block, allocate(plan.program.inputs[i].bytes(dims)));
    const std::vector<std::byte> bytes = inputs[i]->bytes();
    if (!bytes.empty()) std::memcpy(block.get(), bytes.data(), bytes.size());
    call.inputs.push_back(block.get());
    call.blocks.push_back(std::move(block));
  }
  call.inputs.push_back(weights);
  for (const plan::Port& port : plan.program.outputs) {
    LLMC_TRY(Block block, allocate(port.bytes(dims)));
    // Fill outputs, so that elements that the code does not write are detected.
    std::memset(block.get(), 0xa5, port.bytes(dims));
    call.outputs.push_back(block.get());
    call.blocks.push_back(std::move(block));
  }
  LLMC_TRY(call.arena, allocate(plan.arena_bytes));
  std::memset(call.arena.get(), 0xa5, plan.arena_bytes);
  auto pool = hosted::ThreadPool::create(threads);
  if (!pool.ok()) return failure(ErrorKind::kBadInput, pool.failure().message);
  call.pool = *std::move(pool);
  call.options.size = sizeof call.options;
  call.options.threads = threads;
  call.options.dims = call.dims.data();
  if (threads > 1) {
    call.options.parallel_for = hosted::ThreadPool::run;
    call.options.parallel_user = call.pool.get();
  }
  return call;
}

}  // namespace

Result<std::vector<std::vector<std::byte>>> FunctionLibrary::State::run_here(
    const Entry& entry, const DimSizes& dims, std::span<const ir::ConstantPtr> inputs,
    std::uint32_t threads) const {
  LLMC_TRY(const LocalCall call,
           local_call(entry.plan, entry.weights.get(), dims, inputs, threads));
  LLMC_RETURN_IF_ERROR(call.run(entry.run));
  const plan::Program& program = entry.plan.program;
  std::vector<std::vector<std::byte>> outputs;
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const auto* data = static_cast<const std::byte*>(call.outputs[i]);
    outputs.emplace_back(data, data + program.outputs[i].bytes(dims));
  }
  return outputs;
}

std::string FunctionLibrary::emulator() const {
  return state_->emulator ? state_->emulator->text() : std::string();
}

Result<FunctionLibrary::DimSizes> FunctionLibrary::check_inputs(
    std::size_t index, std::span<const ir::ConstantPtr> inputs) const {
  LLMC_CHECK(index < state_->entries.size() && state_->entries[index]);
  return dim_sizes(state_->entries[index]->plan.program, inputs);
}

Result<std::vector<double>> FunctionLibrary::time(std::size_t index,
                                                  std::span<const ir::ConstantPtr> inputs,
                                                  std::uint32_t repetitions,
                                                  std::uint32_t threads) const {
  LLMC_TRY(const DimSizes dims, check_inputs(index, inputs));
  const State::Entry& entry = *state_->entries[index];
  std::optional<LocalCall> call;
  if (!state_->emulator) {
    LLMC_TRY(call, local_call(entry.plan, entry.weights.get(), dims, inputs, threads));
  }
  std::vector<double> seconds;
  for (std::uint32_t i = 0; i <= repetitions; ++i) {
    const Stopwatch watch;
    if (call) {
      LLMC_RETURN_IF_ERROR(call->run(entry.run));
    } else {
      LLMC_TRY([[maybe_unused]] const auto outputs, state_->run_in_runner(entry, dims, inputs));
    }
    if (i > 0) seconds.push_back(watch.seconds());
  }
  return seconds;
}

Result<std::vector<double>> FunctionLibrary::stage_seconds(std::size_t index,
                                                           std::span<const ir::ConstantPtr> inputs,
                                                           std::uint32_t repetitions,
                                                           std::uint32_t threads) const {
  LLMC_CHECK(!state_->emulator && repetitions > 0);
  LLMC_TRY(const DimSizes dims, check_inputs(index, inputs));
  const State::Entry& entry = *state_->entries[index];
  const std::size_t stages = entry.plan.program.forward.size();
  if (stages == 0) return std::vector<double>();
  LLMC_TRY(const LocalCall call,
           local_call(entry.plan, entry.weights.get(), dims, inputs, threads));
  StageClock clock(stages);
  const StageHookScope reports(state_->handle, clock);
  std::vector<std::pair<double, std::vector<double>>> runs;  // total, by stage
  for (std::uint32_t i = 0; i <= repetitions; ++i) {
    clock.start();
    LLMC_RETURN_IF_ERROR(call.run(entry.run));
    std::vector<double> seconds = clock.stop();
    if (i > 0) runs.emplace_back(std::reduce(seconds.begin(), seconds.end()), std::move(seconds));
  }
  const auto middle = runs.begin() + static_cast<std::ptrdiff_t>(runs.size() / 2);
  std::ranges::nth_element(runs, middle);
  return std::move(middle->second);
}

Result<std::vector<ir::ConstantPtr>> FunctionLibrary::run(std::size_t index,
                                                          std::span<const ir::ConstantPtr> inputs,
                                                          std::uint32_t threads) const {
  LLMC_TRY(const DimSizes dims, check_inputs(index, inputs));
  const State::Entry& entry = *state_->entries[index];
  const plan::Program& program = entry.plan.program;
  LLMC_TRY(auto data, state_->emulator ? state_->run_in_runner(entry, dims, inputs)
                                       : state_->run_here(entry, dims, inputs, threads));
  std::vector<ir::ConstantPtr> outputs;
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const plan::Port& port = program.outputs[i];
    outputs.push_back(ir::make_constant(port.element, port.dims_at(dims), std::move(data[i])));
  }
  return outputs;
}

}  // namespace llmc::exec
