#include "grammar_tables.h"

namespace llmc::core {
namespace {

/// Splits the data after the header into its parts, in order.
class Parts {
 public:
  Parts(const unsigned char* data, uint64_t bytes) : at_(data), left_(bytes) {}

  template <class T>
  void take(const T*& part, uint64_t count) {
    part = reinterpret_cast<const T*>(at_);
    if (count > left_ / sizeof(T)) {
      sound_ = false;
      return;
    }
    at_ += count * sizeof(T);
    left_ -= count * sizeof(T);
  }
  bool sound() const { return sound_ && left_ == 0; }

 private:
  const unsigned char* at_;
  uint64_t left_;
  bool sound_ = true;
};

bool all_below(const uint32_t* values, uint32_t count, uint32_t limit) {
  for (uint32_t i = 0; i < count; ++i)
    if (values[i] >= limit) return false;
  return true;
}

bool sound_automaton(const GrammarTables& t) {
  const llmc_grammar_header& h = t.header;
  if (h.start >= h.states || t.states[0].first_edge != 0 ||
      t.states[h.states].first_edge != h.edges)
    return false;
  for (uint32_t i = 0; i < h.states; ++i) {
    if (t.states[i].first_edge > t.states[i + 1].first_edge ||
        t.states[i].first_context > t.states[i + 1].first_context || t.mask_of(i) >= h.masks)
      return false;
  }
  if (t.states[h.states].first_context > h.contexts ||
      t.contexts[h.contexts].first_context > h.contexts)
    return false;
  for (uint32_t i = 0; i < h.contexts; ++i) {
    if (t.contexts[i].first_context > t.contexts[i + 1].first_context ||
        t.contexts[i].mask >= h.masks)
      return false;
  }
  for (uint32_t i = 0; i < h.edges; ++i) {
    const llmc_grammar_edge& edge = t.edges[i];
    if (edge.low > edge.high || edge.target >= h.states || edge.first_frame > h.frames ||
        edge.frame_count > h.frames - edge.first_frame)
      return false;
  }
  return all_below(t.frames, h.frames, h.states);
}

bool sound_masks(const GrammarTables& t) {
  const llmc_grammar_header& h = t.header;
  if (t.masks[0].first_flip != 0 || t.masks[0].first_dependent != 0 ||
      t.masks[h.masks].first_flip != h.flips || t.masks[h.masks].first_dependent != h.dependents)
    return false;
  for (uint32_t i = 0; i < h.masks; ++i) {
    if (t.masks[i].base > h.bitmaps || t.masks[i].first_flip > t.masks[i + 1].first_flip ||
        t.masks[i].first_dependent > t.masks[i + 1].first_dependent)
      return false;
  }
  const uint32_t words = t.words();
  if (h.vocab % 32 != 0) {  // the bits after the vocabulary must be zero
    for (uint64_t i = 1; i <= h.bitmaps; ++i)
      if (t.bitmaps[i * words - 1] >> h.vocab % 32 != 0) return false;
  }
  return all_below(t.flips, h.flips, h.vocab) && all_below(t.dependents, h.dependents, h.vocab) &&
         all_below(t.stops, h.stops, h.vocab);
}

bool sound_text(const GrammarTables& t) {
  const llmc_grammar_header& h = t.header;
  for (uint32_t i = 0; i < h.vocab; ++i)
    if (t.offsets[i] > t.offsets[i + 1]) return false;
  return t.offsets[0] == 0 && t.offsets[h.vocab] == h.text_bytes;
}

/// Upper bounds of the effects of reading one byte, in any state.
struct ByteUse {
  uint16_t pushed;  // maximum number of frames that one edge pushes
  // maximum number of edges of one state that read the byte, at most kMaxCountedPaths; 0 counts as
  // 1
  uint8_t edges;
  // Whether a state whose rule may end there reads the byte, so that the frame below it may read
  // the byte as well.
  bool ends;
  bool below;  // whether a state that may be below another one reads the byte
  bool chain;  // whether one state is both, so that any number of them may be stacked

