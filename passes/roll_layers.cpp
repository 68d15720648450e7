#include <algorithm>
#include <map>
#include <tuple>

#include "passes/match.h"
#include "passes/op_key.h"
#include "passes/transforms.h"

namespace llmc::passes {

namespace {

using ir::ValueId;

/// `count` repetitions of `period` nodes each, from position `start` of the walk on.
struct Run {
  std::size_t start = 0, period = 0, count = 0;
  std::size_t covered() const { return period * count; }
};

/// Result `slot` of node `node` of the body.
struct BodyResult {
  std::size_t node = 0, slot = 0;
  friend auto operator<=>(const BodyResult&, const BodyResult&) = default;
};

/// Source of a body's operand.
struct Operand {
  enum class Kind : std::uint8_t {
    kAbsent,
    kInternal,
    kCarried,
    kEach,
    kInvariant,
    kConstant,
    kParameter
  };
  Kind kind = Kind::kAbsent;
  BodyResult result;      // kInternal
  std::size_t index = 0;  // index in the list of this kind in Body
};

struct Carried {
  BodyResult result;
  ValueId first;  // value that the first iteration reads
  friend bool operator==(const Carried&, const Carried&) = default;
};

struct Body {
  std::vector<std::vector<Operand>> operands;  // [node][operand]
  std::vector<Carried> carried;
  std::vector<std::vector<ValueId>> each;  // [input][iteration]
  std::vector<ValueId> invariants;
  std::vector<ir::ConstantPtr> constants;
  std::vector<std::vector<ValueId>> parameters;  // [parameter][iteration]
  std::vector<BodyResult> results;               // read after the loop: one value per iteration
};

/// Returns the index of `item` in `list`, to which it is appended if it is missing.
template <class T>
std::size_t index_in(std::vector<T>& list, const T& item) {
  const auto it = std::ranges::find(list, item);
  const auto index = static_cast<std::size_t>(it - list.begin());
  if (it == list.end()) list.push_back(item);
  return index;
}

class Roller {
 public:
  explicit Roller(const Rewriter& rw) : rw_(rw), position_(rw.size(), kNowhere) { walk(); }

  /// Returns the longest run that can be rolled, with its body.
  std::optional<std::pair<Run, Body>> find() const {
    for (const Run& run : candidates())
      if (auto body = match(run)) return std::pair(run, std::move(*body));
    return std::nullopt;
  }
  const ir::Node& node(std::size_t at) const { return rw_.node(order_[at]); }
  NodeIndex index(std::size_t at) const { return order_[at]; }

 private:
  static constexpr std::size_t kNowhere = SIZE_MAX;

  void walk();
  std::vector<std::size_t> signatures() const;
  std::vector<Run> candidates() const;
  std::optional<Body> match(const Run& run) const;
  bool match_operand(const Run& run, Body& body, std::size_t node, std::size_t operand) const;
  static bool is_chain(const Run& run, const Body& body);
  bool has_own_caches(const Run& run, const Body& body) const;
  void find_results(const Run& run, Body& body) const;

  /// Returns the position of the producer of `value` in the walk; kNowhere for inputs and
  /// constants.
  std::size_t producer_at(ValueId value) const {
    const auto index = rw_.producer_index(value);
    return index ? position_[*index] : kNowhere;
  }
  bool inside(const Run& run, std::size_t at) const {
    return at != kNowhere && at >= run.start && at < run.start + run.covered();
  }
  bool before(const Run& run, ValueId value) const {
    const std::size_t at = producer_at(value);
    return at == kNowhere || at < run.start;
  }

