#include "tools/llmc/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/support/counted.h"
#include "tools/llmc/accelerator_text.h"
#include "tools/llmc/cli.h"
#include "tools/llmc/function_text.h"

namespace llmc::cli {

namespace {

/// Returns a member that is a number of at least 0. Throws nlohmann's exceptions.
std::uint64_t number(const Json& object, const char* name) {
  return object.at(name).get<std::uint64_t>();
}

/// Weights with the same format and history.
struct FormatShare {
  std::string format;
  std::string history;  // whether the model or llmc quantized the weights
  std::uint64_t bytes = 0, numbers = 0;
  std::vector<std::string> roles;  // "gate_up", "head"

  /// Returns whether these are matrices that llmc rounded, to which --calibrate applies.
  bool is_rounded() const {
    return !format.starts_with("table") &&
           (history.starts_with("quantized from float") || history.starts_with("requantized"));
  }
  /// Returns the roles, "gate_up, head", or the first few of many. No name is cut.
  std::string roles_text() const {
    constexpr std::size_t kMaxListed = 8, kMaxBytes = 160;
    std::string text;
    std::size_t listed = 0;
    for (; listed < std::min(roles.size(), kMaxListed) && text.size() <= kMaxBytes; ++listed)
      text += (listed > 0 ? ", " : "") + printable(roles[listed]);
    if (listed < roles.size()) text += fmt::format(", {} more", roles.size() - listed);
    return text;
  }
};

/// Returns the weights by format and history, sorted by size. `weights`: the member of plan.json.
std::vector<FormatShare> shares_of(const Json& weights) {
  std::vector<FormatShare> shares;
  for (const Json& weight : weights) {
    const auto format = weight.at("format").get<std::string>();
    const auto history = weight.value("history", "");
    const auto label = weight.at("role").get<std::string>();
    auto share = std::ranges::find_if(
        shares, [&](const FormatShare& s) { return s.format == format && s.history == history; });
    if (share == shares.end()) share = shares.insert(shares.end(), {format, history, 0, 0, {}});
    share->bytes += round_up(number(weight, "bytes"), kAlignment);
    share->numbers += number(weight, "rows") * number(weight, "columns");
    if (std::ranges::count(share->roles, label) == 0) share->roles.push_back(label);
  }
  std::erase_if(shares, [](const FormatShare& share) { return share.numbers == 0; });
  std::ranges::sort(shares, std::ranges::greater(), &FormatShare::bytes);
  return shares;
}

/// Formats lines with a name, bytes and their purpose, in columns.
class SizeLines {
 public:
  /// Makes the columns of names and bytes as wide as the longest of `shares`.
  explicit SizeLines(const std::vector<FormatShare>& shares) {
    for (const FormatShare& share : shares)
      width_ = std::max(width_, name_of(share).size() + 1 + fmt::to_string(share.bytes).size());
  }
  static std::string name_of(const FormatShare& share) { return "  " + printable(share.format); }
  std::string operator()(std::string_view what, std::uint64_t bytes, std::string_view why) const {
    const std::size_t name = std::max<std::size_t>(what.size(), 11);
    const std::size_t digits = width_ - std::min(width_, name + 1);
    return fmt::format("{:<11} {:>{}} bytes  {:>10}  {}\n", what, bytes, digits, human_bytes(bytes),
                       why);
  }

