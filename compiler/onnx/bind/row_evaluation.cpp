#include "compiler/onnx/bind/row_evaluation.h"

#include <algorithm>

#include "compiler/reference/interpreter.h"

namespace llmc::importer {
namespace {

using ir::ValueId;
using reference::Tensor;

struct Sizes {
  std::int64_t rows = 1, past = 0, source = 1;
};

/// Evaluates values of a graph. All rows are at the same position.
class RowEvaluation {
 public:
  RowEvaluation(const ir::Graph& graph, const ir::UseDef& uses, const KnownInputs& inputs,
                const Sizes& sizes)
      : graph_(graph),
        uses_(uses),
        sizes_{{"seq", sizes.rows}, {"past", sizes.past}, {"source", sizes.source}} {
    fill(inputs.positions, sizes.past);
    fill(inputs.ones, 1);
    fill(inputs.source_ones, 1);
  }

  /// Returns nullptr if the value depends on other inputs, is too large, or cannot be evaluated.
  const Tensor* find(ValueId value) {
    auto known = values_.find(value);
    if (known == values_.end()) {
      if (depth_ >= kMaxDepth) return nullptr;
      ++depth_;
      known = values_.emplace(value, compute(value)).first;
      --depth_;
    }
    return known->second ? &*known->second : nullptr;
  }

 private:
  static constexpr int kMaxDepth = 128;
  static constexpr std::uint64_t kMemory = std::uint64_t{1} << 28;  // of one node

  void fill(ValueId input, std::int64_t value) {
    if (!input.exists()) return;
    Tensor tensor = reference::zeros(ir::ElementType::kI64, dims_of(input));
    std::ranges::fill(tensor.integers, value);
    values_[input] = std::move(tensor);
  }

  /// Returns the dims of a value; -1 for those that are unknown.
  std::vector<std::int64_t> dims_of(ValueId value) const {
    std::vector<std::int64_t> dims;
    for (const ir::Dim& dim : graph_.value(value).type.dims)
      dims.push_back(dim.evaluate(sizes_).value_or(-1));
    return dims;
  }

  std::optional<Tensor> compute(ValueId value) {
    const ir::Node* node = uses_.producer(value);
    if (node == nullptr) return std::nullopt;
    if (const auto* shape = std::get_if<ir::Shape>(&node->op)) return sizes(*shape, *node);
    std::vector<const Tensor*> operands;
    for (const ValueId input : node->inputs) {
      operands.push_back(input.exists() ? find(input) : nullptr);
      if (input.exists() && operands.back() == nullptr) return std::nullopt;
    }
    auto results = reference::evaluate_node(*node, operands, {.memory_limit_bytes = kMemory});
    if (!results.ok()) return std::nullopt;
    const auto slot = std::ranges::find(node->outputs, value) - node->outputs.begin();
    return std::move((*results)[static_cast<std::size_t>(slot)]);
  }

  /// Evaluates a Shape from the type of its operand, which need not be known itself.
  std::optional<Tensor> sizes(const ir::Shape& op, const ir::Node& node) const {
    const std::vector<std::int64_t> dims = dims_of(node.inputs[0]);
    const auto rank = static_cast<std::int64_t>(dims.size());
    const std::int64_t begin =
        std::clamp<std::int64_t>(op.begin < 0 ? op.begin + rank : op.begin, 0, rank);
    const std::int64_t end = std::clamp<std::int64_t>(op.end < 0 ? op.end + rank : op.end, 0, rank);
    std::vector<std::int64_t> part;
    for (std::int64_t i = begin; i < end; ++i) part.push_back(dims[static_cast<std::size_t>(i)]);
    if (part.empty() || std::ranges::find(part, -1) != part.end()) return std::nullopt;
    const auto count = static_cast<std::int64_t>(part.size());
    return reference::i64_tensor({count}, std::move(part));
  }

  const ir::Graph& graph_;
  const ir::UseDef& uses_;
  const std::map<std::string, std::int64_t> sizes_;
  std::map<ValueId, std::optional<Tensor>> values_;
  int depth_ = 0;
};

/// Numbers of past tokens up to more than the windows of known models.
constexpr std::int64_t kPasts[] = {1, 2, 7, 40, 700, 5000, 20'000, 140'000, 1'100'000};
constexpr std::int64_t kMaxTermElements = std::int64_t{1} << 22;  // of a term that is evaluated

/// A term of the scores of one token at position count - 1.
class ScoreTerm {
 public:
  ScoreTerm(const Tensor& tensor, std::int64_t heads, std::int64_t count)
      : tensor_(tensor), heads_(heads), count_(count), dims_(tensor.dims) {
    dims_.insert(dims_.begin(), dims_.size() < 4 ? 4 - dims_.size() : 0, 1);
  }
  bool fits() const {
    return tensor_.element == ir::ElementType::kF32 && dims_.size() == 4 && dims_[0] == 1 &&
           dims_[2] == 1 && (dims_[1] == 1 || dims_[1] == heads_) &&
           (dims_[3] == 1 || dims_[3] == count_);
  }
  float at(std::int64_t head, std::int64_t distance) const {
    const std::int64_t key = dims_[3] == 1 ? 0 : count_ - 1 - distance;
    const std::int64_t row = dims_[1] == 1 ? 0 : head;
    return tensor_.floats[static_cast<std::size_t>(row * dims_[3] + key)];
  }

