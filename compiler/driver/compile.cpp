#include "compiler/driver/compile.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <deque>

#include "compiler/driver/bundle_files.h"
#include "compiler/driver/bundle_writer.h"
#include "compiler/driver/prepare.h"
#include "compiler/driver/toolchain.h"
#include "compiler/emit/weights.h"
#include "compiler/plan/kv_format.h"
#include "compiler/plan/rounding.h"
#include "compiler/support/atomic_output.h"

namespace llmc::driver {

namespace fs = std::filesystem;

namespace {

/// Encodes the weights once and writes them to all bundles, because stored weights do not depend on
/// the target.
Status write_weights(const plan::Plan& plan, std::deque<BundleWriter>& writers,
                     const Progress& progress) {
  if (plan.weights_bytes == 0) return ok_status();
  for (BundleWriter& writer : writers) LLMC_RETURN_IF_ERROR(writer.begin_weights());
  const auto add = [&](std::span<const std::byte> data) -> Status {
    for (BundleWriter& writer : writers) LLMC_RETURN_IF_ERROR(writer.add_weights(data));
    return ok_status();
  };
  std::uint64_t before = 0;
  const auto tell = [&](std::uint64_t done, std::uint64_t) {
    report(progress, "weights", before + done, plan.weights_bytes);
  };
  const plan::Plan* const function = plan.function();
  const std::uint64_t own = plan.weights_bytes - (function ? function->weights_bytes : 0);
  LLMC_RETURN_IF_ERROR(emit::write_weights(plan.program, own, add, tell));
  if (function) {
    before = own;
    LLMC_RETURN_IF_ERROR(
        emit::write_weights(function->program, function->weights_bytes, add, tell));
  }
  for (BundleWriter& writer : writers) LLMC_RETURN_IF_ERROR(writer.end_weights());
  return ok_status();
}

/// Returns whether the keys and values of the prompt are the same bytes in both plans. The values
/// are the same on every target (docs/numerics.md), so this requires only blocks of the same shape.
bool same_prompt_data(const plan::Plan& a, const plan::Plan& b) {
  return a.prompt.bytes == b.prompt.bytes && a.kv.block == b.kv.block &&
         a.kv.block_bytes == b.kv.block_bytes &&
         a.options.target->token_group == b.options.target->token_group;
}

/// Computes the data of the system prompt once for all plans with identical data, with the code of
/// a target that this machine can run, if there is one.
Status write_prompts(std::span<const plan::Plan> plans, std::deque<BundleWriter>& writers) {
  std::size_t first = 0;
  while (first + 1 < plans.size() && !target::runs_here(*plans[first].options.target)) ++first;
  if (!target::runs_here(*plans[first].options.target)) first = 0;
  LLMC_TRY(const std::string data, writers[first].compute_prompt());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (same_prompt_data(plans[i], plans[first])) {
      LLMC_RETURN_IF_ERROR(writers[i].add_prompt(data));
    } else {
      LLMC_TRY(const std::string own, writers[i].compute_prompt());
      LLMC_RETURN_IF_ERROR(writers[i].add_prompt(own));
    }
  }
  return ok_status();
}

/// Returns PlanOptions::source_hash. Reads the files of the model.
Result<std::uint64_t> source_hash(const CompileOptions& options, const Prepared& prepared) {
  LLMC_TRY(const std::string content, importer::content_hash(prepared.model));
  const plan::PlanOptions& planned = prepared.plans.front().options;
  const std::string all =
      fmt::format("{} {} {} {} {}", content, planned.quant, plan::to_string(options.kv),
                  planned.calibration, planned.requantize);
  return XXH3_64bits(all.data(), all.size());
}

/// Performs all steps after planning and writes one bundle per plan to `folders`. All bundles are
/// complete before the first is renamed to its final path. `times`: durations of the earlier
/// phases, which are added to the first bundle.
Result<std::vector<Bundle>> write_bundles(const CompileOptions& options,
                                          std::span<const fs::path> folders,
                                          const Toolchain& toolchain, Prepared prepared,
                                          std::vector<PhaseTime> times, const Progress& progress) {
  std::vector<plan::Plan>& plans = prepared.plans;
  if (options.shard.count > 0) {
    LLMC_TRY(const std::uint64_t hash, source_hash(options, prepared));
    for (plan::Plan& plan : plans) plan.options.source_hash = hash;
  }
  LLMC_TRY(AtomicDirectories output,
           AtomicDirectories::create(folders, replaces_bundle(options.model)));
  std::vector<Bundle> bundles(plans.size());
  bundles[0].times = std::move(times);
  std::deque<BundleWriter> writers;  // not movable
  for (std::size_t i = 0; i < plans.size(); ++i)
    writers.emplace_back(options, toolchain, prepared.content, plans[i], output.path(i), progress);
  PhaseClock clock(bundles[0].times);
  LLMC_RETURN_IF_ERROR(write_weights(plans[0], writers, progress));
  clock.finish("weights");
  for (std::size_t i = 0; i < plans.size(); ++i) {
    PhaseClock own(bundles[i].times);
    LLMC_RETURN_IF_ERROR(writers[i].write_sources());
    LLMC_RETURN_IF_ERROR(writers[i].compile());
    own.finish("compile");
  }
  PhaseClock rest(bundles[0].times);
  if (plans[0].prompt.tokens > 0) {
    LLMC_RETURN_IF_ERROR(write_prompts(plans, writers));
    rest.finish("prompt");
  }
  for (std::size_t i = 0; i < plans.size(); ++i) {
    LLMC_TRY(bundles[i].files, writers[i].finish());
  }
  LLMC_RETURN_IF_ERROR(output.commit());
  rest.finish("write");
  for (std::size_t i = 0; i < plans.size(); ++i) {
    bundles[i].folder = folders[i];
    bundles[i].name = plans[i].options.name;
    bundles[i].plan = std::move(plans[i]);
  }
  return bundles;
}

/// Imports options.model without checking that it is a decoder.
Result<Source> import_given(const CompileOptions& options, const Progress& progress) {
  report(progress, "import", 0, 0);
  Source source;
  LLMC_TRY(source.model, options.reader.bind(options.model, import_options(options)));
  return source;
}

}  // namespace

