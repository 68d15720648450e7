#include "passes/routing.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "compiler/reference/interpreter.h"

namespace llmc::passes {

namespace {

using ir::Dim;
using ir::ValueId;
using reference::Tensor;

constexpr int kMaxSampleDepth = 100;
constexpr std::int64_t kMaxSampleElements = std::int64_t{1} << 22;
constexpr std::int64_t kMaxExperts = 1024;

/// The first kNarrowSamples samples have random elements from -2 to 2. Later ones have elements
/// from -60 to 60, which exceed the limits of clamped factors.
constexpr unsigned kNarrowSamples = 3;
constexpr float kNarrow = 2, kWide = 60;

/// Evaluates values for sample ids of one TopK and given sizes of symbols.
class Sample {
 public:
  Sample(const Rewriter& rw, NodeIndex top, std::map<std::string, std::int64_t> sizes, Tensor ids,
         unsigned seed)
      : rw_(rw),
        top_(top),
        sizes_(std::move(sizes)),
        largest_(seed <= kNarrowSamples ? kNarrow : kWide),
        random_(seed) {
    values_[rw.node(top).outputs[1]] = std::move(ids);
  }

  /// Returns nullptr if a value is too large or cannot be evaluated.
  const Tensor* evaluate(ValueId value) {
    if (const auto known = values_.find(value); known != values_.end())
      return known->second ? &*known->second : nullptr;
    if (depth_ >= kMaxSampleDepth) return nullptr;
    ++depth_;
    std::optional<Tensor> result = compute(value);
    --depth_;
    auto& stored = values_[value] = std::move(result);
    return stored ? &*stored : nullptr;
  }
  const std::map<ValueId, std::optional<Tensor>>& values() const { return values_; }

 private:
  std::optional<Tensor> compute(ValueId value) {
    const ir::TensorType& type = rw_.type(value);
    std::vector<std::int64_t> dims;
    std::int64_t elements = 1;
    for (const Dim& dim : type.dims) {
      const auto size = dim.evaluate(sizes_);
      if (!size || *size < 0 || __builtin_mul_overflow(elements, *size, &elements))
        return std::nullopt;
      dims.push_back(*size);
    }
    if (elements > kMaxSampleElements) return std::nullopt;
    if (const ir::ConstantPtr constant = rw_.constant(value))
      return reference::to_tensor(*constant);
    if (const auto* known = rw_.shape_values().find(value);
        known && type.element == ir::ElementType::kI64) {
      Tensor result = reference::zeros(type.element, dims);
      for (std::size_t i = 0; i < known->size() && i < result.integers.size(); ++i) {
        const auto number = (*known)[i].evaluate(sizes_);
        if (!number) return std::nullopt;
        result.integers[i] = *number;
      }
      return result;
    }
    const ir::Node* node = rw_.producer(value);
    if (!node || !(depends(value) || is_static(value, 0))) return made_up(type.element, dims);
    if (mixes_rows(*node, type)) return std::nullopt;
    std::vector<const Tensor*> operands;
    for (const ValueId input : node->inputs) {
      operands.push_back(input.exists() ? evaluate(input) : nullptr);
      if (input.exists() && !operands.back()) return std::nullopt;
    }
    auto results = reference::evaluate_node(*node, operands);
    if (!results.ok()) return std::nullopt;
    return std::move((*results)[rw_.slot(value)]);
  }

  std::optional<Tensor> made_up(ir::ElementType element, const std::vector<std::int64_t>& dims) {
    Tensor result = reference::zeros(element, dims);
    if (!ir::is_float(element) || element == ir::ElementType::kF64) return std::nullopt;
    std::uniform_real_distribution<float> uniform(-largest_, largest_);
    for (float& x : result.floats) x = uniform(random_);
    reference::round_to_element(result);
    return result;
  }

  /// Returns whether an element of the result may depend on several rows, so that samples with few
  /// rows do not represent longer texts: a symbol of an operand is not one of the result.
  bool mixes_rows(const ir::Node& node, const ir::TensorType& result) const {
    if (std::holds_alternative<ir::CumSum>(node.op)) return true;
    const auto has = [&](const std::string& symbol) {
      return std::ranges::any_of(result.dims,
                                 [&](const Dim& dim) { return dim.terms().contains(symbol); });
    };
    return std::ranges::any_of(node.inputs, [&](ValueId input) {
      return input.exists() && std::ranges::any_of(rw_.type(input).dims, [&](const Dim& dim) {
               return std::ranges::any_of(dim.terms(),
                                          [&](const auto& term) { return !has(term.first); });
             });
    });
  }

