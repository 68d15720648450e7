#include "tools/llmc/spellings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

namespace llmc::cli {
namespace {

/// Aliases of an argument.
struct Spelling {
  std::string_view commands, from;  // names with blanks around them; no commands: all
  std::string_view to;              // empty: the argument is dropped
  std::string_view note;            // printed if not empty
};
constexpr Spelling kSpellings[] = {
    {"", " -jf ", "--json-schema-file", ""},
    {" chat ", " -sys ", "--system", ""},
    {" chat ", " -cnv --conversation --jinja -i --interactive ", "", ""},
    {" run ", " -no-cnv --no-conversation ", "", ""},
    {" run chat ", " --temperature ", "--temp", ""},
    {" run chat ", " --typical-p ", "--typical", ""},
    {" run chat ", " -r ", "--reverse-prompt",
     "use --reverse-prompt: -r is the number of repetitions in bench and tune"},
    {" run chat ", " --color --simple-io --no-warmup --no-escape ", "", ""},
    {" run chat ", " --log-disable ", "--quiet", ""},
    {"", " --mlock ", "", "--mlock has no effect: the system manages memory"},
    {"", " --no-mmap ", "", "--no-mmap has no effect: weights are always mapped"},
};

/// Arguments of llama.cpp's programs that llmc does not support. CLI11 would parse an argument with
/// one dash as a short option with a value.
struct Refusal {
  std::string_view commands, from;  // as in Spelling
  std::string_view message, hint;
};
constexpr std::string_view kOneText = "llmc run continues one text";
constexpr std::string_view kNoEscapes = "escapes in a text are not processed";
constexpr std::string_view kNoTemplateNames = "llmc has no named templates";
constexpr Refusal kRefusals[] = {
    {" run ", " -cnv --conversation -i --interactive ", kOneText,
     "use llmc chat MODEL for conversations"},
    {" chat ", " -no-cnv --no-conversation ", "llmc chat holds conversations",
     "use llmc run MODEL -p TEXT to continue a text"},
    {" run ", " --jinja ", "llmc run continues a text without a chat template",
     "use --chat to answer the prompt with the model's template"},
    {" run ", " -st --single-turn ", kOneText, "remove the option"},
    {" chat ", " -st --single-turn ", "-p gives a single message", "use llmc chat MODEL -p TEXT"},
    {" run ", " -e --escape ", kNoEscapes, "use $'two\\nlines' in the shell, or give a file by -f"},
    {" chat ", " -e --escape ", kNoEscapes, "use $'two\\nlines' in the shell"},
    {" run ", " --chat-template ", kNoTemplateNames,
     "--chat uses the model's template; llmc chat has --chat-template-file FILE"},
    {" chat ", " --chat-template ", kNoTemplateNames,
     "give a Jinja template by --chat-template-file FILE"},
    {" run chat ", " --verbose-prompt ", "the prompt's tokens are not printed",
     "use llmc tokenize MODEL TEXT to print the ids of a text"},
    {"", " -b --batch-size -ub --ubatch-size ", "llmc has no logical and physical batch",
     "use --chunk N, the maximum of prompt tokens per call"},
    {"", " -ctk --cache-type-k -ctv --cache-type-v ", "keys and values have one option",
     "use --kv, such as --kv int8 or --kv K=int8,V=fp8"},
    {"", " -fa --flash-attn ", "fused attention is always on", "remove the option"},
    {"", " -tb ", "prompts and generation use the same number of threads", "use -t N for both"},
    {"", " -np ", "the number of sequences is set when a model is compiled",
     "compile with --sequences N --batch N"},
    {"", " -hf ", "llmc does not download models", "give a folder or an .onnx file"},
};

constexpr std::string_view kGpuLayers[] = {"-ngl", "--ngl", "--gpu-layers", "--n-gpu-layers"};
constexpr std::string_view kModelNames[] = {"-m", "--model"};
constexpr std::string_view kForms[] = {"text", "md", "csv", "json"};

/// Returns whether `list`, names with blanks around them, contains the name `word`.
bool lists(std::string_view list, std::string_view word) {
  return word.find(' ') == word.npos && list.find(fmt::format(" {} ", word)) != list.npos;
}

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
  return std::ranges::count(words, word) != 0;
}

/// The parts of "--name=value"; without "=", `value` is nullopt.
struct NameAndValue {
  std::string_view name;
  std::optional<std::string_view> value;
};
NameAndValue split_argument(std::string_view argument) {
  const std::size_t equals = argument.find('=');
  if (!argument.starts_with("--") || equals == argument.npos) return {argument, std::nullopt};
  return {argument.substr(0, equals), argument.substr(equals + 1)};
}

/// Translates the arguments from left to right.
class Speller {
 public:
  Speller(const std::vector<std::string>& arguments, const KindOfOption& kind_of)
      : arguments_(arguments), kind_of_(kind_of) {}

