#include "tools/llmc/spellings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

namespace llmc::cli {
namespace {

/// An argument and the one that replaces it.
struct Spelling {
  std::string_view commands;  // names with blanks around them; empty: all
  std::string_view from, to;  // `to` empty: left out
  std::string_view note;      // empty: as good as the other
};
constexpr Spelling kSpellings[] = {
    {"", "-jf", "--json-schema-file", ""},
    {" chat ", "-sys", "--system", ""},
    {" chat ", "-cnv", "", ""},
    {" chat ", "--conversation", "", ""},
    {" run ", "-no-cnv", "", ""},
    {" run ", "--no-conversation", "", ""},
    {" run chat ", "--temperature", "--temp", ""},
    {" run chat ", "--typical-p", "--typical", ""},
    {" run chat ", "-r", "--reverse-prompt",
     "-r is the number of repetitions in bench and tune: write --reverse-prompt"},
    {" chat ", "--jinja", "", ""},
    {" chat ", "-i", "", ""},
    {" chat ", "--interactive", "", ""},
    {" run chat ", "--color", "", ""},
    {" run chat ", "--simple-io", "", ""},
    {" run chat ", "--no-warmup", "", ""},
    {" run chat ", "--no-escape", "", ""},
    {" run chat ", "--log-disable", "--quiet", ""},
    {"", "--mlock", "", "--mlock has no effect: the system decides what stays in memory"},
    {"", "--no-mmap", "", "--no-mmap has no effect: weights are always mapped"},
};

/// An argument of llama.cpp's programs that llmc does not take. Of those with one dash CLI11 would
/// read the first letter as an option and the rest as its value.
struct Refusal {
  std::string_view commands, from;  // as in Spelling
  std::string_view message, hint;
};
constexpr std::string_view kOneText = "llmc run continues one text";
constexpr std::string_view kChatHint = "llmc chat MODEL has conversations";
constexpr std::string_view kConversation = "llmc chat has conversations";
constexpr std::string_view kRunHint = "llmc run MODEL -p TEXT continues a text";
constexpr std::string_view kNoBatch = "there is no logical and physical batch";
constexpr std::string_view kChunkHint = "--chunk N is the maximum of prompt tokens run at once";
constexpr std::string_view kNoCacheType = "keys and values have one option";
constexpr std::string_view kKvHint = "such as --kv int8 or --kv K=int8,V=fp8";
constexpr std::string_view kNoJinja = "llmc run continues a text without a chat template";
constexpr std::string_view kJinjaHint = "--chat answers the prompt through the model's template";
constexpr std::string_view kNoEscapes = "escapes in a text are not processed";
constexpr std::string_view kEscapesHint =
    "write $'two\\nlines' in the shell, or give a file with -f";
constexpr std::string_view kChatEscapesHint = "write $'two\\nlines' in the shell";
constexpr std::string_view kOneTurn = "a single message is given with -p";
constexpr std::string_view kOneTurnHint = "llmc chat MODEL -p TEXT answers it and ends";
constexpr std::string_view kNoTemplateNames = "templates have no names here";
constexpr std::string_view kTemplateHint = "--chat-template-file FILE takes a Jinja template";
constexpr std::string_view kRunTemplateHint =
    "--chat takes the model's own; llmc chat has --chat-template-file FILE";
constexpr std::string_view kIsSo = "this cannot be switched";
constexpr std::string_view kFlashHint = "attention is always fused: leave it out";
constexpr Refusal kRefusals[] = {
    {" run ", "-cnv", kOneText, kChatHint},
    {" run ", "--conversation", kOneText, kChatHint},
    {" chat ", "-no-cnv", kConversation, kRunHint},
    {" chat ", "--no-conversation", kConversation, kRunHint},
    {" run ", "-i", kOneText, kChatHint},
    {" run ", "--interactive", kOneText, kChatHint},
    {" run ", "--jinja", kNoJinja, kJinjaHint},
    {" run ", "-st", kOneText, "leave it out"},
    {" run ", "--single-turn", kOneText, "leave it out"},
    {" chat ", "-st", kOneTurn, kOneTurnHint},
    {" chat ", "--single-turn", kOneTurn, kOneTurnHint},
    {" run ", "-e", kNoEscapes, kEscapesHint},
    {" run ", "--escape", kNoEscapes, kEscapesHint},
    {" chat ", "-e", kNoEscapes, kChatEscapesHint},
    {" chat ", "--escape", kNoEscapes, kChatEscapesHint},
    {" run ", "--chat-template", kNoTemplateNames, kRunTemplateHint},
    {" chat ", "--chat-template", kNoTemplateNames, kTemplateHint},
    {" run chat ", "--verbose-prompt", "the prompt's tokens are not printed",
     "llmc tokenize MODEL TEXT prints the ids of a text"},
    {"", "-b", kNoBatch, kChunkHint},
    {"", "--batch-size", kNoBatch, kChunkHint},
    {"", "-ub", kNoBatch, kChunkHint},
    {"", "--ubatch-size", kNoBatch, kChunkHint},
    {"", "-ctk", kNoCacheType, kKvHint},
    {"", "--cache-type-k", kNoCacheType, kKvHint},
    {"", "-ctv", kNoCacheType, kKvHint},
    {"", "--cache-type-v", kNoCacheType, kKvHint},
    {"", "-fa", kIsSo, kFlashHint},
    {"", "--flash-attn", kIsSo, kFlashHint},
    {"", "-tb", "prompts and generation have as many threads", "-t N is the number of both"},
    {"", "-np", "sequences are settled when a model is compiled",
     "compile with --sequences N --batch N"},
    {"", "-hf", "llmc loads nothing from the network", "give a folder or an .onnx file"},
};

constexpr std::string_view kGpuLayers[] = {"-ngl", "--gpu-layers", "--n-gpu-layers"};
constexpr std::string_view kModelNames[] = {"-m", "--model"};
constexpr std::string_view kForms[] = {"text", "md", "csv", "json"};

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
  return std::ranges::count(words, word) != 0;
}

/// "--name=value" in its parts; the value is absent without "=".
struct NameAndValue {
  std::string_view name;
  std::optional<std::string_view> value;
};
NameAndValue split_argument(std::string_view argument) {
  const std::size_t equals = argument.find('=');
  if (!argument.starts_with("--") || equals == argument.npos) return {argument, std::nullopt};
  return {argument.substr(0, equals), argument.substr(equals + 1)};
}

/// Reads the arguments from left to right.
class Speller {
 public:
  Speller(const std::vector<std::string>& arguments, const TakesValue& takes_value)
      : arguments_(arguments), takes_value_(takes_value) {}

