#include "compiler/plan/code_size.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <tuple>
#include <variant>

#include "compiler/support/check.h"

namespace llmc::plan {
namespace {

/// Function sizes in bytes for one target and optimization level.
struct CodeSizes {
  std::string_view target;
  std::uint32_t level;
  std::uint32_t core;       // the runtime's core
  std::uint32_t base;       // code that every model has once: embedding, angles, saved states
  std::uint32_t attention;  // each kind of attention over an f32 cache
  std::uint32_t qkv;        // extra code of linear stages that store q, k and v
  std::uint32_t gated;      // extra code of linear stages that have a gate
  // Indexed by WeightKind: a linear stage without its products, the preparation of its input rows,
  // its products (for each number of columns), and the code that all of these share.
  std::uint32_t stage[4], prepare[4], product[4], shared[4];
  // Additional code for cache formats other than f32: `widened` once if any format is not f32;
  // `keys` (which cannot be fp8) and `values` indexed by their KvFormat.
  std::int32_t widened, keys[3], values[4];
};

constexpr CodeSizes kSizes[] = {
#include "compiler/plan/code_size_table.inc"
};

/// Size of a stage that is computed element by element.
constexpr std::uint64_t kPlainStageBytes = 1024;

/// Returns the name of a target's table row. At level 1, all targets of an architecture use the row
/// of the first one.
std::string_view row_name(const target::Target& target) {
  if (target.opt_level > 1) return target.name;
  return std::ranges::find(target::all(), target.architecture, &target::Target::architecture)->name;
}

const CodeSizes& sizes_of(const target::Target& target) {
  const std::string_view name = row_name(target);
  for (const CodeSizes& sizes : kSizes)
    if (sizes.target == name && sizes.level == target.opt_level) return sizes;
  LLMC_CHECK(false);  // code_size_test covers every target
  return kSizes[0];
}

/// Counts template instantiations: a kernel that is called twice with the same types exists once.
class Counter {
 public:
  Counter(const Plan& plan, const CodeSizes& sizes)
      : plan_(plan), sizes_(sizes), bytes_(sizes.core + std::uint64_t{sizes.base}) {}

  void count(const std::vector<Stage>& stages, const LoopStage* loop) {
    for (const Stage& stage : stages) {
      loop_ = loop;
      std::visit([&](const auto& s) { add(s, stage.op.index()); }, stage.op);
    }
  }
  std::uint64_t bytes() const { return bytes_; }

  /// Adds the function of greedy choices: a separate product for one token, and the preparation of
  /// its input.
  void add_choice(const LinearStage& s) {
    const std::size_t c = column(weight(s.weight).matrix);
    bytes_ += sizes_.stage[c] + sizes_.prepare[c] + sizes_.product[c];
  }

 private:
  using Type = std::tuple<int, int, std::uint64_t, std::uint64_t, std::uint64_t>;
  bool first(int what, int kind, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    return seen_.insert(Type{what, kind, a, b, c}).second;
  }
  enum What : std::uint8_t { kStage, kPrepare, kProduct, kShared, kAttention, kPlain };

  const PackedWeight& weight(WeightRef ref) const { return weight_of(plan_.program, ref, loop_); }
  /// Returns the column of a weight kind. q6 and preserved codes count as q8, whose code has about
  /// the same size.
  static std::size_t column(WeightKind kind) {
    return is_coded(kind) ? static_cast<std::size_t>(WeightKind::kQ8)
                          : static_cast<std::size_t>(kind);
  }
  /// Adds a matrix product and the norm of its input.
  void add_linear(const PackedWeight& w, const NormInput& norm, int form, std::uint64_t more) {
    const int kind = static_cast<int>(w.matrix);
    const std::size_t c = column(w.matrix);
    const std::uint64_t source = norm.exists() ? 1 + static_cast<std::uint64_t>(norm.kind) : 0;
    const bool prepared = source != 0 || is_quantized(w.matrix);
    if (first(kStage, kind, w.packed_rows * 8 + static_cast<std::uint64_t>(form), w.columns,
              source))
      bytes_ += sizes_.stage[c] + more;
    if (prepared && first(kPrepare, kind, w.packed_rows, w.columns, source))
      bytes_ += sizes_.prepare[c];
    if (first(kProduct, kind, w.columns, 0, 0)) bytes_ += sizes_.product[c];
    if (first(kShared, kind, 0, 0, 0)) bytes_ += sizes_.shared[c];
  }

