#include "tools/llmc/options.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/driver/bundle_files.h"
#include "compiler/plan/kv_format.h"
#include "compiler/plan/plan.h"
#include "compiler/support/parse_number.h"
#include "compiler/target/device.h"
#include "compiler/target/target.h"
#include "runtime/hosted/thread_pool.h"
#include "tools/llmc/accelerator_text.h"
#include "tools/llmc/calibrate_options.h"
#include "tools/llmc/numbers.h"

namespace llmc::cli {
namespace {

bool takes_bundle(ModelUse use) {
  return use != ModelUse::kCompile && use != ModelUse::kCompare;
}

/// Returns whether the command has the options of text_options.h, including --parse-special.
bool measures_text(ModelUse use) {
  return use == ModelUse::kMeasure || use == ModelUse::kCompare;
}

/// Returns whether the command only compiles, possibly for other machines.
bool compiles_only(ModelUse use) {
  return use == ModelUse::kPlan || use == ModelUse::kCompile;
}

}  // namespace

CLI::Option* add_threads(CLI::App& app, std::uint32_t& threads) {
  return add_whole_number(app, "-t,--threads", threads, 1, plan::kMaxThreads,
                          "Number of threads (default: number of cores)");
}

CLI::Option* add_cores(CLI::App& app, std::uint32_t& cores) {
  const auto take = [&cores](const std::string& kind) {
    cores = kind == "even" ? LLMC_CORES_EVEN : LLMC_CORES_UNEVEN;
  };
  return app
      .add_option_function<std::string>("--cores", take,
                                        "Work split, even: static, for equal cores, uneven: "
                                        "dynamic, for big.LITTLE (default: the "
                                        "target's)")
      ->check(CLI::IsMember({"even", "uneven"}))
      ->type_name("KIND");
}

void add_model_options(CLI::App& app, ModelOptions& options, ModelUse use) {
  driver::CompileOptions& c = options.compile;
  options.use = use;
  const auto take_model = [&options](const CLI::results_t& results) {
    options.model = last_value(results);
    if (options.model.empty()) throw CLI::ValidationError("MODEL is empty");
    return true;
  };
  app.add_option("MODEL", take_model,
                 takes_bundle(use) ? "Folder of a model, .onnx file, or bundle"
                                   : "Folder of a model, or .onnx file")
      ->required()
      ->type_name("");
  const auto fixed = [&](CLI::Option* option) {
    options.fixed.push_back(option->group("Compilation"));
    return option;
  };
  const auto of_decoders = [&](CLI::Option* option) {
    options.decoder_only.push_back(option);
    return fixed(option);
  };
  const auto number = [&](const char* names, std::uint32_t& value, std::uint64_t max,
                          const std::string& text) {
    return add_whole_number(app, names, value, 1, max,
                            fmt::format("{} (default: {})", text, value));
  };
  const std::string target_help =
      compiles_only(use) ? fmt::format(
                               "Targets, listed by llmc targets, such as arm64,lasx,avx2 (default: "
                               "{})",
                               target::portable_here().name)
                         : "Target, listed by llmc targets (default: best for this machine)";
  fixed(app.add_option("--target", options.target, target_help))
      ->check(refuse_empty)
      ->type_name("NAME");
  const bool lists = use == ModelUse::kCompare;
  if (!lists) {
    options.quant_option =
        fixed(app.add_option("--quant", options.quant,
                             "Weight format: " + passes::quant_scheme_list(" or ") +
                                 " (default: q4m, which is q4 with q6 for some matrices of "
                                 "narrow models; functions: the model's own formats)"))
            ->type_name("FORMAT");
  }
  fixed(app.add_flag("--requantize", c.requantize,
                     "Also convert matrices that the model stores as integer codes"));
  for (CLI::Option* const option : add_budget(app, options.budget, lists)) fixed(option);
  fixed(add_opt_level(app, options.opt_level));
  options.ctx_option =
      add_token_count(
          app, "-c,--ctx,--ctx-size", c.ctx, 1, plan::kMaxContext,
          fmt::format("Context length in tokens (default: {}, or the trained context if that is "
                      "smaller)",
                      c.ctx))
          ->each([&c](const std::string&) { c.ctx_given = true; })
          ->check([](const std::string& text) {
            return text == "0" ? "0 is not a valid context: remove the option for the default"
                               : std::string();
          });
  of_decoders(add_token_count(
      app, "--source-ctx", c.source_max, 1, plan::kMaxContext,
      fmt::format("Encoder-decoder: maximum tokens of a source (default: {}), or "
                  "samples (default: {}) or frames (default: {}) of sound",
                  driver::CompileOptions::kDefaultSource, driver::CompileOptions::kDefaultSamples,
                  driver::CompileOptions::kDefaultFrames)));
  if (use == ModelUse::kMeasure) {
    options.ctx_option->group("Compilation");  // for a bundle, the window size (text_options.h)
  } else {
    of_decoders(options.ctx_option);
  }
  of_decoders(add_token_count(
      app, "--block", c.block, 1, plan::kMaxBlock,
      fmt::format("KV cache block size in tokens, a multiple of 8 (default: {})", c.block)));
  if (!lists) {
    of_decoders(
        app.add_option("--kv", options.kv,
                       "KV cache format, also for the keys and values of an encoder's source: "
                       "f32, f16, int8, or separate "
                       "formats such as K=int8,V=fp8 (default: f16; with --quant f32, f32)"))
        ->check(refuse_empty)
        ->type_name("FORMAT");
  }
  CLI::Option* const chunk =
      add_token_count(app, "--chunk", c.chunk, 1, plan::kMaxChunk,
                      "Maximum tokens of a prompt per forward pass (default: the target's)");
  options.decoder_only.push_back(chunk->group("Compilation"));
  if (use != ModelUse::kRun) options.fixed.push_back(chunk);  // sessions may have smaller chunks
  of_decoders(app.add_option_function<std::string>(
                  "--cache", [&c](const std::string& text) { c.contiguous = text == "contiguous"; },
                  "KV cache layout: paged or in one piece (default: blocked)"))
      ->check(CLI::IsMember({"blocked", "contiguous"}))
      ->type_name("LAYOUT");
  of_decoders(
      number("--sequences", c.sequences, plan::kMaxSequences, "Maximum sequences per session"));
  of_decoders(number("--sources", c.sources, plan::kMaxSequences,
                     "Encoder-decoder: maximum sources per session, 1: all sequences share one"));
  of_decoders(number("--batch", c.batch, plan::kMaxBatch, "Maximum sequences decoded per step"));
  of_decoders(
      add_whole_number(app, "--pool", c.pool, 1, plan::kMaxPool,
                       "KV blocks shared by all sequences (default: full context for each)"));
  CLI::Option* const accelerate = app.add_option_function<std::string>(
      "--accelerate", [&c](const std::string& name) { c.accelerate = name == "none" ? "" : name; },
      fmt::format("Accelerator for prompts: none, {} (default: none)", target::device_names()));
  of_decoders(accelerate->check(refuse_empty)->type_name("DEVICE"));
  if (use != ModelUse::kPlan && use != ModelUse::kCompile)
    add_opencl_device(app, options.opencl_device);
  of_decoders(number("--in-flight", c.in_flight, plan::kMaxInFlight,
                     "With --accelerate: maximum chunks of a prompt computed at the same time")
                  ->needs(accelerate));
  fixed(number("--threads-max", c.threads_max, plan::kMaxThreads,
               "Maximum threads; each one needs scratch memory in the arena"));
  of_decoders(add_calibrate(app, options.calibrate));
  if (!measures_text(use))
    of_decoders(add_parse_special(app, options.parse_special, "the file of --calibrate"));
  if (use == ModelUse::kPlan) return;
  app.add_option("--cc", c.cc, "clang++ to use (default: $LLMC_CC, clang++-19, clang++)")
      ->type_name("PROGRAM")
      ->group("Compilation");
  fixed(app.add_option("--cflag", c.cflags, "Additional clang argument; may be repeated")
            ->allow_extra_args(false)
            ->type_name("ARG"));
  const auto take_sysroot = [&c](const CLI::results_t& results) {
    std::error_code error;
    const std::filesystem::path folder = last_value(results);
    if (!std::filesystem::is_directory(folder, error)) {
      throw CLI::ValidationError(
          fmt::format("--sysroot '{}' is not a folder; give one with the target's usr/include, "
                      "such as those of "
                      "tools/cross.sh",
                      printable(folder.string())));
    }
    c.cflags.push_back("--sysroot=" +
                       std::filesystem::absolute(folder).lexically_normal().string());
    return true;
  };
  fixed(app.add_option("--sysroot", take_sysroot,
                       "Folder with headers of the target, for sources added by --cflag")
            ->type_name("DIR"));
  if (use != ModelUse::kCompile) add_emulator(app, options.emulator);
}

CLI::Option* add_emulator(CLI::App& app, std::string& emulator) {
  const auto take = [&emulator](const CLI::results_t& results) {
    emulator = last_value(results);
    if (emulator.find_first_not_of(" \t\n") == emulator.npos) {
      throw CLI::ValidationError("--emulator needs a command, such as 'qemu-aarch64 -cpu max'");
    }
    return true;
  };
  return app
      .add_option("--emulator", take,
                  "Emulator of another processor (default: $LLMC_EMULATOR, qemu)")
      ->type_name("COMMAND");
}

CLI::Option* add_opt_level(CLI::App& app, std::string& level) {
  return app
      .add_option(
          "--opt-level", level,
          "Optimization level, 1: reference, 2: SIMD, 3: SIMD with register and cache tiles; "
          "results are bit-identical (default: 3)")
      ->type_name("LEVEL");
}

Result<std::uint32_t> parse_opt_level(const std::string& text) {
  const auto level = parse_number<std::uint32_t>(text);
  if (level && *level >= 1 && *level <= target::kMaxOptLevel) return *level;
  return usage_error(fmt::format("--opt-level takes 1, 2 or 3, not '{}'", printable(text, 40)),
                     "1: reference, 2: SIMD, 3: SIMD with tiles");
}

std::string refuse_empty(const std::string& value) {
  return value.empty() ? "is empty: leave the option out for the default" : std::string();
}

Status refuse_bundle(const std::string& model) {
  if (!driver::looks_like_bundle(model)) return ok_status();
  return usage_error(fmt::format("{} is a compiled bundle", printable(model)),
                     "give the original model");
}

Result<std::string> checked_target(const std::string& name) {
  if (name.find(',') != name.npos)
    return usage_error(fmt::format("--target {}: one target is needed", printable(name, 80)),
                       "lists of targets are for llmc compile and llmc plan");
  LLMC_TRY(const target::Target* target,
           target::find(name.empty() ? target::best_here().name : name));
  return std::string(target->name);
}

Result<std::vector<ChosenTarget>> chosen_targets(const ModelOptions& options) {
  std::vector<ChosenTarget> chosen;
  if (options.target.empty()) {
    const std::string_view portable = target::portable_here().name, best = target::best_here().name;
    chosen.push_back({std::string(portable),
                      portable == best
                          ? "portable default, and best for this machine"
                          : fmt::format("portable default; best for this machine: {}", best)});
    return chosen;
  }
  for (const std::string& name : split(options.target)) {
    LLMC_TRY(std::string found, checked_target(name));
    if (name.empty())
      return usage_error(fmt::format("--target {} has an empty name", printable(options.target)),
                         "give names separated by commas, such as arm64,lasx,avx2");
    if (std::ranges::count(chosen, found, &ChosenTarget::name) != 0) continue;
    chosen.push_back({found, found == name ? "given" : fmt::format("given as {}", name)});
  }
  return chosen;
}

std::string target_line(const target::Target& target, const ChosenTarget& chosen) {
  return fmt::format("{:<11} {} ({})\n", "target", target::described(target), chosen.reason);
}

void note_model_file(const Globals& globals, const std::string& model) {
  if (driver::looks_like_bundle(model)) return;
  const auto found = importer::find_model(model);  // reading the model reports its errors
  if (found.ok() && !found->note.empty()) remark(globals, found->note);
}

Result<driver::CompileOptions> compile_options(const ModelOptions& options) {
  driver::CompileOptions result = options.compile;
  result.model = options.model;
  if (!takes_bundle(options.use)) LLMC_RETURN_IF_ERROR(refuse_bundle(options.model));
  if (driver::looks_like_bundle(options.model)) {
    for (const CLI::Option* option : options.fixed) {
      if (option->count() == 0) continue;
      return usage_error(
          fmt::format("{} cannot change a compiled bundle: it was set when {} was compiled",
                      option->get_name(), printable(last_component(options.model))),
          "remove the option (llmc inspect prints what the bundle has), or compile the model again "
          "with it");
    }
  }
  if (compiles_only(options.use)) {
    LLMC_TRY(const auto targets, chosen_targets(options));
    result.target = targets.front().name;
  } else {
    LLMC_TRY(result.target, checked_target(options.target));
  }
  LLMC_TRY(result.opt_level, parse_opt_level(options.opt_level));
  LLMC_TRY(result.quant, parse_quant(options.quant));
  result.quant_given = options.quant_option != nullptr && options.quant_option->count() > 0;
  // A pass runs tokens of a prompt, or one token of each sequence of a batch.
  const std::uint32_t most = std::max(result.ctx, result.batch);
  if (result.ctx_given && result.chunk > most && !driver::looks_like_bundle(options.model))
    return usage_error(
        fmt::format("--chunk {} is more than --ctx {}", result.chunk, result.ctx),
        fmt::format("a pass has no more tokens than the context or a batch: --chunk {}", most));
  result.kv = plan::default_kv_formats(result.quant.format);
  if (!options.kv.empty()) {
    LLMC_TRY(result.kv, plan::parse_kv_formats(options.kv));
  }
  if (options.parse_special && !has_file(options.calibrate) && !measures_text(options.use))
    return no_text_to_parse("--calibrate FILE");
  LLMC_RETURN_IF_ERROR(apply_calibrate(options.calibrate, options.parse_special, result));
  if (options.use != ModelUse::kCompare) LLMC_RETURN_IF_ERROR(apply_budget(options.budget, result));
  return result;
}

Result<std::uint32_t> threads_for(std::uint32_t requested, std::uint32_t max) {
  if (requested > max) {
    return usage_error(
        fmt::format("--threads {}: the model was compiled for at most {}", requested, max),
        fmt::format("use fewer, or add --threads-max {}; a bundle has to be compiled with it",
                    requested));
  }
  return requested > 0 ? requested : std::min(hosted::usable_cores(), std::max(max, 1u));
}

}  // namespace llmc::cli