  Result<Spelled> run() {
    if (arguments_.empty()) return Spelled{};
    result_.arguments.push_back(arguments_[0]);
    for (at_ = 1; at_ < arguments_.size(); ++at_) {
      if (arguments_[at_] == "--") {
        result_.arguments.insert(result_.arguments.end(), arguments_.begin() + offset(at_),
                                 arguments_.end());
        break;
      }
      LLMC_RETURN_IF_ERROR(add(arguments_[at_]));
    }
    return std::move(result_);
  }

 private:
  static std::ptrdiff_t offset(std::size_t index) { return static_cast<std::ptrdiff_t>(index); }
  const std::string& command() const { return arguments_[0]; }
  void keep(std::string argument) { result_.arguments.push_back(std::move(argument)); }

  /// Whether the argument after this one is the value of an option in it.
  bool needs_next(const std::string& argument) const {
    if (argument.starts_with("--")) return takes_value_(argument);
    if (!argument.starts_with('-')) return false;
    // "-qp" is -q -p; in "-pq" the value of -p is "q".
    for (std::size_t i = 1; i < argument.size(); ++i)
      if (takes_value_({'-', argument[i]})) return i + 1 == argument.size();
    return false;
  }
  /// Adds an argument of the program, and its value if that is the next one.
  void keep_with_value(std::string argument) {
    const bool takes_next = needs_next(argument) && at_ + 1 < arguments_.size();
    keep(std::move(argument));
    if (takes_next) keep(arguments_[++at_]);
  }

  /// Returns the value of the current option: the text after "=", or the next argument.
  Result<std::string> value_of(const NameAndValue& option) {
    if (option.value) return std::string(*option.value);
    if (at_ + 1 < arguments_.size()) return arguments_[++at_];
    return usage_error(fmt::format("{} needs a value", option.name), "");
  }

  /// Whether a row of a table is about the command at hand.
  bool is_for(std::string_view commands) const {
    return commands.empty() || commands.find(" " + command() + " ") != commands.npos;
  }

  Status add(const std::string& argument) {
    const NameAndValue option = split_argument(argument);
    for (const Refusal& refusal : kRefusals) {
      if (is_for(refusal.commands) && refusal.from == option.name)
        return usage_error(fmt::format("{}: {}", option.name, refusal.message),
                           std::string(refusal.hint));
    }
    if (is_one_of(option.name, kGpuLayers)) {
      LLMC_TRY(const std::string layers, value_of(option));
      if (layers == "0") return ok_status();
      return usage_error(fmt::format("{} takes 0, not '{}': llmc makes code for processors",
                                     option.name, printable(layers, 40)),
                         "leave it out");
    }
    // `verify` has an option of that name.
    if (is_one_of(option.name, kModelNames) && command() != "verify") {
      LLMC_TRY(std::string model, value_of(option));
      if (model.size() > 1 && model.starts_with('-')) {
        return usage_error(
            fmt::format("{} needs a model, and '{}' is an option", option.name,
                        printable(model, 40)),
            fmt::format("write {0} MODEL, and {0} ./NAME for a name that begins with '-'",
                        option.name));
      }
      // MODEL comes before all other arguments that are no options.
      result_.arguments.insert(result_.arguments.begin() + 1 + offset(models_++), std::move(model));
      return ok_status();
    }
    if (command() == "tune" && (option.name == "-o" || option.name == "--output")) {
      LLMC_TRY(std::string file, value_of(option));
      const bool form = is_one_of(file, kForms);
      keep(form ? std::string(option.name) : "--header");
      keep(std::move(file));
      if (!form) {
        result_.notes.emplace_back(
            "-o is the form of what is printed in bench and compare: write --header FILE");
      }
      return ok_status();
    }
    for (const Spelling& spelling : kSpellings) {
      if (!is_for(spelling.commands) || spelling.from != option.name) continue;
      if (!spelling.note.empty()) result_.notes.emplace_back(spelling.note);
      if (spelling.to.empty()) return ok_status();
      keep_with_value(std::string(spelling.to) +
                      (option.value ? "=" + std::string(*option.value) : std::string()));
      return ok_status();
    }
    keep_with_value(argument);
    return ok_status();
  }

  const std::vector<std::string>& arguments_;
  const TakesValue& takes_value_;
  std::size_t at_ = 0;
  std::size_t models_ = 0;  // moved to the front
  Spelled result_;
};

}  // namespace

Result<Spelled> spell(const std::vector<std::string>& arguments, const TakesValue& takes_value) {
  return Speller(arguments, takes_value).run();
}

}  // namespace llmc::cli