Status check_options(const CompileOptions& options, std::span<const std::string> targets) {
  LLMC_CHECK(!targets.empty());
  for (const std::string& name : targets) {
    LLMC_TRY(const target::Target* const target, target::find(name, options.opt_level));
    LLMC_RETURN_IF_ERROR(check_cflags(options.cflags, *target));
  }
  LLMC_RETURN_IF_ERROR(plan_options(options));
  if (options.grammar.given()) LLMC_RETURN_IF_ERROR(parse_grammar(options.grammar));
  return ok_status();
}

Result<std::vector<Bundle>> compile_model(const CompileOptions& options, Source source,
                                          std::span<const std::string> targets,
                                          std::span<const fs::path> folders,
                                          const Progress& progress) {
  LLMC_CHECK(targets.size() == folders.size());
  LLMC_RETURN_IF_ERROR(check_options(options, targets));
  LLMC_TRY(const Toolchain toolchain, find_toolchain(options.cc));
  std::vector<PhaseTime> times;
  PhaseClock clock(times);
  LLMC_TRY(Prepared prepared,
           prepare(options, std::move(source), targets, Purpose::kCompile, progress, clock));
  return write_bundles(options, folders, toolchain, std::move(prepared), std::move(times),
                       progress);
}

Result<Bundle> compile_model(const CompileOptions& options, const Progress& progress) {
  const std::string targets[] = {options.target};
  const fs::path folders[] = {options.out_dir};
  LLMC_RETURN_IF_ERROR(check_options(options, targets));
  LLMC_TRY(const Toolchain toolchain, find_toolchain(options.cc));
  if (options.out_dir.empty())
    return failure(ErrorKind::kBadInput, "no output folder was given", "use -o DIR");
  std::vector<PhaseTime> times;
  PhaseClock clock(times);
  LLMC_TRY(Source source, import_given(options, progress));
  clock.finish("import");
  LLMC_TRY(Prepared prepared,
           prepare(options, std::move(source), targets, Purpose::kCompile, progress, clock));
  LLMC_TRY(
      std::vector<Bundle> bundles,
      write_bundles(options, folders, toolchain, std::move(prepared), std::move(times), progress));
  return std::move(bundles.front());
}

Result<Bundle> compile_stages(const ir::Graph& stages, const CompileOptions& options) {
  const fs::path folders[] = {options.out_dir};
  LLMC_TRY(const Toolchain toolchain, find_toolchain(options.cc));
  LLMC_TRY(Prepared prepared, prepare_stages(stages, options));
  LLMC_TRY(std::vector<Bundle> bundles,
           write_bundles(options, folders, toolchain, std::move(prepared), {}, {}));
  return std::move(bundles.front());
}

Result<std::vector<plan::Plan>> plan_model(const CompileOptions& options, Source source,
                                           std::span<const std::string> targets,
                                           const Progress& progress) {
  LLMC_RETURN_IF_ERROR(check_options(options, targets));
  std::vector<PhaseTime> times;
  PhaseClock clock(times);
  LLMC_TRY(Prepared prepared,
           prepare(options, std::move(source), targets, Purpose::kPlan, progress, clock));
  return std::move(prepared.plans);
}

Result<plan::Plan> plan_model(const CompileOptions& options, const Progress& progress) {
  const std::string targets[] = {options.target};
  LLMC_RETURN_IF_ERROR(check_options(options, targets));
  LLMC_TRY(Source source, import_given(options, progress));
  LLMC_TRY(std::vector<plan::Plan> plans,
           plan_model(options, std::move(source), targets, progress));
  return std::move(plans.front());
}

}  // namespace llmc::driver