  /// Returns whether a value is computed from the ids. Nodes before the TopK are not.
  bool depends(ValueId value) {
    const auto index = rw_.producer_index(value);
    if (!index || *index >= rw_.size() || *index <= top_) return false;
    if (const auto known = depends_.find(*index); known != depends_.end()) return known->second;
    if (depth_ >= kMaxSampleDepth) return false;
    ++depth_;
    const bool result = std::ranges::any_of(rw_.node(*index).inputs, [&](ValueId input) {
      return input.exists() && (input == rw_.node(top_).outputs[1] || depends(input));
    });
    --depth_;
    return depends_[*index] = result;
  }

  /// Returns whether a value is computed from constants and dims alone.
  bool is_static(ValueId value, int depth) {
    constexpr int kMaxStatic = 12;
    if (const auto known = static_.find(value); known != static_.end()) return known->second;
    const ir::Node* node = rw_.producer(value);
    bool result = false;
    if (node && depth <= kMaxStatic) {
      result = ir::is_any<ir::ConstantOp, ir::Shape>(node->op) ||
               std::ranges::all_of(node->inputs, [&](ValueId input) {
                 return !input.exists() || is_static(input, depth + 1);
               });
    }
    return static_[value] = result;
  }

  const Rewriter& rw_;
  NodeIndex top_;
  std::map<std::string, std::int64_t> sizes_;
  float largest_;
  std::mt19937 random_;
  std::map<ValueId, std::optional<Tensor>> values_;
  std::map<NodeIndex, bool> depends_;
  std::map<ValueId, bool> static_;
  int depth_ = 0;
};

/// Returns an expert's factor for each row; empty if it cannot be evaluated.
std::vector<float> elements_of(Sample& sample, const ExpertFactor& term, std::size_t rows) {
  const auto part_of = [&](const auto& elements) {
    std::vector<float> part;
    if (elements.size() == rows * term.parts) {
      const auto begin = elements.begin() + static_cast<std::ptrdiff_t>(rows * term.part);
      part.assign(begin, begin + static_cast<std::ptrdiff_t>(rows));
    }
    return part;
  };
  const Tensor* factor = sample.evaluate(term.factor);
  if (!factor) return {};
  std::vector<float> result = part_of(factor->floats);
  if (result.empty() || !term.condition.exists()) return result;
  const Tensor* condition = sample.evaluate(term.condition);
  const std::vector<float> holds = condition ? part_of(condition->integers) : std::vector<float>();
  if (holds.empty()) return {};
  for (std::size_t r = 0; r < rows; ++r)
    if (holds[r] == 0) result[r] = 0;
  return result;
}

/// The ids of a sample.
struct Ids {
  std::size_t chosen = 0;
  std::vector<std::int64_t> all;

  std::size_t rows() const { return all.size() / chosen; }
  /// Returns the position of an expert among those of a row; `chosen` if it is not one of them.
  std::size_t place(std::size_t row, std::int64_t expert) const {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(row * chosen);
    return static_cast<std::size_t>(
        std::find(begin, begin + static_cast<std::ptrdiff_t>(chosen), expert) - begin);
  }
};

/// Returns the only expert that all rows with a nonzero factor choose; nullopt if there is none or
/// there are several.
std::optional<std::int64_t> expert_of(const std::vector<float>& factors, const Ids& ids) {
  const auto is_used = [](float factor) { return factor != 0; };
  const auto first = std::ranges::find_if(factors, is_used);
  if (first == factors.end()) return std::nullopt;
  std::optional<std::int64_t> found;
  const auto row = static_cast<std::size_t>(first - factors.begin());
  for (std::size_t j = 0; j < ids.chosen; ++j) {
    const std::int64_t expert = ids.all[row * ids.chosen + j];
    bool all = true;
    for (std::size_t r = row; r < ids.rows() && all; ++r)
      all = !is_used(factors[r]) || ids.place(r, expert) < ids.chosen;
    if (!all) continue;
    if (found) return std::nullopt;
    found = expert;
  }
  return found;
}

}  // namespace

bool follows_from_choice(const Rewriter& rw, NodeIndex top, const ExpertFactor& term) {
  if (rw.node(top).outputs.size() < 2) return false;
  std::vector<ValueId> open{term.factor, term.condition};
  std::set<NodeIndex> seen;
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    if (!value.exists()) continue;
    if (value == rw.node(top).outputs[1]) return true;
    // Nodes before the TopK do not read it; emitted nodes are of other sums.
    const auto index = rw.producer_index(value);
    if (!index || *index <= top || *index >= rw.size() || !seen.insert(*index).second) continue;
    const std::vector<ValueId>& inputs = rw.node(*index).inputs;
    open.insert(open.end(), inputs.begin(), inputs.end());
  }
  return false;
}

