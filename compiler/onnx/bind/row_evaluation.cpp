#include "compiler/onnx/bind/row_evaluation.h"

#include <algorithm>
#include <map>
#include <string>

#include "compiler/reference/interpreter.h"
#include "compiler/support/checked_math.h"

namespace llmc::importer {

using ir::ValueId;
using reference::Tensor;

/// In each evaluation, all rows are at the same position.
class RowEvaluation {
 public:
  RowEvaluation(const ir::Graph& graph, const ir::UseDef& uses, const KnownInputs& inputs,
                const RowSizes& sizes, std::uint64_t memory_bytes)
      : graph_(graph),
        uses_(uses),
        sizes_{{"seq", sizes.rows}, {"past", sizes.past}, {"source", sizes.source}},
        free_bytes_(memory_bytes) {
    fill(inputs.positions, sizes.past);
    fill(inputs.ones, 1);
    fill(inputs.source_ones, 1);
  }

  /// Returns nullptr if the value depends on other inputs, needs more memory than is free, or
  /// cannot be evaluated.
  const Tensor* find(ValueId wanted) {
    std::vector<ValueId> pending{wanted};  // graphs are too deep for recursion
    while (!pending.empty()) {
      const ValueId value = pending.back();
      if (!values_.contains(value) && push_operands(value, pending)) continue;
      pending.pop_back();
      if (!values_.contains(value)) values_.emplace(value, compute(value));
    }
    return known(wanted);
  }

 private:
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

  /// Returns the result of an earlier evaluation; nullptr if there is none.
  const Tensor* known(ValueId value) const {
    const auto at = values_.find(value);
    return at != values_.end() && at->second ? &*at->second : nullptr;
  }

  /// Appends the operands to be evaluated before `value`. Returns whether there is one.
  bool push_operands(ValueId value, std::vector<ValueId>& pending) const {
    const ir::Node* node = uses_.producer(value);
    if (node == nullptr || std::holds_alternative<ir::Shape>(node->op)) return false;
    const std::size_t before = pending.size();
    for (const ValueId input : node->inputs) {
      if (!input.exists() || is_constant(input)) continue;
      if (!values_.contains(input)) {
        pending.push_back(input);
      } else if (known(input) == nullptr) {
        pending.resize(before);
        return false;
      }
    }
    return pending.size() > before;
  }

  bool is_constant(ValueId value) const {
    return ir::op_as<ir::ConstantOp>(uses_.producer(value)) != nullptr;
  }