  /// Returns the maximum number of paths that one path may become.
  uint32_t ways() const {
    const uint32_t all = chain ? kMaxCountedPaths : ends && below ? 2u * edges : edges;
    return all == 0 ? 1 : all < kMaxCountedPaths ? all : kMaxCountedPaths;
  }
};

void use_of_edges(const GrammarTables& t, uint32_t state, bool below, ByteUse* use) {
  const bool ends = t.accepts(state);
  const llmc_grammar_edge* const first = t.edges + t.states[state].first_edge;
  const llmc_grammar_edge* const end = t.edges + t.states[state + 1].first_edge;
  bool overlap = false;  // whether edges overlap; the edges of most states do not
  int high = -1;
  for (const llmc_grammar_edge* edge = first; edge < end; ++edge) {
    overlap = overlap || edge->low <= high;
    if (edge->high > high) high = edge->high;
    if (edge->frame_count == 0 && !ends && !below) continue;  // most edges have no effect to record
    for (uint32_t byte = edge->low; byte <= edge->high; ++byte) {
      ByteUse& of = use[byte];
      if (edge->frame_count > of.pushed) of.pushed = edge->frame_count;
      if (of.edges == 0) of.edges = 1;
      of.ends = of.ends || ends;
      of.below = of.below || below;
      of.chain = of.chain || (ends && below);
    }
  }
  if (!overlap) return;
  uint8_t count[256] = {};
  for (const llmc_grammar_edge* edge = first; edge < end; ++edge)
    for (uint32_t byte = edge->low; byte <= edge->high; ++byte)
      if (count[byte] < kMaxCountedPaths && ++count[byte] > use[byte].edges)
        use[byte].edges = count[byte];
}

/// Computes upper bounds for whole tokens from the bounds of their bytes.
void measure(GrammarTables& t) {
  // A set of the states that edges push. To save memory, the set is indexed by the state's number
  // modulo 2048; a false positive only makes the bounds less exact.
  uint32_t below[64] = {};
  for (uint32_t i = 0; i < t.header.frames; ++i)
    below[t.frames[i] / 32 % 64] |= 1u << t.frames[i] % 32;
  ByteUse use[256] = {};
  for (uint32_t i = 0; i < t.header.states; ++i)
    use_of_edges(t, i, (below[i / 32 % 64] >> i % 32 & 1) != 0, use);
  t.max_pushed = t.max_pushed_by_byte = 0;
  t.max_paths = t.max_ways_by_byte = 1;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const uint32_t pushed = use[byte].pushed, ways = use[byte].ways();
    if (pushed > t.max_pushed_by_byte) t.max_pushed_by_byte = pushed;
    if (ways > t.max_ways_by_byte) t.max_ways_by_byte = ways;
    if (pushed > 0) t.pushing[byte / 32] |= 1u << byte % 32;
    if (ways > 1) t.parting[byte / 32] |= 1u << byte % 32;
  }
  for (uint32_t i = 0; i < t.header.vocab; ++i) {
    uint64_t pushed = 0;
    uint32_t ways = 1;
    for (uint32_t at = t.offsets[i]; at < t.offsets[i + 1]; ++at) {
      const ByteUse& of = use[t.text[at]];
      ways *= of.ways();
      if (ways > kMaxCountedPaths) ways = kMaxCountedPaths;
      pushed += uint64_t{ways} * of.pushed;
    }
    if (pushed > UINT32_MAX) pushed = UINT32_MAX;
    if (pushed > t.max_pushed) t.max_pushed = static_cast<uint32_t>(pushed);
    if (ways > t.max_paths) t.max_paths = ways;
  }
}

}  // namespace

llmc_status read_grammar(const void* data, size_t bytes, GrammarTables* tables) {
  GrammarTables& t = *tables;
  t = GrammarTables{};
  if (data == nullptr || reinterpret_cast<uintptr_t>(data) % 8 != 0 || bytes < sizeof t.header ||
      bytes % 4 != 0)
    return LLMC_ERROR_GRAMMAR_TABLES;
  const llmc_grammar_header& h = t.header;
  __builtin_memcpy(&t.header, data, sizeof t.header);
  bool known = h.bytes == bytes;
  for (size_t i = 0; i < sizeof h.magic; ++i) known = known && h.magic[i] == LLMC_GRAMMAR_MAGIC[i];
  if (!known || h.vocab > INT32_MAX || h.states > INT32_MAX || h.masks > INT32_MAX)
    return LLMC_ERROR_GRAMMAR_TABLES;
  const unsigned char* const begin = static_cast<const unsigned char*>(data);
  if (llmc_grammar_hash(LLMC_GRAMMAR_HASH_START,
                        reinterpret_cast<const uint32_t*>(begin + LLMC_GRAMMAR_HASHED_FROM),
                        (bytes - LLMC_GRAMMAR_HASHED_FROM) / 4) != h.hash)
    return LLMC_ERROR_GRAMMAR_TABLES;
  Parts parts(begin + sizeof h, bytes - sizeof h);
  parts.take(t.states, uint64_t{h.states} + 1);
  parts.take(t.edges, h.edges);
  parts.take(t.frames, h.frames);
  parts.take(t.contexts, uint64_t{h.contexts} + 1);
  parts.take(t.masks, uint64_t{h.masks} + 1);
  parts.take(t.bitmaps, uint64_t{h.bitmaps} * t.words());
  parts.take(t.flips, h.flips);
  parts.take(t.dependents, h.dependents);
  parts.take(t.stops, h.stops);
  parts.take(t.offsets, uint64_t{h.vocab} + 1);
  parts.take(t.text, (uint64_t{h.text_bytes} + 3) / 4 * 4);
  const bool sound = parts.sound() && sound_automaton(t) && sound_masks(t) && sound_text(t);
  if (!sound) return LLMC_ERROR_GRAMMAR_TABLES;
  measure(t);
  return LLMC_OK;
}

}  // namespace llmc::core
