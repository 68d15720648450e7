#include "tools/llmc/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <vector>

#include "tools/llmc/cli.h"

namespace llmc::cli {

namespace {

/// What is kept in one format and came to it in one way.
struct FormatShare {
  std::string format;
  std::string history;  // of weights that arrive quantized, or are quantized here
  std::uint64_t bytes = 0, numbers = 0;
  std::string roles;  // "gate_up, head"
};

/// In order of size.
std::vector<FormatShare> shares_of(const plan::Plan& plan) {
  std::vector<FormatShare> shares;
  for (const plan::PackedWeight& weight : plan.program.weights) {
    const std::string format = weight.format_name(), history = weight.history_text();
    auto share = std::ranges::find_if(
        shares, [&](const FormatShare& s) { return s.format == format && s.history == history; });
    if (share == shares.end()) share = shares.insert(shares.end(), {format, history, 0, 0, {}});
    share->bytes += round_up(weight.bytes, kAlignment);
    share->numbers += weight.rows * weight.columns;
    const std::string role = ", " + weight.label + ",";
    if ((", " + share->roles + ",").find(role) == std::string::npos)
      share->roles += (share->roles.empty() ? "" : ", ") + weight.label;
  }
  std::erase_if(shares, [](const FormatShare& share) { return share.numbers == 0; });
  std::ranges::sort(shares, std::ranges::greater(), &FormatShare::bytes);
  return shares;
}

}  // namespace

std::string plan_text(const plan::Plan& plan) {
  const auto line = [](std::string_view what, std::uint64_t bytes, std::string_view why) {
    return fmt::format("{:<11} {:>12} bytes  {:>10}  {}\n", what, bytes, human_bytes(bytes), why);
  };
  const double bits = plan.parameters > 0 ? 8.0 * static_cast<double>(plan.weights_bytes) /
                                                static_cast<double>(plan.parameters)
                                          : 0.0;
  std::string text;
  text += line("weights", plan.weights_bytes,
               fmt::format("{} numbers, {:.2f} bits each; {} read per token", plan.parameters, bits,
                           human_bytes(plan.weights_per_token_bytes)));
  for (const FormatShare& share : shares_of(plan)) {
    text += line(
        "  " + share.format, share.bytes,
        fmt::format("{} numbers, {:.2f} bits each: {}{}{}", share.numbers,
                    8.0 * static_cast<double>(share.bytes) / static_cast<double>(share.numbers),
                    share.roles, share.history.empty() ? "" : "; ", share.history));
  }
  if (plan.prompt.tokens > 0) {
    text += line("prompt", plan.prompt.bytes,
                 fmt::format("{} tokens in {} blocks, read-only, beside the weights",
                             plan.prompt.tokens, plan.prompt.blocks));
  }
  text +=
      line("code", plan.code_bytes, plan.code_is_estimate ? "estimate until compiled" : "exact");
  if (plan.options.grammar_bytes > 0) {
    text += line(
        "grammar", plan.options.grammar_bytes,
        fmt::format("tables of the {}, read-only",
                    plan.options.grammar_kind == "gbnf" ? "grammar" : "JSON schema's grammar"));
  }
  text += line("arena", plan.arena_bytes, "all memory a session uses, of which");
  text += line(
      "  cache", plan.kv.bytes,
      fmt::format("{}{} tokens{} in {} blocks of {}, {} per token in {}",
                  plan.options.sequences == 1
                      ? ""
                      : fmt::format("{} sequences of ", plan.options.sequences),
                  plan.options.ctx,
                  plan.options.ctx == plan.program.positions_max ? " (the model's positions)" : "",
                  plan.kv.blocks, plan.kv.block, human_bytes(plan.kv.token_bytes()),
                  plan::to_string(plan.options.kv)));
  text += line("  scratch", plan.memory.scratch_bytes,
               fmt::format("chunks of {} tokens, up to {} threads", plan.options.chunk,
                           plan.options.threads_max));
  text.pop_back();
  return text;
}

void note_warnings(const Globals& globals, const plan::Plan& plan) {
  for (const plan::Warning& warning : plan::warnings(plan))
    note(globals, fmt::format("llmc: warning: {}\nhint: {}", warning.message, warning.hint));
}

Result<std::uint64_t> parse_bytes(const std::string& text, const std::string& option) {
  if (text.empty()) return std::uint64_t{0};
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, number);
  const std::string_view unit(next, static_cast<std::size_t>(end - next));
  double factor = 0;
  if (unit.empty() || unit == "B") factor = 1;
  if (unit == "K" || unit == "KiB" || unit == "k") factor = 1024;
  if (unit == "M" || unit == "MiB") factor = 1024.0 * 1024;
  if (unit == "G" || unit == "GiB") factor = 1024.0 * 1024 * 1024;
  const double bytes = number * factor;
  if (error != std::errc{} || factor == 0 || !(bytes >= 1) || bytes > 1e18) {
    return usage_error(fmt::format("{} {} is not a size", option, printable(text)),
                       "write bytes, or a number with K, M or G, such as 64M");
  }
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace llmc::cli