  const Rewriter& rw_;
  std::vector<NodeIndex> order_;       // nodes in walk order, without constants
  std::vector<std::size_t> position_;  // in order_, by node
};

/// Orders the nodes depth first from the outputs: operands before users, one layer after the other.
void Roller::walk() {
  std::vector<std::pair<NodeIndex, std::size_t>> stack;
  std::vector<bool> seen(rw_.size(), false);
  const auto enter = [&](ValueId value) {
    const auto index = rw_.producer_index(value);
    if (!index || seen[*index]) return;
    seen[*index] = true;
    stack.emplace_back(*index, 0);
  };
  for (ValueId output : rw_.graph().outputs()) {
    enter(output);
    while (!stack.empty()) {
      auto& [index, next] = stack.back();
      const ir::Node& n = rw_.node(index);
      if (next < n.inputs.size()) {
        enter(n.inputs[next++]);
        continue;
      }
      if (!std::holds_alternative<ir::ConstantOp>(n.op)) {
        position_[index] = order_.size();
        order_.push_back(index);
      }
      stack.pop_back();
    }
  }
}

std::vector<std::size_t> Roller::signatures() const {
  std::map<std::string, std::size_t> known;
  std::vector<std::size_t> result;
  for (std::size_t at = 0; at < order_.size(); ++at) {
    const ir::Node& n = node(at);
    std::string text = op_key(n.op).value_or("#" + std::to_string(at));
    for (ValueId input : n.inputs) {
      text += !input.exists() ? "|_" : rw_.constant(input) ? "|c" : "|v";
      if (input.exists()) text += ir::to_string(rw_.type(input));
    }
    for (ValueId output : n.outputs) text += ">" + ir::to_string(rw_.type(output));
    result.push_back(known.emplace(std::move(text), known.size()).first->second);
  }
  return result;
}

std::vector<Run> Roller::candidates() const {
  const std::vector<std::size_t> ids = signatures();
  const std::size_t n = ids.size();
  std::vector<Run> runs;
  constexpr std::size_t kMaxPeriod = 4096, kMaxShift = 64, kMaxRuns = 256;
  for (std::size_t period = 1; period <= std::min(n / 2, kMaxPeriod); ++period) {
    for (std::size_t begin = 0; begin + period < n;) {
      std::size_t equal = 0;
      while (begin + equal + period < n && ids[begin + equal] == ids[begin + equal + period])
        ++equal;
      const std::size_t length = equal + period;
      if (equal >= period)
        for (std::size_t shift = 0; shift <= std::min(length % period, kMaxShift); ++shift)
          runs.push_back({begin + shift, period, length / period});
      begin += equal + 1;
    }
  }
  std::ranges::sort(runs, [](const Run& a, const Run& b) {
    return std::tuple(b.covered(), a.period, a.start) < std::tuple(a.covered(), b.period, b.start);
  });
  if (runs.size() > kMaxRuns) runs.resize(kMaxRuns);
  return runs;
}

bool Roller::match_operand(const Run& run, Body& body, std::size_t j, std::size_t operand) const {
  std::vector<ValueId> values;
  for (std::size_t i = 0; i < run.count; ++i)
    values.push_back(node(run.start + i * run.period + j).inputs.at(operand));
  Operand found;
  const auto add = [&](Operand::Kind kind, std::size_t index) {
    found.kind = kind;
    found.index = index;
    body.operands[j].push_back(found);
    return true;
  };
  if (!values[0].exists()) return add(Operand::Kind::kAbsent, 0);
  if (const ir::ConstantPtr first = rw_.constant(values[0])) {
    const bool same = std::ranges::all_of(
        values, [&](ValueId v) { return same_data(first, rw_.constant(v), std::size_t{1} << 16); });
    return same ? add(Operand::Kind::kConstant, index_in(body.constants, first))
                : add(Operand::Kind::kParameter, index_in(body.parameters, values));
  }
  // Distance of the producer from the start of its user's iteration.
  const auto offset = [&](std::size_t i) {
    return static_cast<std::int64_t>(producer_at(values[i])) -
           static_cast<std::int64_t>(run.start + i * run.period);
  };
  const auto same_place = [&](std::size_t from) {
    for (std::size_t i = from; i < run.count; ++i)
      if (producer_at(values[i]) == kNowhere || offset(i) != offset(from) ||
          rw_.slot(values[i]) != rw_.slot(values[from]))
        return false;
    return true;
  };
  const auto period = static_cast<std::int64_t>(run.period);
  if (same_place(0) && offset(0) >= 0) {
    found.result = {static_cast<std::size_t>(offset(0)), rw_.slot(values[0])};
    return add(Operand::Kind::kInternal, 0);
  }
  if (before(run, values[0]) && same_place(1) && offset(1) < 0 && offset(1) >= -period) {
    const BodyResult result{static_cast<std::size_t>(offset(1) + period), rw_.slot(values[1])};
    if (rw_.type(values[0]) != rw_.type(values[1])) return false;
    return add(Operand::Kind::kCarried, index_in(body.carried, {result, values[0]}));
  }
  if (!std::ranges::all_of(values, [&](ValueId v) { return before(run, v); })) return false;
  const bool same = std::ranges::all_of(values, [&](ValueId v) { return v == values[0]; });
  return same ? add(Operand::Kind::kInvariant, index_in(body.invariants, values[0]))
              : add(Operand::Kind::kEach, index_in(body.each, values));
}

/// Finds the results of each iteration that have users outside the loop, except the last carried
/// values.
void Roller::find_results(const Run& run, Body& body) const {
  const auto leaves = [&](ValueId value) {
    return rw_.is_output(value) || std::ranges::any_of(rw_.users(value), [&](NodeIndex user) {
             return user < rw_.size() && rw_.alive(user) && !inside(run, position_[user]);
           });
  };
  for (std::size_t j = 0; j < run.period; ++j)
    for (std::size_t slot = 0; slot < node(run.start + j).outputs.size(); ++slot) {
      const bool carried = std::ranges::any_of(
          body.carried, [&](const Carried& c) { return c.result == BodyResult{j, slot}; });
      const std::size_t iterations = carried ? run.count - 1 : run.count;
      for (std::size_t i = 0; i < iterations; ++i)
        if (leaves(node(run.start + i * run.period + j).outputs[slot])) {
          body.results.push_back({j, slot});
          break;
        }
    }
}

/// Returns whether a carried value is computed from a carried value. Otherwise the repetitions are
/// independent of each other, like the projections of one row to keys and values.
bool Roller::is_chain(const Run& run, const Body& body) {
  std::vector<bool> follows(run.period, false);
  for (std::size_t j = 0; j < run.period; ++j)
    follows[j] = std::ranges::any_of(body.operands[j], [&](const Operand& operand) {
      return operand.kind == Operand::Kind::kCarried ||
             (operand.kind == Operand::Kind::kInternal && follows[operand.result.node]);
    });
  return std::ranges::any_of(body.carried,
                             [&](const Carried& c) { return follows[c.result.node]; });
}

/// Returns whether the body has no attention, or each iteration has its own caches and, besides
/// carried values, only the updated caches are read after the loop. Layers that attend to the keys
/// and values of an earlier layer are not rolled.
bool Roller::has_own_caches(const Run& run, const Body& body) const {
  const auto attention = [&](std::size_t j) {
    return std::holds_alternative<ir::Attention>(node(run.start + j).op);
  };
  bool has_caches = false;
  for (std::size_t j = 0; j < run.period; ++j) {
    constexpr std::size_t kPast = 3;
    if (attention(j) && body.operands[j][kPast].kind != Operand::Kind::kEach) return false;
    has_caches = has_caches || attention(j);
  }
  return !has_caches || std::ranges::all_of(body.results, [&](const BodyResult& result) {
    return result.slot == 1 && attention(result.node);
  });
}

std::optional<Body> Roller::match(const Run& run) const {
  bool worth_it = false;
  for (std::size_t j = 0; j < run.period; ++j) {
    const ir::Op& op = node(run.start + j).op;
    worth_it = worth_it || ir::is_any<ir::Linear, ir::ExpertLinear, ir::Attention>(op);
  }
  if (!worth_it) return std::nullopt;
  Body body;
  body.operands.resize(run.period);
  for (std::size_t j = 0; j < run.period; ++j)
    for (std::size_t o = 0; o < node(run.start + j).inputs.size(); ++o)
      if (!match_operand(run, body, j, o)) return std::nullopt;
  if (!is_chain(run, body)) return std::nullopt;
  find_results(run, body);
  return has_own_caches(run, body) ? std::optional(std::move(body)) : std::nullopt;
}

/// Returns "past" for "past.0"; names without such a number are unchanged.
std::string base_name(const std::string& name) {
  const std::size_t end = name.find_last_not_of("0123456789");
  return end != std::string::npos && end + 1 < name.size() && name[end] == '.' && end > 0
             ? name.substr(0, end)
             : name;
}

class BodyBuilder {
 public:
  BodyBuilder(const Rewriter& rw, const Roller& roller, const Run& run, const Body& body)
      : rw_(rw), roller_(roller), run_(run), body_(body) {}

