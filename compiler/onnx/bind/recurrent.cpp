#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "compiler/onnx/bind/bind.h"
#include "compiler/onnx/bind/decoder_inputs.h"
#include "compiler/onnx/bind/one_token.h"
#include "compiler/onnx/limits.h"
#include "compiler/onnx/operators.h"

namespace llmc::importer {
namespace {

/// Maximum number of elements of a sequence's state.
constexpr std::int64_t kMaxStateElements = std::int64_t{1} << 30;

/// Returns the name in lower case, without punctuation and without the words that distinguish the
/// old from the new value: "conv0" for "past_conv.0" and "present_conv.0".
std::string state_name(const std::string& name) {
  constexpr std::array<std::string_view, 13> kWords{"past",   "present",  "new",  "next", "old",
                                                    "prev",   "previous", "in",   "out",  "input",
                                                    "output", "updated",  "cache"};
  std::string result, word;
  const auto finish = [&] {
    if (std::ranges::find(kWords, word) == kWords.end()) result += word;
    word.clear();
  };
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else
      finish();
  }
  finish();
  return result;
}

/// Returns the inputs with a fixed size for each sequence and the output of the same name, in the
/// order of the file. Fails with kBadInput if two inputs or outputs have that name.
Result<std::vector<FoundState>> find_states(const Part& part) {
  std::map<std::string, std::vector<std::string>> outputs;
  for (const auto& output : part.file->model.graph().output())
    outputs[state_name(output.name())].push_back(output.name());
  std::vector<FoundState> found;
  std::map<std::string, std::string> inputs;
  const auto ambiguous = [&](const std::string& a, const std::string& b) {
    return part.bad("'" + a + "' and '" + b + "' have the name of one state",
                    "name a state's input and output past_NAME and present_NAME", a);
  };
  for (const auto* value : part.graph.inputs) {
    const std::string& name = value->name();
    if (!part.uses(name) || !require_float(part, name).ok()) continue;
    const auto sizes = declared_sizes(part, name);
    // A KV cache of fixed length is not a recurrent state.
    if (sizes.size() < 2 || name.find("key") != name.npos || name.find("value") != name.npos)
      continue;
    FoundState state{name, {}, {}};
    std::int64_t elements = 1;
    for (std::size_t i = 1; i < sizes.size(); ++i) {
      const std::int64_t size = sizes[i].value_or(0);
      elements = size > 0 && elements <= kMaxStateElements / size ? elements * size : 0;
      state.dims.push_back(size);
    }
    if (elements == 0) continue;
    const auto output = outputs.find(state_name(name));
    if (output == outputs.end()) continue;
    if (output->second.size() > 1) return ambiguous(output->second[0], output->second[1]);
    const auto [known, is_new] = inputs.emplace(output->first, name);
    if (!is_new) return ambiguous(known->second, name);
    state.output = output->second[0];
    found.push_back(std::move(state));
  }
  return found;
}

}  // namespace

Result<std::optional<ImportedModel>> bind_recurrent(FileSet& files, const Part& whole,
                                                    const FolderContents& siblings) {
  const std::optional<ImportedModel> none;
  Part part = whole;
  InputRoles roles = input_roles(part);
  if (!takes_one_token(part, roles)) return none;
  LLMC_TRY(const std::vector<FoundState> states, find_states(part));
  for (const FoundState& state : states) roles.erase(state.input);
  const bool hybrid = has_role(roles, InputRole::kPossibleCache);
  const std::string logits = find_logits_output(part, states);
  if (states.empty() || logits.empty()) return none;
  if (states.size() > static_cast<std::size_t>(kMaxLayers))
    return part.bad("has more than " + std::to_string(kMaxLayers) + " states");
  auto unsupported = unsupported_operators(*part.file, part.file->model.graph(), part.graph.nodes);
  if (!unsupported.empty()) return Error(std::move(unsupported));

  std::vector<std::string> wanted{logits};
  for (const FoundState& state : states) wanted.push_back(state.output);
  for (const auto& output : part.file->model.graph().output())
    if (hybrid && std::ranges::find(wanted, output.name()) == wanted.end())
      wanted.push_back(output.name());
  LLMC_TRY(part.graph, order_graph(*part.file, std::move(wanted)));
  if (hybrid) {
    LLMC_TRY(ImportedModel model,
             bind_token_caches(files, part, std::move(roles), states, siblings));
    return std::optional(std::move(model));
  }
  Decoder::Shape shape;
  for (const FoundState& state : states) shape.states.push_back(state.dims);
  shape.uses_positions = has_role(roles, InputRole::kPositions);
  Decoder decoder(files, shape);
  Bindings inputs;
  inputs.float_products = true;
  LLMC_RETURN_IF_ERROR(bind_columns(decoder.builder(), part, roles,
                                    {decoder.input_ids(), decoder.positions(), {}, {}}, inputs));
  for (std::size_t i = 0; i < states.size(); ++i)
    inputs.values[states[i].input] = decoder.states()[i];
  LLMC_TRY(const auto outputs, decoder.append(part, inputs, "model/"));
  LLMC_TRY(ImportedModel model,
           decoder.finish(siblings, part, outputs[0], {}, {outputs.begin() + 1, outputs.end()}));
  return std::optional(std::move(model));
}

}  // namespace llmc::importer