  std::optional<Tensor> compute(ValueId value) {
    const ir::Node* node = uses_.producer(value);
    if (node == nullptr) return std::nullopt;
    if (const auto* shape = std::get_if<ir::Shape>(&node->op)) return sizes(*shape, *node);
    for (const ValueId input : node->inputs)
      if (input.exists() && !is_constant(input) && known(input) == nullptr) return std::nullopt;
    std::vector<const Tensor*> operands;
    for (const ValueId input : node->inputs) {
      if (input.exists() && !values_.contains(input)) values_.emplace(input, compute(input));
      operands.push_back(input.exists() ? known(input) : nullptr);
      if (input.exists() && operands.back() == nullptr) return std::nullopt;
    }
    auto results = reference::evaluate_node(*node, operands, {.memory_limit_bytes = free_bytes_});
    if (!results.ok()) return std::nullopt;
    const auto slot = std::ranges::find(node->outputs, value) - node->outputs.begin();
    Tensor& result = (*results)[static_cast<std::size_t>(slot)];
    free_bytes_ -= std::min(free_bytes_, result.bytes());
    return std::move(result);
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
  std::uint64_t free_bytes_;
  std::map<ValueId, std::optional<Tensor>> values_;
};

namespace {

constexpr std::uint64_t kTermBytes = std::uint64_t{1} << 30;      // memory for a term of the scores
constexpr std::uint64_t kIntegersBytes = std::uint64_t{1} << 25;  // for integers(), per choice
/// Numbers of past tokens for which terms are evaluated. The last exceeds the windows of known
/// models.
constexpr std::int64_t kPasts[] = {1, 2, 7, 40, 700, 5000, 20'000, 140'000, 1'100'000};
constexpr std::int64_t kMaxTermElements = std::int64_t{1} << 22;  // longer terms are not evaluated

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

std::optional<std::int64_t> RowIntegers::Element::at(const RowSizes& sizes) const {
  std::optional<std::int64_t> sum = start;
  for (const auto& [factor, count] :
       {std::pair(rows, sizes.rows), {past, sizes.past}, {source, sizes.source}}) {
    const auto term = checked_mul(factor, count);
    sum = sum && term ? checked_add(*sum, *term) : std::nullopt;
  }
  return sum;
}

bool RowIntegers::is_position() const {
  return elements.size() == 1 && elements[0].past == 1 && elements[0].rows == 0 &&
         elements[0].source == 0;
}

RowAnalysis::RowAnalysis(const ir::Graph& graph, const KnownInputs& inputs)
    : graph_(graph), uses_(graph), inputs_(inputs) {}

RowAnalysis::~RowAnalysis() = default;

std::optional<DistanceBias> RowAnalysis::distance_bias(ValueId term) const {
  const ir::TensorType& type = graph_.value(term).type;
  DistanceBias bias;
  if (type.rank() >= 3) bias.heads = type.dims[type.rank() - 3].constant().value_or(1);
  if (bias.heads < 1 || bias.heads > kMaxTermElements / kPasts[0]) return std::nullopt;
  std::vector<float> all;  // f32[largest + 1][heads]
  for (auto past = std::rbegin(kPasts); past != std::rend(kPasts); ++past) {
    if (bias.heads > kMaxTermElements / *past) continue;
    RowEvaluation evaluation(graph_, uses_, inputs_, {.past = *past}, kTermBytes);
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
  // The bias is constant from distance `distances` - 1 on. Require that for at least half of the
  // evaluated distances.
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
    RowEvaluation evaluation(graph_, uses_, inputs_, {.past = source % 5, .source = source},
                             kTermBytes);
    const Tensor* const found = evaluation.find(term);
    if (found == nullptr || found->element != ir::ElementType::kF32 ||
        !std::ranges::all_of(found->floats, [](float x) { return x == 0; }))
      return false;
  }
  return true;
}

std::optional<RowIntegers> RowAnalysis::integers(ValueId value) {
  constexpr std::size_t kMaxIntegers = 8;
  // The base is followed by choices with one more row, one more past token and one more row of the
  // source.
  constexpr std::array<RowSizes, kChoices> kSizes{{{1, 3, 2},
                                                   {2, 3, 2},
                                                   {1, 4, 2},
                                                   {1, 3, 3},
                                                   {1, 1, 1},
                                                   {5, 3, 7},
                                                   {1, 700, 300},
                                                   {3, 90, 40}}};
  constexpr RowSizes kBase = kSizes[0];
  if (!ir::is_integer(graph_.value(value).type.element)) return std::nullopt;
  const auto evaluate = [&](std::size_t choice) {
    auto& evaluation = evaluations_[choice];
    if (!evaluation)
      evaluation =
          std::make_unique<RowEvaluation>(graph_, uses_, inputs_, kSizes[choice], kIntegersBytes);
    return evaluation->find(value);
  };
  const Tensor* const base = evaluate(0);
  if (!base || base->integers.empty() || base->integers.size() > kMaxIntegers) return std::nullopt;
  RowIntegers found{.rank = base->rank(), .elements = {}};
  std::vector<std::vector<std::int64_t>> results{base->integers};  // of each choice
  for (std::size_t choice = 1; choice < kChoices; ++choice) {
    const Tensor* const other = evaluate(choice);
    if (!other || other->rank() != base->rank()) return std::nullopt;
    std::vector<std::int64_t> integers = other->integers;
    // A column has an element for each row.
    const std::int64_t rows = kSizes[choice].rows;
    const bool column = base->integers.size() == 1 && base->rank() >= 2 && other->dims[0] == rows &&
                        other->count() == rows && std::ranges::count(integers, integers[0]) == rows;
    if (column) integers.resize(1);
    if (integers.size() != base->integers.size()) return std::nullopt;
    results.push_back(std::move(integers));
  }
  for (std::size_t i = 0; i < base->integers.size(); ++i) {
    const auto growth = [&](std::size_t choice) {
      return checked_sub(results[choice][i], results[0][i]);
    };
    const auto rows = growth(1), past = growth(2), source = growth(3);
    if (!rows || !past || !source) return std::nullopt;
    RowIntegers::Element element{0, *rows, *past, *source};
    const auto grown = element.at(kBase);
    const auto start = grown ? checked_sub(results[0][i], *grown) : std::nullopt;
    if (!start) return std::nullopt;
    element.start = *start;
    for (std::size_t choice = 0; choice < kChoices; ++choice)
      if (element.at(kSizes[choice]) != results[choice][i]) return std::nullopt;
    found.elements.push_back(element);
  }
  return found.rank <= 1 || found.is_position() ? std::optional(found) : std::nullopt;
}

}  // namespace llmc::importer
