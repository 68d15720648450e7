#include <algorithm>
#include <map>

#include "compiler/plan/program.h"

/// Orders the stages of a forward pass with recurrent states.
namespace llmc::plan {
namespace {

/// Stages and their dependencies. A stage that reads a state before a token depends on the stages
/// that compute the state after the previous token. The resulting cycles are the recurrences.
class StageGraph {
 public:
  explicit StageGraph(const Program& program)
      : program_(program), stages_(program.forward), followers_(stages_.size()) {
    std::map<std::uint32_t, Users> users;  // by buffer
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const Access used = of(stages_[i]);
      for (const BufferId id : used.reads) {
        Users& of_buffer = users[id.index];
        if (!of_buffer.writers.empty()) follow(of_buffer.writers.back(), i);
        of_buffer.readers.push_back(i);
      }
      for (const BufferId id : used.writes) {
        Users& of_buffer = users[id.index];
        if (!of_buffer.writers.empty()) follow(of_buffer.writers.back(), i);
        for (; of_buffer.overwritten < of_buffer.readers.size(); ++of_buffer.overwritten)
          follow(of_buffer.readers[of_buffer.overwritten], i);
        of_buffer.writers.push_back(i);
      }
    }
    for (const RecurrentState& state : program.states)
      for (const std::size_t i : users[state.next.index].writers)
        for (const std::size_t j : users[state.before.index].readers) followers_[i].push_back(j);
    number_.resize(stages_.size(), 0);
    lowest_ = component_ = number_;
    is_open_.resize(stages_.size());
    for (std::size_t i = 0; i < stages_.size(); ++i)
      if (number_[i] == 0) visit(i);
  }

  /// Returns the stages in the order of their dependencies, otherwise in their original order as
  /// far as possible. The stages of a recurrence are adjacent and have its number.
  std::vector<Stage> ordered() const {
    std::vector<std::vector<std::size_t>> members(components_);
    for (std::size_t i = 0; i < stages_.size(); ++i) members[component_[i]].push_back(i);
    std::vector<std::size_t> waiting(components_, 0);
    for (std::size_t i = 0; i < stages_.size(); ++i)
      for (const std::size_t j : followers_[i])
        if (component_[i] != component_[j]) ++waiting[component_[j]];
    // Ordered by the index of a component's last stage, so that stages before a recurrence stay
    // before it. Stores come first, so that the memory of the states is free for the next layer.
    std::map<std::size_t, std::size_t> ready;
    const auto add = [&](std::size_t component) {
      const std::size_t last = members[component].back();
      const bool store = std::holds_alternative<StateStoreStage>(stages_[last].op);
      ready.emplace(store ? last : stages_.size() + last, component);
    };
    for (std::size_t c = 0; c < components_; ++c)
      if (waiting[c] == 0) add(c);
    std::vector<Stage> order;
    std::uint32_t recurrences = 0;
    while (!ready.empty()) {
      const std::size_t component = ready.begin()->second;
      ready.erase(ready.begin());
      const bool again = is_recurrence(members[component]);
      recurrences += again ? 1 : 0;
      for (const std::size_t i : members[component]) {
        order.push_back(stages_[i]);
        order.back().recurrence = again ? recurrences : 0;
      }
      for (const std::size_t i : members[component])
        for (const std::size_t j : followers_[i])
          if (component_[j] != component && --waiting[component_[j]] == 0) add(component_[j]);
    }
    return order;
  }

 private:
  /// The stages that use a buffer, in order.
  struct Users {
    std::vector<std::size_t> writers, readers;
    std::size_t overwritten = 0;  // number of readers before the last writer
  };
  /// Makes a stage run before a later one.
  void follow(std::size_t first, std::size_t second) {
    if (first != second) followers_[first].push_back(second);
  }