  ir::Graph build() {
    for (std::size_t c = 0; c < body_.carried.size(); ++c)
      carried_.push_back(input(body_.carried[c].first, c == 0 ? "x" : "x" + std::to_string(c)));
    for (const auto& values : body_.each)
      each_.push_back(input(values[0], base_name(rw_.graph().value(values[0]).name)));
    for (ValueId value : body_.invariants)
      invariants_.push_back(input(value, rw_.graph().value(value).name));
    constants_.resize(body_.constants.size());
    parameters_.resize(body_.parameters.size());
    for (std::size_t j = 0; j < run_.period; ++j) add_node(j);
    for (const Carried& c : body_.carried) graph_.add_output(results_.at(c.result));
    for (const BodyResult& result : body_.results) graph_.add_output(results_.at(result));
    return std::move(graph_);
  }

 private:
  ValueId input(ValueId like, const std::string& name) {
    bool taken = false;
    for (const ir::Value& value : graph_.values()) taken = taken || value.name == name;
    return graph_.add_input({taken ? std::string() : name, rw_.type(like)});
  }

  /// Returns the body's value for an operand. `origin` is that of the operand's node in the first
  /// iteration.
  ValueId operand(const Operand& from, const ir::Origin& origin) {
    switch (from.kind) {
      case Operand::Kind::kAbsent:
        return ir::kNoValue;
      case Operand::Kind::kInternal:
        return results_.at(from.result);
      case Operand::Kind::kCarried:
        return carried_[from.index];
      case Operand::Kind::kEach:
        return each_[from.index];
      case Operand::Kind::kInvariant:
        return invariants_[from.index];
      case Operand::Kind::kConstant: {
        ValueId& value = constants_[from.index];
        if (!value.exists())
          value = graph_.append_constant(body_.constants[from.index], {}, origin);
        return value;
      }
      case Operand::Kind::kParameter: {
        ValueId& value = parameters_[from.index];
        if (!value.exists())
          value = graph_.append(ir::Parameter{static_cast<std::int64_t>(from.index)}, {},
                                rw_.type(body_.parameters[from.index][0]), origin);
        return value;
      }
    }
    LLMC_CHECK(false);
  }