  Result<Spelled> run() {
    if (arguments_.empty()) return Spelled{};
    // Flags of llmc itself.
    const NameAndValue first = split_argument(command());
    if (first.value && (first.name == "--version" || first.name == "--help"))
      return takes_no_value(first.name);
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

  bool takes_value(const std::string& name) const { return kind_of_(name) == OptionKind::kValue; }

  /// Returns whether `argument` is or contains an option whose value is the next argument.
  bool needs_next(const std::string& argument) const {
    if (argument.starts_with("--")) return takes_value(argument);
    if (!argument.starts_with('-')) return false;
    // "-qp" is -q -p; in "-pq" the value of -p is "q".
    for (std::size_t i = 1; i < argument.size(); ++i)
      if (takes_value({'-', argument[i]})) return i + 1 == argument.size();
    return false;
  }
  bool is_option(const std::string& argument) const {
    return argument.starts_with('-') && kind_of_(argument) != OptionKind::kUnknown;
  }
  /// Fails for a flag with a value: "--json=5", "-q=1", "-qv=1". Configuration files have such
  /// values.
  Status check_flag(const std::string& argument) const {
    const std::size_t equals = argument.find('=');
    if (equals == std::string::npos) return ok_status();
    const std::string name = argument.substr(0, equals);
    if (kind_of_(name) == OptionKind::kFlag) return takes_no_value(name);
    if (!name.starts_with('-') || name.starts_with("--") || equals < 2) return ok_status();
    // In "-p=1" and "-qp=1" the value of -p follows.
    const auto is_flag = [&](char letter) { return kind_of_({'-', letter}) == OptionKind::kFlag; };
    if (!std::all_of(name.begin() + 1, name.end(), is_flag)) return ok_status();
    return takes_no_value(std::string{'-', name.back()});
  }
  static Diagnostic takes_no_value(std::string_view flag) {
    return usage_error(fmt::format("{} takes no value", flag),
                       fmt::format("write {}, or leave it out", flag));
  }

  /// Keeps an argument, and also the next one if that is its value.
  Status keep_with_value(std::string argument) {
    LLMC_RETURN_IF_ERROR(check_flag(argument));
    const NameAndValue option = split_argument(argument);
    if (option.value && option.value->empty() && takes_value(std::string(option.name))) {
      keep(std::string(option.name));  // CLI11 would take the next argument as the value
      keep({});
      return ok_status();
    }
    const bool takes_next = needs_next(argument) && at_ + 1 < arguments_.size();
    if (takes_next && argument != "--cflag" && is_option(arguments_[at_ + 1]))
      return usage_error(
          fmt::format("{} needs a value, but '{}' is an option", argument, arguments_[at_ + 1]),
          fmt::format("write {}{}{} if it is the value", argument,
                      argument.starts_with("--") ? "=" : "", arguments_[at_ + 1]));
    keep(std::move(argument));
    if (takes_next) keep(arguments_[++at_]);
    return ok_status();
  }

  /// Returns the value of the current option: the text after "=", or the next argument.
  Result<std::string> value_of(const NameAndValue& option) {
    if (option.value) return std::string(*option.value);
    if (at_ + 1 < arguments_.size()) return arguments_[++at_];
    return usage_error(fmt::format("{} needs a value", option.name), "");
  }

  /// Returns whether a row of a table applies to `argument` of the current command.
  template <class Row>
  bool is_for(const Row& row, std::string_view argument) const {
    return (row.commands.empty() || lists(row.commands, command())) && lists(row.from, argument);
  }

  Status add(const std::string& argument) {
    const NameAndValue option = split_argument(argument);
    for (const Refusal& refusal : kRefusals) {
      if (is_for(refusal, option.name))
        return usage_error(fmt::format("{}: {}", option.name, refusal.message),
                           std::string(refusal.hint));
    }
    if (is_one_of(option.name, kGpuLayers)) {
      LLMC_TRY(const std::string layers, value_of(option));
      if (layers == "0") return ok_status();
      return usage_error(fmt::format("{} must be 0, not '{}': the model's layers run on the CPU",
                                     option.name, printable(layers, 40)),
                         "remove the option; a model that is compiled with --accelerate opencl "
                         "computes the matrix products of prompts on a GPU");
    }
    // `verify` has an option of that name.
    if (is_one_of(option.name, kModelNames) && command() != "verify") {
      LLMC_TRY(std::string model, value_of(option));
      if (model.size() > 1 && model.starts_with('-')) {
        return usage_error(
            fmt::format("{} needs a model, but '{}' is an option", option.name,
                        printable(model, 40)),
            fmt::format("use {0} MODEL, or {0} ./NAME for a name that starts with '-'",
                        option.name));
      }
      // MODEL is the first positional argument.
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
            "use --header FILE: -o is the output format in bench and compare");
      }
      return ok_status();
    }
    for (const Spelling& spelling : kSpellings) {
      if (!is_for(spelling, option.name)) continue;
      const std::string to(spelling.to);
      const bool flag = to.empty() || kind_of_(to) == OptionKind::kFlag;
      // llama.cpp's --color has values such as "auto".
      if (flag && option.value && option.name != "--color") return takes_no_value(option.name);
      if (!spelling.note.empty()) result_.notes.emplace_back(spelling.note);
      if (to.empty()) return ok_status();
      return keep_with_value(to +
                             (option.value ? "=" + std::string(*option.value) : std::string()));
    }
    return keep_with_value(argument);
  }

  const std::vector<std::string>& arguments_;
  const KindOfOption& kind_of_;
  std::size_t at_ = 0;
  std::size_t models_ = 0;  // moved to the front
  Spelled result_;
};

}  // namespace

Result<Spelled> spell(const std::vector<std::string>& arguments, const KindOfOption& kind_of) {
  return Speller(arguments, kind_of).run();
}

std::vector<std::pair<std::string_view, std::string_view>> option_aliases(
    std::string_view command) {
  std::vector<std::pair<std::string_view, std::string_view>> aliases;
  for (const Spelling& spelling : kSpellings) {
    const bool applies = spelling.commands.empty() || lists(spelling.commands, command);
    if (!applies || spelling.to.empty()) continue;
    std::string_view names = spelling.from;
    for (std::size_t at = 0; (at = names.find("--")) != names.npos;) {
      names.remove_prefix(at);
      aliases.emplace_back(names.substr(0, names.find(' ')), spelling.to);
      names.remove_prefix(aliases.back().first.size());
    }
  }
  return aliases;
}

}  // namespace llmc::cli