 private:
  std::size_t width_ = 24;
};

double bits_each(std::uint64_t bytes, std::uint64_t numbers) {
  return numbers > 0 ? 8.0 * static_cast<double>(bytes) / static_cast<double>(numbers) : 0.0;
}

std::string cache_text(const Json& plan) {
  const Json& options = plan.at("options");
  const Json& kv = plan.at("kv");
  const auto ctx = number(options, "ctx");
  const auto sequences = number(options, "sequences");
  const Json& model = plan.at("model");
  const char* const why =
      model.value("positions", std::uint64_t{0}) == ctx         ? " (the model's positions)"
      : model.value("trained_context", std::uint64_t{0}) == ctx ? " (trained context)"
                                                                : "";
  const std::uint64_t block = options.at("cache") == "contiguous" ? ctx : number(options, "block");
  return fmt::format("{}{}{} in {} of {}, {} per token in {}",
                     sequences == 1 ? "" : fmt::format("{} sequences of ", sequences),
                     counted(ctx, "token"), why, counted(number(kv, "blocks"), "block"),
                     kv.value("block", block), human_bytes(number(kv, "token_bytes")),
                     printable(options.at("kv").get<std::string>(), 40));
}

/// Returns what --fit or --max-kl chose: a line for each range of layers in which a matrix has one
/// format.
std::string budget_text(const Json& budget) {
  const auto estimated = budget.at("estimated_kl").get<double>();
  std::string text = fmt::format(
      "{:<11} {}: KL divergence of rounding the weights {:.6f} nats estimated, {:.6f} measured on "
      "{}{}\n",
      "formats",
      budget.contains("fit") ? "--fit " + human_bytes(number(budget, "fit"))
                             : fmt::format("--max-kl {}", budget.at("max_kl").get<double>()),
      estimated, budget.at("measured_kl").get<double>(),
      counted(number(budget, "measured_tokens"), "token"),
      budget.value("own_text", false) ? " that the model wrote" : "");
  struct Line {
    std::string role, format;
    std::int64_t first = -1, last = -1;
    std::uint64_t bytes = 0;
    double share = 0;
    std::size_t place = 0;
  };
  std::vector<Line> lines;
  for (const Json& one : budget.at("matrices")) {
    Line line{one.at("role").get<std::string>(), one.at("format").get<std::string>()};
    if (one.contains("layers")) {
      line.first = one.at("layers").at(0).get<std::int64_t>();
      line.last = one.at("layers").at(1).get<std::int64_t>();
    }
    const auto before = std::ranges::find_if(lines, [&](const Line& other) {
      return line.first > 0 && other.role == line.role && other.format == line.format &&
             other.last + 1 == line.first;
    });
    Line& joined = before == lines.end() ? lines.emplace_back(line) : *before;
    joined.last = line.last;
    joined.bytes += number(one, "bytes");
    joined.share += one.at("loss_share").get<double>();
  }
  std::map<std::string, std::size_t> order;  // of roles
  for (Line& line : lines) {
    order.emplace(line.role, order.size());
    line.place = static_cast<std::size_t>(&line - lines.data());
  }
  std::ranges::sort(lines, {}, [&](const Line& line) {
    return std::tuple(order.at(line.role), line.first, line.place);
  });
  for (const Line& line : lines) {
    const std::string layers = line.first < 0 ? ""
                               : line.first == line.last
                                   ? fmt::format("layer {}", line.first)
                                   : fmt::format("layers {}-{}", line.first, line.last);
    text += fmt::format("  {:<13} {:<13} {:<3} {:>12} bytes  {:5.1f} % of the divergence\n",
                        printable(line.role, 40), layers, printable(line.format, 10), line.bytes,
                        100 * line.share);
  }
  return text;
}

/// Returns the dims of an input or output. Open dims are given by their names.
std::string port_dims(const Json& port) {
  if (port.contains("formulas"))
    return fmt::format("{}", fmt::join(port.at("formulas").get<std::vector<std::string>>(), ", "));
  return fmt::format("{}", fmt::join(port.at("dims").get<std::vector<std::int64_t>>(), ", "));
}

std::string open_dims_text(const Json& dims) {
  std::string text;
  for (const Json& dim : dims)
    text += fmt::format("{:<11}  {}..{}  {}\n", "open", number(dim, "min"), number(dim, "max"),
                        printable(dim.at("name").get<std::string>(), 80));
  return text;
}

std::string ports_text(std::string_view what, const Json& ports) {
  std::string text;
  for (std::size_t i = 0; i < ports.size(); ++i)
    text += fmt::format(
        "{:<7} {:>3}  {}[{}]  {}\n", what, i, printable(ports[i].at("type").get<std::string>(), 20),
        printable(port_dims(ports[i]), 80), printable(ports[i].at("name").get<std::string>(), 80));
  return text;
}

/// Returns the number of chunks in flight with an accelerator: ", 2 at the same time".
std::string in_flight_text(const Json& plan) {
  if (!plan.contains("accelerator")) return {};
  return fmt::format(", {} at the same time", number(plan.at("accelerator"), "in_flight"));
}

bool is_plain(const Json& plan) {
  return plan.contains("kind");
}
std::uint64_t size_of(const Json& plan, const char* name) {
  return number(plan.at("bytes"), name);
}

/// Returns the section of the encoder that is compiled together with a decoder: of sources, images
/// or sound; nullptr if there is none.
const Json* encoder_section(const Json& plan) {
  for (const char* const name : {"source", "image"})
    if (plan.contains(name)) return &plan.at(name);
  return nullptr;
}

/// Returns the lines of the weights: all weights, then each format, then those of an encoder.
std::string weights_text(const Json& plan, const std::vector<FormatShare>& shares,
                         const SizeLines& line) {
  const std::uint64_t all = size_of(plan, "weights");
  std::uint64_t numbers = 0;
  for (const FormatShare& share : shares) numbers += share.numbers;
  const Json* const encoder = encoder_section(plan);
  const std::uint64_t of_encoder =
      encoder == nullptr ? 0 : encoder->value("encoder_weights", std::uint64_t{0});
  const std::uint64_t listed = all - std::min(all, of_encoder);
  const std::string per_token =
      is_plain(plan)
          ? ""
          : fmt::format("; {} read per token", human_bytes(size_of(plan, "weights_per_token")));
  const bool has_rounded = std::ranges::any_of(shares, &FormatShare::is_rounded);
  const auto options = plan.find("options");
  const std::string calibration = has_rounded && options != plan.end()
                                      ? options->value("calibration", std::string())
                                      : std::string();
  std::string text =
      line("weights", all,
           fmt::format("{} numbers, {:.2f} bits each{}{}{}", numbers, bits_each(listed, numbers),
                       listed == all ? "" : ", without the encoder", per_token,
                       calibration.empty() ? "" : "; calibrated: " + printable(calibration, 40)));
  for (const FormatShare& share : shares) {
    text += line(SizeLines::name_of(share), share.bytes,
                 fmt::format("{} numbers, {:.2f} bits each: {}{}{}", share.numbers,
                             bits_each(share.bytes, share.numbers), share.roles_text(),
                             share.history.empty() ? "" : "; ", printable(share.history)));
  }
  if (of_encoder > 0) text += line("  encoder", of_encoder, "all weights of the encoder");
  return text;
}

/// Returns the lines of read-only data other than the weights: the compiled-in prompt, loops, code
/// and grammar.
std::string constants_text(const Json& plan, const SizeLines& line) {
  std::string text;
  const auto add_loops = [&](const Json& section, const std::string& of) {
    if (!section.contains("loops")) return;
    const Json& loops = section.at("loops");
    text += line("loops", number(loops, "bytes"), of + loops_text(loops));
  };
  if (plan.contains("prompt")) {
    const Json& prompt = plan.at("prompt");
    text += line("prompt", number(prompt, "bytes"),
                 fmt::format("{} in {}, read-only, stored with the weights",
                             counted(number(prompt, "tokens"), "token"),
                             counted(number(prompt, "blocks"), "block")));
  }
  add_loops(plan, "");
  if (plan.contains("source")) add_loops(plan.at("source"), "encoder: ");
  if (plan.contains("image")) add_loops(plan.at("image"), "image: ");
  const std::uint64_t code = size_of(plan, "code");
  const bool estimated =
      is_plain(plan) ? code == 0 : plan.at("bytes").at("code_is_estimate").get<bool>();
  if (!is_plain(plan) || !estimated)
    text += line("code", code, estimated ? "estimate until compiled" : "exact");
  if (plan.contains("grammar")) {
    const Json& grammar = plan.at("grammar");
    text += line("grammar", number(grammar, "bytes"),
                 fmt::format("tables of the {}, read-only",
                             grammar.at("kind") == "gbnf" ? "grammar" : "JSON schema's grammar"));
  }
  return text;
}

/// Returns the line of an encoder-decoder's sources in the arena.
std::string source_text(const Json& source, const SizeLines& line) {
  const auto width = number(source, "width");
  const std::string from = width == 0 ? "" : fmt::format("rows from {} ", number(source, "max"));
  const auto count = source.value("count", std::uint64_t{1});
  return line("  source", count * number(source, "bytes"),
              fmt::format("{}keys and values of up to {} {}{}",
                          count == 1 ? "" : fmt::format("{} sources, ", count),
                          number(source, "rows"), from, plan::source_unit(width)));
}

/// Returns the lines of an image or audio encoder.
std::string image_text(const Json& image) {
  return fmt::format("{} encoder: up to {}\n", image.contains("sound") ? "audio" : "image",
                     counted(number(image, "rows"), "row")) +
         open_dims_text(image.value("open_dims", Json::array())) +
         ports_text("input", image.at("inputs"));
}

std::string arena_text(const Json& plan, const SizeLines& line) {
  const Json& options = plan.at("options");
  const std::string threads = counted(number(options, "threads_max"), "thread");
  if (is_plain(plan)) {
    const std::uint64_t values = size_of(plan, "values"), all = size_of(plan, "all_values");
    std::string parts;
    if (all > 0)
      parts = fmt::format(": {} of values{}, {} of the kernels'", human_bytes(values),
                          all > values ? fmt::format(" ({} without reuse)", human_bytes(all)) : "",
                          human_bytes(size_of(plan, "work")));
    return line("arena", size_of(plan, "arena"),
                fmt::format("all memory of a call on up to {}{}", threads, parts));
  }
  std::string text = line("arena", size_of(plan, "arena"), "all memory of a session, of which");
  text += line("  cache", size_of(plan, "kv"), cache_text(plan));
  if (plan.contains("states")) {
    const Json& states = plan.at("states");
    text += line("  states", size_of(plan, "states"),
                 fmt::format("{}, {} B a sequence",
                             counted(states.at("count").get<std::size_t>(), "recurrent state"),
                             number(states, "sequence_bytes")));
  }
  text += line("  scratch", size_of(plan, "scratch"),
               fmt::format("chunks of {}{}, up to {}", counted(number(options, "chunk"), "token"),
                           in_flight_text(plan), threads));
  if (const Json* const encoder = encoder_section(plan))
    text += line("    encoder", number(*encoder, "encoder_arena"),
                 "part of the scratch that the encoder uses");
  if (plan.contains("source")) text += source_text(plan.at("source"), line);
  if (plan.contains("image")) text += image_text(plan.at("image"));
  return text;
}

}  // namespace

std::string loops_text(const Json& loops) {
  const auto share = [&](const char* part, const char* all) {
    return 100.0 * static_cast<double>(number(loops, part)) /
           static_cast<double>(std::max<std::uint64_t>(number(loops, all), 1));
  };
  std::string operators;
  for (const auto& [name, count] : loops.at("operators").items())
    operators += fmt::format("{}{} {}", operators.empty() ? "" : ", ", printable(name, 40),
                             count.get<std::uint64_t>());
  return fmt::format("{:.1f} % of the bytes of weights, {:.1f} % of the multiply-adds: {}",
                     share("bytes", "all_bytes"), share("multiply_adds", "all_multiply_adds"),
                     operators);
}

Json plan_json(const plan::Plan& plan) {
  return Json::parse(plan::to_json(plan, {}));
}

std::string plan_text(const plan::Plan& plan) {
  return plan_text(plan_json(plan));
}

std::string plan_text(const Json& plan) {
  std::string text;
  if (plan.contains("shard"))
    text += fmt::format("shard       {} of {}: {}\n", number(plan.at("shard"), "index"),
                        number(plan.at("shard"), "count"),
                        counted(number(plan.at("model"), "layers"), "layer"));
  if (is_plain(plan))
    text += open_dims_text(plan.value("open_dims", Json::array())) +
            ports_text("input", plan.at("inputs")) + ports_text("output", plan.at("outputs"));
  const std::vector<FormatShare> shares = shares_of(plan.at("weights"));
  const SizeLines line(shares);
  text += weights_text(plan, shares, line);
  if (plan.contains("budget")) text += budget_text(plan.at("budget"));
  text += constants_text(plan, line);
  text += arena_text(plan, line);
  if (plan.contains("accelerator")) text += regions_text(plan);
  text.pop_back();
  return text;
}

namespace {

std::string matrices(std::size_t n) {
  return fmt::format("{} {}", n, n == 1 ? "matrix" : "matrices");
}

}  // namespace

void note_requantized(const Globals& globals, const plan::Rounding& rounding) {
  remark(globals, rounding.requantized == 0
                      ? "--requantize has no effect: no matrix of a product has integer codes, or "
                        "--quant is no quantized format"
                      : fmt::format("--requantize: {} of integer codes rounded again",
                                    matrices(rounding.requantized)));
}

void note_kept_codes(const Globals& globals, const plan::Rounding& rounding,
                     const std::string& quant, bool requantize) {
  if (rounding.kept == 0 && rounding.rounded == 0 && quant.starts_with("q"))
    remark(globals, fmt::format("--quant {} has no effect: the graph has no matrix of a linear "
                                "layer and no table",
                                quant));
  if (rounding.kept == 0) return;
  const char* const also = requantize ? "" : " (--requantize rounds matrices, too)";
  remark(globals, rounding.rounded == 0
                      ? fmt::format("--quant {} changes no weights: all keep the model's codes{}",
                                    quant, also)
                      : fmt::format("--quant {} applies to {}; {} more keep the model's codes{}",
                                    quant, matrices(rounding.rounded), rounding.kept, also));
}

void note_warnings(const Globals& globals, const plan::Plan& plan) {
  for (const plan::Warning& warning : plan::warnings(plan))
    note(globals, fmt::format("llmc: warning: {}\nhint: {}", warning.message, warning.hint));
  const plan::PlanOptions& options = plan.options;
  if (!options.tokenizer_refused.empty())
    note(globals,
         fmt::format("llmc: warning: the model is compiled without its tokenizer: {}\nhint: repair "
                     "the file to run the model with text; ids work without it",
                     printable(options.tokenizer_refused, 400)));
  if (!plan.program.is_plain() && options.batch > options.sequences)
    remark(globals,
           fmt::format("--batch {} is more than --sequences {}: only passes of several tokens "
                       "(--lookup, --draft) use the rest\nhint: --sequences {} has as many "
                       "sequences, --batch {} takes less memory",
                       options.batch, options.sequences, options.batch, options.sequences));
}

}  // namespace llmc::cli