  void add_node(std::size_t j) {
    const ir::Node& old = roller_.node(run_.start + j);
    ir::Node copy{old.op, {}, {}, old.origin};
    for (std::size_t o = 0; o < old.inputs.size(); ++o)
      copy.inputs.push_back(operand(body_.operands[j][o], rw_.origin(old.inputs[o])));
    for (std::size_t slot = 0; slot < old.outputs.size(); ++slot) {
      copy.outputs.push_back(graph_.add_value({{}, rw_.type(old.outputs[slot])}));
      results_[{j, slot}] = copy.outputs.back();
    }
    graph_.add_node(std::move(copy));
  }

  const Rewriter& rw_;
  const Roller& roller_;
  const Run& run_;
  const Body& body_;
  ir::Graph graph_;
  std::vector<ValueId> carried_, each_, invariants_, constants_, parameters_;
  std::map<BodyResult, ValueId> results_;
};

void roll(Rewriter& rw, const Roller& roller, const Run& run, const Body& body) {
  ir::Loop loop;
  loop.count = static_cast<std::int64_t>(run.count);
  loop.carried = std::ssize(body.carried);
  loop.per_iteration_inputs = std::ssize(body.each);
  loop.per_iteration_outputs = std::ssize(body.results);
  for (const auto& values : body.parameters) {
    auto& data = loop.parameters.emplace_back();
    auto& names = loop.parameter_names.emplace_back();
    for (ValueId value : values) {
      data.push_back(rw.constant(value));
      names.push_back(rw.graph().value(value).name);
    }
  }
  ir::Graph inner = BodyBuilder(rw, roller, run, body).build();
  inner.name = "layer";
  loop.body = std::make_shared<const ir::Graph>(std::move(inner));
  std::vector<ValueId> inputs;
  for (const Carried& c : body.carried) inputs.push_back(c.first);
  for (std::size_t i = 0; i < run.count; ++i)
    for (const auto& values : body.each) inputs.push_back(values[i]);
  inputs.insert(inputs.end(), body.invariants.begin(), body.invariants.end());
  const auto outputs = rw.emit_all(std::move(loop), std::move(inputs), roller.index(run.start));
  if (outputs.size() != body.carried.size() + run.count * body.results.size()) return;

  const auto old = [&](std::size_t i, const BodyResult& result) {
    return roller.node(run.start + i * run.period + result.node).outputs[result.slot];
  };
  for (std::size_t c = 0; c < body.carried.size(); ++c)
    rw.replace(old(run.count - 1, body.carried[c].result), outputs[c]);
  for (std::size_t i = 0; i < run.count; ++i)
    for (std::size_t r = 0; r < body.results.size(); ++r)
      rw.replace(old(i, body.results[r]),
                 outputs[body.carried.size() + i * body.results.size() + r]);
}

}  // namespace

Result<ir::Graph> roll_layers(ir::Graph graph, const PassContext&) {
  // Graphs with recurrent states are unchanged: a loop has no operands for these.
  if (graph.input(ir::InputKind::kRecurrent).exists()) return graph;
  // Maximum number of loops, one for each group of equal layers.
  constexpr int kMaxLoops = 8;
  for (int i = 0; i < kMaxLoops; ++i) {
    Rewriter rw(std::move(graph));
    const Roller roller(rw);
    const auto found = roller.find();
    if (found) roll(rw, roller, found->first, found->second);
    LLMC_TRY(graph, std::move(rw).finish());
    if (!found) break;
  }
  return graph;
}

}  // namespace llmc::passes
