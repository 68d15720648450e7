#include "tools/llmc/sampling_options.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <random>
#include <string_view>

#include "compiler/support/check.h"
#include "compiler/support/parse_number.h"
#include "tools/llmc/numbers.h"

namespace llmc::cli {
namespace {

struct StageName {
  std::string_view name;
  std::uint8_t stage;
};
constexpr StageName kStages[] = {
    {"penalties", LLMC_SAMPLER_PENALTIES},
    {"dry", LLMC_SAMPLER_DRY},
    {"top_k", LLMC_SAMPLER_TOP_K},
    {"tfs_z", LLMC_SAMPLER_TFS_Z},
    {"typ_p", LLMC_SAMPLER_TYPICAL_P},
    {"typical_p", LLMC_SAMPLER_TYPICAL_P},
    {"top_p", LLMC_SAMPLER_TOP_P},
    {"min_p", LLMC_SAMPLER_MIN_P},
    {"xtc", LLMC_SAMPLER_XTC},
    {"temperature", LLMC_SAMPLER_TEMPERATURE},
    {"temp", LLMC_SAMPLER_TEMPERATURE},
};

std::uint8_t stage_named(std::string_view name) {
  for (const StageName& stage : kStages)
    if (stage.name == name) return stage.stage;
  throw CLI::ValidationError(fmt::format(
      "--samplers: unknown stage '{}'; give 2024, today, or a list separated by ';' of penalties, "
      "dry, top_k, tfs_z, typ_p, top_p, min_p, xtc, temperature",
      printable(std::string(name), 40)));
}

void set_order(const std::string& text, llmc_sampling& sampling) {
  if (text == "2024") {
    llmc_sampling_order(&sampling, LLMC_SAMPLERS_2024);
    return;
  }
  if (text == "today") {
    llmc_sampling_order(&sampling, LLMC_SAMPLERS_TODAY);
    return;
  }
  llmc_sampling_order(&sampling, LLMC_SAMPLERS_DEFAULT);
  std::size_t count = 0;
  bool first = true;  // only penalties and dry so far
  std::string_view left = text;
  for (;;) {
    const std::string_view name = left.substr(0, left.find(';'));
    const std::uint8_t stage = stage_named(name);
    const bool history = stage == LLMC_SAMPLER_PENALTIES || stage == LLMC_SAMPLER_DRY;
    if (history && !first)
      throw CLI::ValidationError("--samplers: penalties and dry must be before all other stages");
    first = history;
    if (count == sizeof sampling.samplers)
      throw CLI::ValidationError(
          fmt::format("--samplers takes at most {} stages", sizeof sampling.samplers));
    sampling.samplers[count++] = stage;
    if (name.size() == left.size()) return;
    left.remove_prefix(name.size() + 1);
  }
}

/// Parses a logit bias, such as "15043+1.5" or "15043-inf".
llmc_logit_bias parse_bias(const std::string& text) {
  const char* const end = text.data() + text.size();
  llmc_logit_bias bias{};
  const auto [sign, id_error] = std::from_chars(text.data(), end, bias.token);
  bool good = id_error == std::errc{} && bias.token >= 0 && sign != end;
  good = good && (*sign == '+' || *sign == '-');
  if (good) {
    const auto [rest, error] = std::from_chars(sign + 1, end, bias.bias);
    good =
        error == std::errc{} && rest == end && !std::signbit(bias.bias) && !std::isnan(bias.bias);
    if (good && *sign == '-') bias.bias = -bias.bias;
    good = good && bias.bias < std::numeric_limits<float>::infinity();
  }
  if (!good) {
    throw CLI::ValidationError(
        fmt::format("--logit-bias takes a token id, + or -, and a number, such as 15043+1 or "
                    "15043-inf, not '{}'",
                    printable(text, 40)));
  }
  return bias;
}

/// Sets the seed: a number, or -1 for a random 32-bit one, as in llama.cpp.
void set_seed(const std::string& text, SamplingOptions& options) {
  options.drawn_seed = text == "-1";
  if (options.drawn_seed) {
    options.sampling.seed = std::random_device()();
    return;
  }
  const auto seed = parse_number<std::uint64_t>(text);
  if (!seed) {
    throw CLI::ValidationError(
        fmt::format("--seed takes a whole number from 0 to {}, or -1, not '{}'", UINT64_MAX,
                    printable(text, 40)));
  }
  options.sampling.seed = *seed;
}

}  // namespace

SamplingOptions::SamplingOptions() {
  llmc_sampling_defaults(&sampling);
  sampling.seed = std::random_device()();
}

void add_sampling_options(CLI::App& app, SamplingOptions& options) {
  llmc_sampling& s = options.sampling;
  const auto grouped = [](CLI::Option* option) { return option->group("Sampling"); };
  const auto number = [&](const char* name, float& value, double min, double max,
                          const char* text) {
    return grouped(
        add_number(app, name, value, min, max, fmt::format("{} (default: {})", text, value)));
  };
  const auto whole = [&](const char* name, std::int32_t& value, std::int64_t min, std::int64_t max,
                         const char* text) {
    return grouped(
        add_integer(app, name, value, min, max, fmt::format("{} (default: {})", text, value)));
  };
  // Adds an option whose value a model's files may recommend. Both have the same range.
  const auto shared = [&](const char* name, std::string_view field, const char* text) {
    const hosted::SamplingParameter* const parameter = hosted::sampling_parameter(field);
    LLMC_CHECK(parameter != nullptr);
    CLI::Option* const option =
        parameter->number != nullptr
            ? number(name, s.*(parameter->number), parameter->min, parameter->max, text)
            : whole(name, s.*(parameter->whole), static_cast<std::int64_t>(parameter->min),
                    static_cast<std::int64_t>(parameter->max), text);
    options.of_parameters.push_back({parameter, option});
    return option;
  };
  const auto of_draw = [&options](CLI::Option* option, std::function<bool()> off) {
    options.draw_options.push_back({option, std::move(off)});
    return option;
  };
  constexpr double kMaxNumber = hosted::kMaxSamplingNumber;
  const auto take_seed = [&options](const CLI::results_t& results) {
    set_seed(results.empty() ? std::string() : results.back(), options);
    return true;
  };
  of_draw(grouped(app.add_option("-s,--seed", take_seed,
                                 "Random seed, -1: random, and printed (default: -1)")),
          [] { return false; })
      ->type_name("N");
  grouped(
      app.add_option_function<std::string>(
          "--samplers", [&s](const std::string& text) { set_order(text, s); },
          "Sampler stages in order, separated by ';', or llama.cpp's order of a time: today, 2024 "
          "(default: an order that agrees with both)"))
      ->type_name("STAGES");
  options.temperature = shared("--temp", "temperature",
                               "Temperature, 0: greedy; a model's files may recommend other values "
                               "than these defaults");
  of_draw(shared("--top-k", "top_k", "Top-k: number of most probable tokens to keep, 0: all"),
          [&s] { return s.top_k == 0; });
  of_draw(shared("--top-p", "top_p", "Top-p: total probability of tokens to keep, 1: off"),
          [&s] { return s.top_p >= 1; });
  of_draw(shared("--min-p", "min_p",
                 "Min-p: minimum probability relative to the most probable token, 0: off"),
          [&s] { return s.min_p == 0; });
  of_draw(shared("--tfs", "tfs_z", "Tail-free sampling: parameter z, 1: off"),
          [&s] { return s.tfs_z >= 1; });
  shared("--typical", "typical_p",
         "Locally typical sampling: total probability of tokens to keep, 1: off");
  whole("--repeat-last-n", s.repeat_last_n, -1, INT32_MAX,
        "Window of the penalties in tokens, 0: off, -1: all tokens");
  shared("--repeat-penalty", "repeat_penalty",
         "Repeat penalty: divides positive and multiplies negative logits of repeated tokens, 1: "
         "off");
  shared("--presence-penalty", "presence_penalty",
         "Presence penalty: subtracted from logits of repeated tokens, 0: off");
  shared("--frequency-penalty", "frequency_penalty",
         "Frequency penalty: subtracted from logits for each occurrence, 0: off");
  number("--dry-multiplier", s.dry_multiplier, -kMaxNumber, kMaxNumber,
         "DRY penalty for a token that extends a repeat: multiplier * base^(length - allowed), 0: "
         "off");
  number("--dry-base", s.dry_base, 0, kMaxNumber, "Base of the DRY penalty, below 1: off");
  whole("--dry-allowed-length", s.dry_allowed_length, 0, INT32_MAX,
        "Length of repeats without DRY penalty, in tokens");
  whole("--dry-penalty-last-n", s.dry_penalty_last_n, -1, INT32_MAX,
        "Window of the DRY sampler in tokens, 0: off, -1: all tokens");
  grouped(app.add_option_function<std::vector<std::string>>(
              "--dry-sequence-breaker",
              [&options](const std::vector<std::string>& texts) {
                options.breakers.clear();
                for (const std::string& text : texts)
                  if (text != "none") options.breakers.push_back(text);
              },
              "Text that ends repeats of the DRY sampler, or none; may be repeated (default: "
              "newline, ':', '\"', '*')"))
      ->allow_extra_args(false)
      ->type_name("TEXT");
  number("--xtc-probability", s.xtc_probability, 0, 1,
         "XTC: probability of applying it to a token, 0: off");
  number("--xtc-threshold", s.xtc_threshold, 0, 1,
         "XTC: drop tokens of at least this probability, keep the least likely of them; above 0.5: "
         "off");
  of_draw(
      whole(
          "--mirostat", s.mirostat, 0, 2,
          "Mirostat version, which replaces top_k, tfs_z, typical_p, top_p, min_p and xtc: 1 or 2, "
          "0: off"),
      [&s] { return s.mirostat == 0; });
  number("--mirostat-lr", s.mirostat_lr, 0, kMaxNumber, "Mirostat learning rate");
  number("--mirostat-ent", s.mirostat_ent, 0, kMaxNumber,
         "Mirostat target entropy, in bits per token");
  grouped(app.add_option_function<std::vector<std::string>>(
              "-l,--logit-bias",
              [&options](const std::vector<std::string>& texts) {
                for (const std::string& text : texts) options.biases.push_back(parse_bias(text));
              },
              "Logit bias: ID+BIAS or ID-BIAS, ID-inf bans the token; may be repeated"))
      ->allow_extra_args(false)
      ->type_name("ID+BIAS");
}

void apply_recommended(const hosted::SamplingValues& values, SamplingOptions& options,
                       const Globals& globals) {
  std::string taken;
  for (const hosted::SamplingValue& value : values) {
    for (const auto& [parameter, option] : options.of_parameters) {
      if (parameter != value.parameter || option->count() > 0) continue;
      set(value, options.sampling);
      taken += fmt::format("{} {} {}", taken.empty() ? "" : ",", option->get_name(), value.value);
    }
  }
  if (!taken.empty() && globals.verbose > 0) remark(globals, "the model recommends" + taken);
}

void note_idle_sampling(const SamplingOptions& options, const Globals& globals) {
  const llmc_sampling& s = options.sampling;
  // typical_p and xtc remove probable tokens, so the result depends on the other stages.
  if (s.temperature != 0 || s.typical_p < 1 || s.xtc_probability > 0) return;
  std::string given;
  int count = 0;
  for (const SamplingOptions::DrawOption& of : options.draw_options) {
    if (of.option->count() == 0 || of.off()) continue;
    given += (given.empty() ? "" : ", ") + of.option->get_name();
    ++count;
  }
  if (count == 0) return;
  remark(globals,
         fmt::format("{} {} no effect: temperature 0 is greedy sampling{}", given,
                     count == 1 ? "has" : "have",
                     options.temperature->count() == 0
                         ? ", recommended by the model's files; use --temp 0.8, llama.cpp's default"
                         : ""));
}

std::string seed_text(const SamplingOptions& options) {
  const llmc_sampling& s = options.sampling;
  const bool draws = s.temperature > 0 || s.xtc_probability > 0;
  return options.drawn_seed && draws ? fmt::format("; seed {}", s.seed) : std::string();
}

Status use_sampling(const SamplingOptions& options, const hosted::Tokenizer* tokenizer,
                    std::uint32_t vocabulary, exec::Session& session) {
  for (const llmc_logit_bias& bias : options.biases) {
    if (static_cast<std::uint32_t>(bias.token) < vocabulary) continue;
    return usage_error(fmt::format("--logit-bias: token {} is outside the vocabulary of {}",
                                   bias.token, vocabulary),
                       "`llmc tokenize` prints the ids of a text");
  }
  LLMC_RETURN_IF_ERROR(session.call(&exec::Api::set_sampling, &options.sampling));
  if (!options.biases.empty()) LLMC_RETURN_IF_ERROR(session.set_logit_bias(options.biases));
  if (options.sampling.dry_multiplier != 0 && tokenizer != nullptr) {
    LLMC_RETURN_IF_ERROR(
        session.set_dry_breakers(hosted::dry_breakers(*tokenizer, options.breakers, vocabulary)));
  }
  return ok_status();
}

}  // namespace llmc::cli
