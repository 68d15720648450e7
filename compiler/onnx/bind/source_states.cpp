#include "compiler/onnx/bind/source_states.h"

#include <charconv>
#include <map>
#include <optional>

#include "compiler/onnx/bind/decoder_inputs.h"
#include "compiler/onnx/limits.h"
#include "compiler/support/lower_case.h"

namespace llmc::importer {
namespace {

/// Layer number and kind, keys or values, that a name states.
struct LayerHalf {
  std::int64_t layer = 0;
  bool is_value = false;
};

std::optional<LayerHalf> parse(const std::string& declared_name) {
  std::string name = lower_case(declared_name);
  // A common prefix contains both words: past_key_values.0.encoder.key.
  if (const std::size_t at = name.find("key_value"); at != std::string::npos) name.erase(at, 9);
  const bool key = name.find("key") != std::string::npos;
  const bool value = name.find("value") != std::string::npos;
  const std::size_t digits = name.find_first_of("0123456789");
  if (key == value || digits == std::string::npos) return std::nullopt;
  LayerHalf found{0, value};
  const char* const end = name.data() + name.size();
  if (std::from_chars(name.data() + digits, end, found.layer).ec != std::errc())
    return std::nullopt;
  return found;
}

}  // namespace

Result<SourceNames> pair_source_names(const Part& part, const std::vector<std::string>& names) {
  std::map<std::int64_t, std::array<std::string, 2>> layers;
  std::size_t parsed = 0;
  for (const std::string& name : names) {
    const auto found = parse(name);
    if (!found) continue;
    ++parsed;
    std::string& slot = layers[found->layer][found->is_value ? 1 : 0];
    if (!slot.empty())
      return part.bad("layer " + std::to_string(found->layer) + " has several " +
                          (found->is_value ? "values" : "keys") + " of the source",
                      {}, name);
    slot = name;
  }
  SourceNames out;
  if (parsed > 0) {
    for (auto& [number, pair] : layers) {
      if (pair[0].empty() || pair[1].empty())
        return part.bad("layer " + std::to_string(number) + " has no " +
                            (pair[0].empty() ? "keys" : "values") + " of the source",
                        {}, pair[0].empty() ? pair[1] : pair[0]);
      out.numbers.push_back(number);
      out.layers.push_back(std::move(pair));
    }
    return out;
  }
  if (names.size() % 2 != 0)
    return part.bad("has " + std::to_string(names.size()) + " keys and values of a source", {},
                    names.back());
  for (std::size_t i = 0; i < names.size(); i += 2) out.layers.push_back({names[i], names[i + 1]});
  return out;
}

Result<SourceNames> source_state_inputs(const Part& part) {
  const InputRoles roles = input_roles(part);
  std::vector<std::string> names;
  for (const auto* value : part.graph.inputs)
    if (const auto role = roles.find(value->name());
        role != roles.end() && role->second == InputRole::kSourceState)
      names.push_back(value->name());
  return pair_source_names(part, names);
}

Result<SourceStates> source_states(const Part& part) {
  SourceStates found;
  LLMC_TRY(SourceNames names, source_state_inputs(part));
  found.layers = std::move(names.layers);
  for (const auto& layer : found.layers)
    for (const std::string& name : layer) {
      const auto sizes = declared_sizes(part, name);
      const std::int64_t heads = sizes[1].value_or(0), dim = sizes[3].value_or(0);
      if (found.heads == 0) {
        found.heads = heads;
        found.dim = dim;
      }
      if (heads < 1 || heads > kMaxHeads || dim < 1 || dim > kMaxHeadDim || heads != found.heads ||
          dim != found.dim)
        return part.unsupported("the state of the source is not [batch, heads, source, head_dim]",
                                "its heads and head_dim must be fixed and the same in all layers",
                                name);
    }
  return found;
}

}  // namespace llmc::importer