  /// Returns the buffers and layers of the cache that order a stage relative to other stages. That
  /// excludes weights, which no stage writes.
  Access of(const Stage& stage) const {
    Access used = access(stage);
    const auto* loop = std::get_if<LoopStage>(&stage.op);
    for (std::size_t i = 0; loop != nullptr && i < loop->body.size(); ++i) {
      const Access inner = access(loop->body[i]);
      used.reads.insert(used.reads.end(), inner.reads.begin(), inner.reads.end());
      used.writes.insert(used.writes.end(), inner.writes.begin(), inner.writes.end());
    }
    std::erase_if(used.reads, [&](BufferId id) {
      return !id.exists() || program_.buffers[id.index].place == Place::kWeight;
    });
    std::erase_if(used.writes, [](BufferId id) { return !id.exists(); });
    if (loop == nullptr) use_cache(stage, 0, used);
    for (std::uint32_t i = 0; loop != nullptr && i < loop->count; ++i)
      for (const Stage& inner : loop->body)
        use_cache(inner, loop->first_layer + i * loop->layers_per_pass, used);
    return used;
  }
  /// Adds the layer of the cache that a stage uses. It is not a buffer and gets an id after those
  /// of the buffers. `layer` is added to the layer of the stage.
  void use_cache(const Stage& stage, std::uint32_t layer, Access& used) const {
    const auto cache = [&](std::uint32_t own) {
      return BufferId{static_cast<std::uint32_t>(program_.buffers.size()) + layer + own};
    };
    if (const auto* qkv = std::get_if<QkvStage>(&stage.op))
      used.writes.push_back(cache(qkv->layer));
    if (const auto* store = std::get_if<KvStoreStage>(&stage.op))
      used.writes.push_back(cache(store->layer));
    if (const auto* attention = std::get_if<AttentionStage>(&stage.op))
      used.reads.push_back(cache(attention->layer));
  }
  bool is_recurrence(const std::vector<std::size_t>& members) const {
    const std::size_t first = members.front();
    return members.size() > 1 ||
           std::ranges::find(followers_[first], first) != followers_[first].end();
  }

  /// Finds the strongly connected components that can be reached from a stage (Tarjan's algorithm).
  /// Uses an explicit stack, because graphs can be deep.
  void visit(std::size_t start) {
    std::vector<std::pair<std::size_t, std::size_t>> calls{{start, 0}};
    while (!calls.empty()) {
      const auto [at, edge] = calls.back();
      if (edge == 0) {
        number_[at] = lowest_[at] = ++numbered_;
        open_.push_back(at);
        is_open_[at] = true;
      }
      if (edge < followers_[at].size()) {
        ++calls.back().second;
        const std::size_t next = followers_[at][edge];
        if (number_[next] == 0) {
          calls.emplace_back(next, 0);
        } else if (is_open_[next]) {
          lowest_[at] = std::min(lowest_[at], number_[next]);
        }
        continue;
      }
      calls.pop_back();
      if (!calls.empty())
        lowest_[calls.back().first] = std::min(lowest_[calls.back().first], lowest_[at]);
      if (lowest_[at] != number_[at]) continue;
      for (std::size_t member = stages_.size(); member != at;) {
        member = open_.back();
        open_.pop_back();
        is_open_[member] = false;
        component_[member] = components_;
      }
      ++components_;
    }
  }

  const Program& program_;
  const std::vector<Stage>& stages_;
  std::vector<std::vector<std::size_t>> followers_;
  std::vector<std::size_t> number_, lowest_, component_, open_;
  std::vector<bool> is_open_;  // whether a stage is in open_
  std::size_t numbered_ = 0, components_ = 0;
};

}  // namespace

Status order_recurrences(Program& program) {
  if (program.states.empty()) return ok_status();
  for (std::uint32_t slot = 0; slot < program.states.size(); ++slot)
    program.forward.push_back(
        {StateStoreStage{program.states[slot].next, program.states[slot].before, slot}, {}, {}});
  program.forward = StageGraph(program).ordered();
  for (const Stage& stage : program.forward) {
    if (stage.recurrence == 0 || std::holds_alternative<MapStage>(stage.op) ||
        std::holds_alternative<CallStage>(stage.op))
      continue;
    return Diagnostic{.kind = ErrorKind::kUnsupported,
                      .file = stage.origin.file,
                      .node = stage.origin.node,
                      .message =
                          "a recurrent state depends on its earlier value through an "
                          "operator that cannot run token by token"};
  }
  return ok_status();
}

}  // namespace llmc::plan
