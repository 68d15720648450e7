#include "runtime/hosted/grammar/table_builder.h"

#include <algorithm>
#include <cstring>

#include "llmc/grammar.h"
#include "runtime/hosted/grammar/failure.h"
#include "runtime/hosted/grammar/mask_store.h"
#include "runtime/hosted/grammar/pushdown.h"
#include "runtime/hosted/grammar/stack_demand.h"
#include "runtime/hosted/grammar/token_classes.h"

namespace llmc::hosted::grammar {
namespace {

template <class T>
void append(std::string& out, const std::vector<T>& values) {
  static_assert(sizeof(T) % 4 == 0);
  out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

struct Automaton {
  std::vector<llmc_grammar_state> states;
  std::vector<llmc_grammar_edge> edges;
  std::vector<std::uint32_t> frames;
};

/// Stores contexts by their number of known frames.
class ContextStore {
 public:
  explicit ContextStore(MaskStore& masks) : masks_(masks) {}

  /// Adds the contexts of the next state. Returns the index of the first of them.
  std::uint32_t add(const TokenClasses& classes) {
    const auto first = count_of(0);
    add(classes, 0);
    return first;
  }
  /// Returns all contexts, those with one known frame first, and a final entry.
  std::vector<llmc_grammar_context> contexts() const {
    std::vector<llmc_grammar_context> result;
    for (std::size_t level = 0; level < levels_.size(); ++level) {
      const auto next = static_cast<std::uint32_t>(result.size() + levels_[level].size());
      for (llmc_grammar_context context : levels_[level]) {
        context.first_context += next;
        result.push_back(context);
      }
    }
    result.push_back({0, static_cast<std::uint32_t>(result.size()), 0});
    return result;
  }
  std::uint32_t top_count() const { return count_of(0); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  std::uint32_t count_of(std::size_t level) const {
    return level < levels_.size() ? static_cast<std::uint32_t>(levels_[level].size()) : 0;
  }
  /// Adds the contexts of one level. Indices are relative to the beginning of a level; contexts()
  /// makes them absolute.
  void add(const TokenClasses& classes, std::size_t level) {
    if (classes.below.empty()) return;
    if (level == levels_.size()) levels_.emplace_back();
    for (const TokenClasses::Below& below : classes.below) {
      levels_[level].push_back({below.frame, count_of(level + 1), masks_.add(below.classes)});
      bytes_ += sizeof(llmc_grammar_context);
      add(below.classes, level + 1);
    }
  }

  MaskStore& masks_;
  std::vector<std::vector<llmc_grammar_context>> levels_;
  std::uint64_t bytes_ = 0;
};

/// Returns the maximum, over all stacks, of the number of tokens that are read byte by byte.
std::uint32_t max_dependents(const TokenClasses& classes) {
  if (classes.below.empty()) return static_cast<std::uint32_t>(classes.dependents.size());
  std::uint32_t result = 0;
  for (const TokenClasses::Below& below : classes.below)
    result = std::max(result, max_dependents(below.classes));
  return result;
}

/// Returns the automaton in the format of the tables, without masks and contexts.
Automaton flattened(const Pushdown& pushdown) {
  Automaton result;
  result.frames = pushdown.frames;
  for (const Pushdown::State& state : pushdown.states) {
    result.states.push_back({static_cast<std::uint32_t>(result.edges.size()), 0, state.accepts, 0});
    for (const Pushdown::Edge& edge : state.edges) {
      const Pushdown::FrameList& list = pushdown.frame_lists[edge.frames];
      result.edges.push_back(
          {edge.low, edge.high, static_cast<std::uint16_t>(list.count), edge.target, list.first});
    }
  }
  result.states.push_back({static_cast<std::uint32_t>(result.edges.size()), 0, 0, 0});
  return result;
}

std::uint32_t packed_demand(const std::optional<StackDemand>& demand) {
  if (!demand || demand->paths >= LLMC_GRAMMAR_ROOM_UNKNOWN) return LLMC_GRAMMAR_ROOM_UNKNOWN;
  return demand->frames << 8 | demand->paths;
}

Tables make_tables(const Grammar& grammar, const Vocabulary& vocabulary,
                   const TableLimits& limits) {
  const Pushdown pushdown = build_pushdown(grammar);
  Automaton automaton = flattened(pushdown);
  const TokenText text = token_text(vocabulary);
  const TokenTree tree = token_tree(vocabulary);
  const FramesBelow below = frames_below(pushdown, grammar);
  const ReachableBytes reachable(pushdown, below);
  TokenClassifier classifier(pushdown, below, reachable, tree);
  StackDemandFinder demand_finder(pushdown, below, reachable, tree);
  const auto rule_of = [&](std::uint32_t state) {
    return printable(grammar.rules[pushdown.states[state].rule].name);
  };
  MaskStore masks(static_cast<std::uint32_t>(vocabulary.tokens.size()));
  ContextStore contexts(masks);
  Tables tables;
  std::uint64_t bytes = sizeof(llmc_grammar_header) +
                        sizeof(llmc_grammar_state) * automaton.states.size() +
                        12 * automaton.edges.size() + 4 * automaton.frames.size() +
                        4 * text.offsets.size() + text.text.size() + 4 * vocabulary.stops.size();
  for (std::uint32_t s = 0; s < pushdown.states.size(); ++s) {
    // Demands only save time at run time: if no steps are left, the grammar is accepted without
    // them.
    const auto demand =
        demand_finder.steps() < limits.steps / 4 ? demand_finder.find(s) : std::nullopt;
    automaton.states[s].room = packed_demand(demand);
    const auto classes = classifier.classify(s, demand ? &demand_finder.reached() : nullptr);
    if (!classes) {
      throw unsupported(concat("the grammar is too ambiguous: in rule '", rule_of(s),
                               "' a token can be read in more than ", TokenClassifier::kMaxPaths,
                               " ways at once"),
                        "write rules that do not overlap");
    }
    if (s == pushdown.start && classes->allowed.empty() && classes->dependents.empty() &&
        !pushdown.states[s].edges.empty() && !pushdown.states[s].accepts) {
      throw malformed("no token of the vocabulary can start a text of this grammar");
    }
    tables.facts.max_dependents = std::max(tables.facts.max_dependents, max_dependents(*classes));
    automaton.states[s].first_context = contexts.add(*classes);
    automaton.states[s].mask_accept |= masks.add(*classes) << 1;
    if (classifier.steps() > limits.steps ||
        bytes + masks.bytes() + contexts.bytes() > limits.bytes) {
      throw unsupported(
          concat("the grammar is too large: after ", s + 1, " of ", pushdown.states.size(),
                 " states, in rule '", rule_of(s), "', its tables have ",
                 bytes + masks.bytes() + contexts.bytes(), " bytes"),
          "smaller counts in {m,n}, minLength, maxItems and the like help most");
    }
  }

  automaton.states.back().first_context = contexts.top_count();
  const std::vector<llmc_grammar_context> context_rows = contexts.contexts();
  const std::vector<llmc_grammar_mask> mask_rows = masks.masks();
  std::string& out = tables.bytes;
  out.resize(sizeof(llmc_grammar_header));
  append(out, automaton.states);
  append(out, automaton.edges);
  append(out, automaton.frames);
  append(out, context_rows);
  append(out, mask_rows);
  append(out, masks.bitmaps());
  append(out, masks.flips());
  append(out, masks.dependents());
  append(out, vocabulary.stops);
  append(out, text.offsets);
  out += text.text;

  const auto count = [](const auto& values) { return static_cast<std::uint32_t>(values.size()); };
  llmc_grammar_header header = {};
  std::memcpy(header.magic, LLMC_GRAMMAR_MAGIC, sizeof header.magic);
  header.bytes = out.size();
  header.vocabulary_hash = vocabulary_hash(vocabulary);
  header.vocab = count(vocabulary.tokens);
  header.start = pushdown.start;
  header.states = count(pushdown.states);
  header.edges = count(automaton.edges);
  header.frames = count(automaton.frames);
  header.contexts = count(context_rows) - 1;
  header.masks = count(mask_rows) - 1;
  header.bitmaps = masks.bitmap_count();
  header.flips = count(masks.flips());
  header.dependents = count(masks.dependents());
  header.stops = count(vocabulary.stops);
  header.text_bytes = text.offsets.back();
  const auto put_header = [&] { std::memcpy(out.data(), &header, sizeof header); };
  put_header();
  std::vector<std::uint32_t> words((out.size() - LLMC_GRAMMAR_HASHED_FROM) / 4);
  std::memcpy(words.data(), out.data() + LLMC_GRAMMAR_HASHED_FROM, words.size() * 4);
  header.hash = llmc_grammar_hash(LLMC_GRAMMAR_HASH_START, words.data(), words.size());
  put_header();

  tables.facts.bytes = out.size();
  tables.facts.states = header.states;
  tables.facts.edges = header.edges;
  tables.facts.masks = header.masks;
  tables.facts.bitmaps = header.bitmaps;
  tables.facts.flips = header.flips;
  tables.facts.has_stack = !automaton.frames.empty();
  return tables;
}

}  // namespace

Outcome<Tables> build_tables(const Grammar& grammar, const Vocabulary& vocabulary,
                             const TableLimits& limits) {
  return catch_failure([&] { return make_tables(grammar, vocabulary, limits); });
}

}  // namespace llmc::hosted::grammar