std::optional<Routing> find_routing(const Rewriter& rw, NodeIndex top,
                                    const std::vector<ExpertFactor>& terms) {
  const ir::Node& node = rw.node(top);
  const auto* top_k = std::get_if<ir::TopK>(&node.op);
  if (!top_k) return std::nullopt;
  const ValueId ids = node.outputs[1];
  const std::vector<Dim>& dims = rw.type(ids).dims;
  const auto experts = last_dim(rw, node.inputs[0]), chosen = last_dim(rw, ids);
  if (!experts || !chosen || !is_last_axis(top_k->axis, dims.size()) || *chosen < 1 ||
      *chosen >= *experts || *experts > kMaxExperts || std::ssize(terms) != *experts)
    return std::nullopt;
  // At most one of the other dims may be a symbol. The samples have as many rows as there are
  // experts.
  std::map<std::string, std::int64_t> sizes;
  for (const Dim& dim : dims) {
    if (dim.is_constant()) continue;
    if (!sizes.empty() || dim.terms().size() != 1 || dim.constant_part() != 0) return std::nullopt;
    sizes[dim.terms().begin()->first] = *experts;
  }
  std::vector<std::int64_t> numbers;
  std::int64_t elements = 1;
  for (const Dim& dim : dims) {
    const auto size = dim.evaluate(sizes);
    if (!size || __builtin_mul_overflow(elements, *size, &elements)) return std::nullopt;
    numbers.push_back(*size);
  }
  if (elements != *experts * *chosen) return std::nullopt;

  Routing result{ids, ir::kNoValue, {}};
  std::vector<ValueId> candidates;
  // With few experts a sample has few elements, so more samples are needed.
  const unsigned samples = kNarrowSamples + (*experts < 16 ? 5 : 1);
  for (unsigned seed = 1; seed <= samples; ++seed) {
    Ids sample_ids{static_cast<std::size_t>(*chosen), {}};
    std::mt19937 random(seed);
    std::vector<std::int64_t> order(static_cast<std::size_t>(*experts));
    for (std::size_t e = 0; e < order.size(); ++e) order[e] = static_cast<std::int64_t>(e);
    for (std::int64_t row = 0; row < *experts; ++row) {
      // In the first sample, each row chooses consecutive experts, so that no two experts are
      // chosen by the same rows. In the others, rows choose at random.
      if (seed != 1) std::ranges::shuffle(order, random);
      for (std::int64_t j = 0; j < *chosen; ++j)
        sample_ids.all.push_back(seed == 1 ? (row + j) % *experts
                                           : order[static_cast<std::size_t>(j)]);
    }
    Sample sample(rw, top, sizes, reference::i64_tensor(numbers, sample_ids.all), seed);
    std::vector<std::vector<float>> factors;
    for (const ExpertFactor& term : terms) {
      factors.push_back(elements_of(sample, term, sample_ids.rows()));
      if (factors.back().empty()) return std::nullopt;
    }
    if (seed == 1) {
      for (const auto& term : factors) {
        const auto expert = expert_of(term, sample_ids);
        if (!expert || std::ranges::count(result.experts, *expert) != 0) return std::nullopt;
        result.experts.push_back(*expert);
      }
      for (const auto& [value, tensor] : sample.values())
        if (tensor && tensor->element == ir::ElementType::kF32 && tensor->dims == numbers &&
            rw.type(value).dims == dims)
          candidates.push_back(value);
    }
    for (std::size_t t = 0; t < terms.size(); ++t) {
      for (std::size_t r = 0; r < sample_ids.rows(); ++r) {
        const std::size_t place = sample_ids.place(r, result.experts[t]);
        if (place == sample_ids.chosen) {
          if (factors[t][r] != 0) return std::nullopt;
          continue;
        }
        std::erase_if(candidates, [&](ValueId candidate) {
          const Tensor* values = sample.evaluate(candidate);
          return !values || values->floats[r * sample_ids.chosen + place] != factors[t][r];
        });
      }
    }
  }
  if (candidates.empty()) return std::nullopt;
  // Take the last candidate. Earlier ones, such as those before a clamp, may be equal to it only
  // for the sampled elements.
  result.factors = *std::ranges::max_element(
      candidates, {}, [&](ValueId value) { return rw.producer_index(value).value_or(0); });
  return result;
}

}  // namespace llmc::passes
