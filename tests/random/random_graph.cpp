#include "tests/random/random_graph.h"

#include <algorithm>
#include <cmath>

#include "compiler/onnx/tensor.h"
#include "compiler/support/check.h"

namespace llmc::testing {

using onnx::TensorProto;

std::uint64_t Random::next() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::int64_t Random::integer(std::int64_t low, std::int64_t high) {
  LLMC_CHECK(low <= high);
  return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
}

std::int64_t RandomValue::count() const {
  std::int64_t n = 1;
  for (const std::int64_t d : dims) n *= d;
  return n;
}

bool is_float_type(int element) {
  return element == TensorProto::FLOAT || element == TensorProto::DOUBLE;
}

bool is_integer_type(int element) {
  return element != TensorProto::BOOL && !is_float_type(element);
}

namespace {

std::string raw_bytes(int element, const std::vector<double>& numbers) {
  std::string bytes;
  const auto put = [&](auto value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  for (const double x : numbers) switch (element) {
      case TensorProto::FLOAT:
        put(static_cast<float>(x));
        break;
      case TensorProto::DOUBLE:
        put(x);
        break;
      case TensorProto::INT8:
        put(static_cast<std::int8_t>(x));
        break;
      case TensorProto::UINT8:
      case TensorProto::BOOL:
        put(static_cast<std::uint8_t>(x));
        break;
      case TensorProto::INT16:
        put(static_cast<std::int16_t>(x));
        break;
      case TensorProto::UINT16:
        put(static_cast<std::uint16_t>(x));
        break;
      case TensorProto::INT32:
        put(static_cast<std::int32_t>(x));
        break;
      case TensorProto::UINT32:
        put(static_cast<std::uint32_t>(x));
        break;
      case TensorProto::INT64:
        put(static_cast<std::int64_t>(x));
        break;
      case TensorProto::UINT64:
        put(static_cast<std::uint64_t>(x));
        break;
      default:
        LLMC_CHECK(false);
    }
  return bytes;
}

std::vector<DeclaredDim> declared(const Dims& dims) {
  return {dims.begin(), dims.end()};
}

bool is_unsigned(int element) {
  return element == TensorProto::UINT8 || element == TensorProto::UINT16 ||
         element == TensorProto::UINT32 || element == TensorProto::UINT64;
}

}  // namespace

RandomGraph::RandomGraph(std::uint64_t seed, std::int64_t operator_set)
    : random(seed), builder(operator_set), opset(operator_set) {}

std::optional<RandomValue> RandomGraph::find(const std::function<bool(const RandomValue&)>& fits,
                                             bool empty_too) {
  std::vector<RandomValue> found;
  std::ranges::copy_if(values, std::back_inserter(found), [&](const RandomValue& v) {
    return (empty_too || v.count() > 0) && fits(v);
  });
  if (found.empty()) return std::nullopt;
  // Late values more often, so that chains grow.
  const auto n = static_cast<std::int64_t>(found.size());
  return found[static_cast<std::size_t>(
      std::max(random.integer(0, n - 1), random.integer(0, n - 1)))];
}

Dims RandomGraph::small_dims(std::int64_t rank) {
  Dims dims;
  for (std::int64_t i = 0; i < rank; ++i)
    dims.push_back(random.chance(0.15) ? 1 : random.integer(2, rank > 2 ? 5 : 9));
  return dims;
}

RandomValue RandomGraph::constant(int element, const Dims& dims,
                                  const std::vector<double>& numbers) {
  RandomValue value{"c" + std::to_string(builder.graph().initializer_size()),
                    element,
                    dims,
                    true,
                    0,
                    is_float_type(element) ? 0.25 : 1};
  for (const double x : numbers) value.bound = std::max(value.bound, std::abs(x));
  auto& out = *builder.graph().add_initializer();
  out.set_name(value.name);
  out.set_data_type(element);
  for (const std::int64_t d : dims) out.add_dims(d);
  out.set_raw_data(raw_bytes(element, numbers));
  return value;
}

std::string RandomGraph::integers(const std::vector<std::int64_t>& numbers) {
  return builder.integers(numbers);  // exactly: INT64_MAX has no double
}

RandomValue RandomGraph::fresh(int element, const Dims& dims, std::int64_t low, std::int64_t high) {
  RandomValue value{{}, element, dims, true, 0, is_float_type(element) ? 0.25 : 1};
  const double step = is_float_type(element) ? 0.25 : 1;
  if (element == TensorProto::BOOL) low = 0, high = 1;
  if (is_unsigned(element)) low = std::max<std::int64_t>(low, 0), high = std::max(low, high);
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < value.count(); ++i)
    numbers.push_back(static_cast<double>(random.integer(low, high)) * step);
  if (random.chance(0.3)) {
    values.push_back(constant(element, dims, numbers));
    return values.back();
  }
  value.name = "x" + std::to_string(inputs.size());
  for (const double x : numbers) value.bound = std::max(value.bound, std::abs(x));
  builder.input(value.name, element, declared(dims));
  const auto type = importer::element_type(element);
  LLMC_CHECK(type.has_value());
  const std::string raw = raw_bytes(element, numbers);
  inputs.push_back(reference::to_tensor(
      *ir::make_constant(*type, dims,
                         {reinterpret_cast<const std::byte*>(raw.data()),
                          reinterpret_cast<const std::byte*>(raw.data()) + raw.size()})));
  values.push_back(value);
  return value;
}

RandomValue RandomGraph::node(const std::string& op, const std::vector<std::string>& operands,
                              RandomValue result, const std::vector<Attribute>& attributes) {
  return nodes(op, operands, {std::move(result)}, attributes).front();
}

std::vector<RandomValue> RandomGraph::nodes(const std::string& op,
                                            const std::vector<std::string>& operands,
                                            std::vector<RandomValue> results,
                                            const std::vector<Attribute>& attributes) {
  std::vector<std::string> names;
  for (RandomValue& result : results) {
    result.name = "t" + std::to_string(values.size());
    names.push_back(result.name);
    values.push_back(result);
  }
  builder.raw_node(op, operands, names, attributes);
  return results;
}

RandomModel random_model(std::uint64_t seed, int nodes) {
  Random choice(seed ^ 0x5851f42d4c957f2d);
  RandomGraph g(seed, choice.pick<std::int64_t>({13, 14, 17, 18, 20, 21, 23}));
  const auto families = {elementwise_steps(), elementwise_steps(), movement_steps(),
                         indexing_steps(), reduction_steps()};
  const std::vector<std::vector<RandomStep>> steps(families);
  const std::vector<int> types{TensorProto::FLOAT,  TensorProto::FLOAT,  TensorProto::FLOAT,
                               TensorProto::DOUBLE, TensorProto::INT32,  TensorProto::INT64,
                               TensorProto::UINT8,  TensorProto::INT8,   TensorProto::BOOL,
                               TensorProto::INT16,  TensorProto::UINT16, TensorProto::UINT32,
                               TensorProto::UINT64};
  g.fresh(TensorProto::FLOAT, g.small_dims(g.random.integer(1, 4)));
  g.fresh(g.random.pick(types), g.small_dims(g.random.integer(0, 3)));
  int made = 0;
  for (int tries = 0; made < nodes && tries < nodes * 20; ++tries) {
    if (g.random.chance(0.08)) {
      Dims dims = g.small_dims(g.random.integer(0, 4));
      if (!dims.empty() && g.random.chance(0.15))
        dims[static_cast<std::size_t>(
            g.random.integer(0, static_cast<std::int64_t>(dims.size()) - 1))] = 0;
      g.fresh(g.random.pick(types), dims);
    }
    if (g.random.pick(g.random.pick(steps))(g)) ++made;
  }
  // What nothing reads is an output, and now and then something that is read.
  std::vector<std::string> used;
  for (const auto& node : g.builder.graph().node())
    for (const auto& name : node.input()) used.push_back(name);
  std::vector<std::string> made_here;
  for (const auto& node : g.builder.graph().node())
    for (const auto& name : node.output()) made_here.push_back(name);
  for (const RandomValue& value : g.values) {
    if (std::ranges::find(made_here, value.name) == made_here.end()) continue;
    if (std::ranges::find(used, value.name) == used.end() || g.random.chance(0.1))
      g.builder.output(value.name, value.element, declared(value.dims));
  }
  return {std::move(g.builder), std::move(g.inputs), std::move(g.values)};
}

}  // namespace llmc::testing