  void add(const LinearStage& s, std::size_t) {
    const bool gated = s.epilogue == LinearStage::Epilogue::kGated;
    add_linear(weight(s.weight), s.norm, static_cast<int>(s.epilogue), gated ? sizes_.gated : 0);
    if (s.more_rows.exists()) add_linear(weight(s.more_rows), s.norm, 0, 0);
  }
  void add(const QkvFinishStage&, std::size_t) {
    constexpr int kFinish = 1;
    if (first(kShared, -kFinish, 0, 0, 0)) bytes_ += sizes_.qkv;
  }
  void add(const QkvStage& s, std::size_t) {
    constexpr int kForm = 7;
    add_linear(weight(s.weight), s.norm, kForm, sizes_.qkv);
    if (s.value_weight.exists()) add_linear(weight(s.value_weight), s.norm, kForm, 0);
  }
  void add(const AttentionStage& s, std::size_t) {
    if (first(kAttention, s.softcap > 0 ? 1 : 0, s.window, s.chunked ? 1 : 0, 0)) add_attention();
  }
  void add(const CrossAttentionStage& s, std::size_t) {
    constexpr int kOfSource = 2;
    if (first(kAttention, kOfSource + (s.softcap > 0 ? 1 : 0), 0, 0, 0)) add_attention();
  }
  void add_attention() {
    const KvFormats kv = plan_.options.kv;
    std::int64_t bytes = sizes_.attention;
    if (kv.keys != KvFormat::kF32 || kv.values != KvFormat::kF32) bytes += sizes_.widened;
    bytes += sizes_.keys[static_cast<std::size_t>(kv.keys)];
    bytes += sizes_.values[static_cast<std::size_t>(kv.values)];
    bytes_ += static_cast<std::uint64_t>(bytes);
  }
  void add(const LoopStage& s, std::size_t) {
    bytes_ += s.fields.size() * s.count * sizeof(std::uint64_t);  // the weight table of the loop
    count(s.body, &s);
  }
  void add(const EmbeddingStage& s, std::size_t) {
    if (s.by_position) bytes_ += kPlainStageBytes;
  }
  void add(const RopeAnglesStage&, std::size_t) {}
  void add(const MapStage& s, std::size_t) { bytes_ += 64 * nodes_of(s.value).size() + 256; }
  void add(const StateStoreStage&, std::size_t) { bytes_ += 64; }
  void add(const CallStage&, std::size_t) { bytes_ += kPlainStageBytes; }
  template <class S>
  void add(const S& s, std::size_t what) {
    std::uint64_t width = 0;
    if constexpr (requires { s.width; }) width = s.width;
    if (first(kPlain, static_cast<int>(what), width, 0, 0)) bytes_ += kPlainStageBytes;
  }

  const Plan& plan_;
  const CodeSizes& sizes_;
  const LoopStage* loop_ = nullptr;
  std::uint64_t bytes_;
  std::set<Type> seen_;
};

}  // namespace

std::uint64_t estimate_code_bytes(const Plan& plan) {
  Counter counter(plan, sizes_of(*plan.options.target));
  counter.count(plan.program.forward, nullptr);
  counter.count(plan.program.head, nullptr);
  if (const LinearStage* const head = greedy_choice_product(plan.program))
    counter.add_choice(*head);
  return counter.bytes();
}

}  // namespace llmc::plan
