#include "tools/llmc-opt/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "compiler/ir/constant_data.h"
#include "compiler/ir/quote.h"
#include "compiler/reference/interpreter.h"

namespace llmc::opt {
namespace {

using Bindings = std::map<std::string, std::int64_t>;

/// Maximum size in bytes of a generated input, so that a typing error does not exhaust the memory.
constexpr std::int64_t kMaxElements = 1 << 28;

Diagnostic usage(std::string message) {
  return usage_error(std::move(message), "write --set seq=4");
}

Result<Bindings> parse_sizes(const std::vector<std::string>& sizes) {
  Bindings out;
  for (const auto& text : sizes) {
    const auto equals = text.rfind('=');
    std::int64_t value = -1;
    if (equals != std::string::npos) {
      const char* const end = text.data() + text.size();
      const auto parsed = std::from_chars(text.data() + equals + 1, end, value);
      if (parsed.ec != std::errc() || parsed.ptr != end) value = -1;
    }
    if (value < 0) return usage("'" + text + "' is no size");
    out[text.substr(0, equals)] = value;
  }
  return out;
}

Result<reference::Tensor> made_up(const ir::Value& value, const Bindings& sizes,
                                  std::uint64_t seed) {
  std::vector<std::int64_t> dims;
  for (const ir::Dim& dim : value.type.dims) {
    Bindings bound = sizes;
    for (const auto& [symbol, coefficient] : dim.terms()) bound.emplace(symbol, 1);
    const auto size = dim.evaluate(bound);
    if (!size || *size < 0) return usage("input '" + value.name + "' would have a negative size");
    dims.push_back(*size);
  }
  const auto bytes = ir::checked_byte_count(value.type.element, dims);
  if (!bytes || *bytes > static_cast<std::size_t>(kMaxElements))
    return usage("input '" + value.name + "' would be too large");
  auto tensor = reference::zeros(value.type.element, dims);
  if (tensor.is_float()) tensor.floats = ir::to_floats(*ir::make_random(dims, seed, 1.0));
  for (std::size_t i = 0; i < tensor.integers.size(); ++i)
    tensor.integers[i] = static_cast<std::int64_t>(i);
  reference::round_to_element(tensor);
  return tensor;
}

std::string summary(const reference::Tensor& tensor) {
  constexpr std::size_t kShown = 8;
  const auto count = static_cast<std::size_t>(tensor.count());
  std::string out = reference::type_text(tensor) + " {";
  for (std::size_t i = 0; i < std::min(count, kShown); ++i) {
    if (i > 0) out += ", ";
    out += tensor.is_float() ? fmt::format("{}", tensor.floats[i])
                             : std::to_string(tensor.integers[i]);
  }
  return out + (count > kShown ? ", …}" : "}");
}

}  // namespace

Result<std::string> evaluation_text(const ir::Graph& graph, const std::vector<std::string>& sizes,
                                    std::uint64_t seed) {
  LLMC_TRY(const auto bindings, parse_sizes(sizes));
  std::vector<reference::Tensor> inputs;
  for (const ir::ValueId id : graph.inputs()) {
    LLMC_TRY(auto tensor, made_up(graph.value(id), bindings, seed + inputs.size()));
    inputs.push_back(std::move(tensor));
  }
  LLMC_TRY(const auto outputs, reference::evaluate(graph, inputs));
  std::string text;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto& name = graph.value(graph.outputs()[i]).name;
    text += fmt::format("%{}: {}\n", name.empty() ? std::to_string(i) : ir::name_text(name),
                        summary(outputs[i]));
  }
  return text;
}

}  // namespace llmc::opt
