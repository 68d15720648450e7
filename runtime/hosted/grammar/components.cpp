#include "runtime/hosted/grammar/components.h"

#include <algorithm>

namespace llmc::hosted::grammar {

Components components(const std::vector<std::vector<std::uint32_t>>& next) {
  const std::size_t count = next.size();
  std::vector<std::uint32_t> order(count), low(count), stack;
  std::vector<bool> on_stack(count);
  Components result;
  result.of.resize(count);
  struct Visit {
    std::uint32_t node;
    std::size_t next;
  };
  std::uint32_t clock = 0;
  for (std::uint32_t root = 0; root < count; ++root) {
    if (order[root] != 0) continue;
    std::vector<Visit> visits{{root, 0}};
    while (!visits.empty()) {
      auto& [node, at] = visits.back();
      if (at == 0) {
        order[node] = low[node] = ++clock;
        stack.push_back(node);
        on_stack[node] = true;
      }
      if (at < next[node].size()) {
        const std::uint32_t to = next[node][at++];
        if (order[to] == 0) {
          visits.push_back({to, 0});
        } else if (on_stack[to]) {
          low[node] = std::min(low[node], order[to]);
        }
        continue;
      }
      const std::uint32_t done = node;
      visits.pop_back();
      if (!visits.empty()) low[visits.back().node] = std::min(low[visits.back().node], low[done]);
      if (low[done] != order[done]) continue;
      for (std::uint32_t member = UINT32_MAX; member != done;) {
        member = stack.back();
        stack.pop_back();
        on_stack[member] = false;
        result.nodes.push_back(member);
        result.of[member] = result.count;
      }
      ++result.count;
    }
  }
  return result;
}

}  // namespace llmc::hosted::grammar