 private:
  const Tensor& tensor_;
  const std::int64_t heads_, count_;
  std::vector<std::int64_t> dims_;
};

}  // namespace

bool DistanceBias::is_zero() const {
  return std::ranges::all_of(values, [](float x) { return x == 0; });
}

bool RowIntegers::is_position() const {
  return elements.size() == 1 && elements[0].past == 1 && elements[0].rows == 0 &&
         elements[0].source == 0;
}

std::optional<DistanceBias> RowAnalysis::distance_bias(ValueId term) const {
  const ir::TensorType& type = graph_.value(term).type;
  DistanceBias bias;
  if (type.rank() >= 3) bias.heads = type.dims[type.rank() - 3].constant().value_or(1);
  std::vector<float> all;  // f32[largest + 1][heads]
  for (auto past = std::rbegin(kPasts); past != std::rend(kPasts); ++past) {
    if (*past * bias.heads > kMaxTermElements) continue;
    RowEvaluation evaluation(graph_, uses_, inputs_, {.past = *past});
    const Tensor* const found = evaluation.find(term);
    if (found == nullptr) return std::nullopt;
    const ScoreTerm row{*found, bias.heads, *past + 1};
    if (!row.fits()) return std::nullopt;
    for (std::int64_t distance = 0; distance <= *past; ++distance)
      for (std::int64_t h = 0; h < bias.heads; ++h) {
        const auto index = static_cast<std::size_t>(distance * bias.heads + h);
        if (index == all.size()) all.push_back(row.at(h, distance));
        if (!(all[index] == row.at(h, distance))) return std::nullopt;
      }
  }
  // The distances from which on nothing changes: at most half of those that were evaluated.
  const auto heads = static_cast<std::size_t>(bias.heads);
  const std::size_t count = all.size() / heads;
  std::size_t distances = count;
  const auto row = [&](std::size_t i) { return std::span(all).subspan(i * heads, heads); };
  while (distances > 1 && std::ranges::equal(row(distances - 2), row(count - 1))) --distances;
  if (2 * distances > count) return std::nullopt;
  bias.distances = static_cast<std::int64_t>(distances);
  bias.values.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(distances * heads));
  return bias;
}

bool RowAnalysis::is_zero_for_sources(ValueId term) const {
  for (const std::int64_t source : {1, 2, 7, 300, 5000}) {
    RowEvaluation evaluation(graph_, uses_, inputs_, {.past = source % 5, .source = source});
    const Tensor* const found = evaluation.find(term);
    if (found == nullptr || found->element != ir::ElementType::kF32 ||
        !std::ranges::all_of(found->floats, [](float x) { return x == 0; }))
      return false;
  }
  return true;
}

std::optional<RowIntegers> RowAnalysis::integers(ValueId value) const {
  constexpr std::size_t kMaxIntegers = 8;
  if (!ir::is_integer(graph_.value(value).type.element)) return std::nullopt;
  const auto evaluate = [&](const Sizes& sizes) -> std::optional<Tensor> {
    RowEvaluation evaluation(graph_, uses_, inputs_, sizes);
    const Tensor* const found = evaluation.find(value);
    return found == nullptr ? std::nullopt : std::optional(*found);
  };
  constexpr Sizes kBase{.rows = 1, .past = 3, .source = 2};
  const auto base = evaluate(kBase);
  if (!base || base->integers.empty() || base->integers.size() > kMaxIntegers) return std::nullopt;
  RowIntegers found{.rank = base->rank(), .elements = {}};
  // A column has an element for each row.
  const auto with = [&](const Sizes& sizes) -> std::optional<std::vector<std::int64_t>> {
    auto other = evaluate(sizes);
    if (!other || other->rank() != base->rank()) return std::nullopt;
    const bool column = base->integers.size() == 1 && base->rank() >= 2 &&
                        other->dims[0] == sizes.rows && other->count() == sizes.rows &&
                        std::ranges::count(other->integers, other->integers[0]) == sizes.rows;
    if (column) other->integers.resize(1);
    if (other->integers.size() != base->integers.size()) return std::nullopt;
    return std::move(other->integers);
  };
  const auto rows = with({.rows = 2, .past = 3, .source = 2});
  const auto past = with({.rows = 1, .past = 4, .source = 2});
  const auto source = with({.rows = 1, .past = 3, .source = 3});
  if (!rows || !past || !source) return std::nullopt;
  for (std::size_t i = 0; i < base->integers.size(); ++i) {
    RowIntegers::Element element;
    element.rows = (*rows)[i] - base->integers[i];
    element.past = (*past)[i] - base->integers[i];
    element.source = (*source)[i] - base->integers[i];
    element.start = base->integers[i] - kBase.rows * element.rows - kBase.past * element.past -
                    kBase.source * element.source;
    found.elements.push_back(element);
  }
  for (const Sizes& sizes :
       {Sizes{1, 1, 1}, Sizes{5, 3, 7}, Sizes{1, 700, 300}, Sizes{3, 90, 40}}) {
    const auto other = with(sizes);
    if (!other) return std::nullopt;
    for (std::size_t i = 0; i < found.elements.size(); ++i) {
      const RowIntegers::Element& e = found.elements[i];
      if ((*other)[i] !=
          e.start + e.rows * sizes.rows + e.past * sizes.past + e.source * sizes.source)
        return std::nullopt;
    }
  }
  return found.rank <= 1 || found.is_position() ? std::optional(found) : std::nullopt;
}

}  // namespace llmc::importer
