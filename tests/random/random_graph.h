#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compiler/reference/tensor.h"
#include "tests/support_onnx/onnx_builder.h"

/// Small valid ONNX graphs made from a seed: operators, shapes, element types and attributes are
/// drawn so that the standard's constraints hold.
namespace llmc::testing {

/// Pseudo-random numbers, the same anywhere for a seed (splitmix64, Steele et al. 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  /// Uniform in [low, high].
  std::int64_t integer(std::int64_t low, std::int64_t high);
  bool chance(double p) { return static_cast<double>(next() >> 11) * 0x1p-53 < p; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(from.size()) - 1))];
  }

 private:
  std::uint64_t state_;
};

using Dims = std::vector<std::int64_t>;

/// What the generator knows of a value.
struct RandomValue {
  std::string name;
  int element = onnx::TensorProto::FLOAT;
  Dims dims;
  /// Every element is computed without rounding by any correct implementation: what jumps
  /// (comparisons, rounding, casts to integers, positions of maxima) reads only such values.
  bool exact = true;
  /// No element is larger in magnitude.
  double bound = 0;
  /// An exact value's elements are multiples of this power of two.
  double grain = 1;

  std::int64_t rank() const { return static_cast<std::int64_t>(dims.size()); }
  std::int64_t count() const;
};

/// A graph and inputs for it.
struct RandomModel {
  OnnxBuilder builder;
  std::vector<reference::Tensor> inputs;  // in the order of the graph's inputs
  std::vector<RandomValue> values;        // every value of the graph, inputs first
};

/// `nodes` draws of operators; each may need a few helper nodes.
RandomModel random_model(std::uint64_t seed, int nodes);

/// The generator's inside, which the operator families share.
class RandomGraph {
 public:
  RandomGraph(std::uint64_t seed, std::int64_t opset);

  Random random;
  OnnxBuilder builder;
  std::vector<RandomValue> values;
  std::vector<reference::Tensor> inputs;
  const std::int64_t opset;

  /// A value for which `fits`; nullopt when there is none. Values without elements only where the
  /// step can do with them.
  std::optional<RandomValue> find(const std::function<bool(const RandomValue&)>& fits,
                                  bool empty_too = false);
  /// A new graph input of small numbers (multiples of 1/4 for floats), or a constant of them.
  RandomValue fresh(int element, const Dims& dims, std::int64_t low = -8, std::int64_t high = 8);
  /// The same with given numbers: a constant.
  RandomValue constant(int element, const Dims& dims, const std::vector<double>& numbers);
  std::string integers(const std::vector<std::int64_t>& numbers);
  Dims small_dims(std::int64_t rank);

  /// Appends a node and notes its result.
  RandomValue node(const std::string& op, const std::vector<std::string>& inputs,
                   RandomValue result, const std::vector<Attribute>& attributes = {});
  /// Several results.
  std::vector<RandomValue> nodes(const std::string& op, const std::vector<std::string>& inputs,
                                 std::vector<RandomValue> results,
                                 const std::vector<Attribute>& attributes = {});
};

/// Draws one operator of a family on values that are there; false when nothing fitted.
using RandomStep = bool (*)(RandomGraph&);
std::vector<RandomStep> elementwise_steps();
std::vector<RandomStep> movement_steps();
std::vector<RandomStep> indexing_steps();
std::vector<RandomStep> reduction_steps();

bool is_float_type(int element);
bool is_integer_type(int element);

}  // namespace llmc::testing
