#pragma once

#include "llmc/kernels/linear.h"

/// Finds the largest logit of one token, from a matrix in a split format, without reading the lower
/// bits of most rows of the matrix. First, the upper bits and the error bounds (quant/split.h) give
/// an upper bound of every row's logit. The logits of the panel with the largest upper bound are
/// computed; then those of all panels with an upper bound that is not less than the largest logit
/// so far. Index and logit have the same bits as with the whole product.
namespace llmc {
inline namespace LLMC_ISA {

/// The first of the largest logits, ignoring NaN. If all are NaN or -infinity, `index` is 0 and
/// `logit` -infinity.
struct Choice {
  uint32_t index;
  float logit;
  uint32_t panels;  // number of panels whose logits were computed

  LLMC_INLINE void take(float other, uint32_t row) {
    const bool first = other == logit && row < index && other > -__builtin_inff();
    if (!(other > logit) && !first) return;
    index = row;
    logit = other;
  }
};
template <size_t N>
struct Choose {
  static constexpr size_t kUnitPanels = 1;
  Choice* out;
  float* greatest;  // [N] upper bounds of the logits, used during the call
};

/// Returns an upper bound of |x|, the Euclidean norm of one token's quantized activations; infinity
/// if sums of products might not be finite.
template <size_t K>
LLMC_INLINE float activation_norm(const Quantized& x) {
  float sum = 0;
  for (size_t s = 0; s < super_count(K); ++s) {
    int32_t squares = 0;  // at most 256 * 127 * 127
    const size_t end = blocks_in_super(K, s) * kBlock;
    for (size_t k = 0; k < end; ++k) {
      const int32_t a = x.codes[s * kSuper + k];
      squares += a * a;
    }
    sum += x.scales[s] * x.scales[s] * static_cast<float>(squares);
  }
  // Squares may underflow, also to zero. The loss, at most 2^-126 * 2^22 per superblock, is less
  // than 2^-24 times the square of kLeast.
  constexpr float kLeast = 1e-12f, kGreatest = 1e15f;
  float lane[8];
  store(lane, sqrt(splat(sum)));
  const float norm = lane[0] * (1 + 0x1p-16f);
  if (norm < kLeast) return kLeast;
  return norm < kGreatest ? norm : __builtin_inff();
}

/// Prefetch distances in superblocks, like those of kernels/product_six.h, where only the upper
/// bits are read.
inline constexpr size_t kUpperSupersAhead = 3, kUpperSupersFarther = 7;

/// Computes the products of one token with the upper bits of kPanels panels, `stride` bytes apart,
/// divided by 4: sums of (u - kUpperCentre) a, multiplied by the scales. Stores y[panels][8].
template <CodedFormat kFormat, size_t K, size_t kPanels>
LLMC_NOINLINE inline void upper_panels_gemv(const uint8_t* panel, size_t stride, const Quantized x,
                                            float* y) {
  constexpr bool kFar = prefetches_far(K);
  F32x8 total[kPanels];
  for (size_t p = 0; p < kPanels; ++p) total[p] = zero_f32();
  for (size_t s = 0; s < super_count(K); ++s) {
    const size_t blocks = blocks_in_super(K, s);
    const uint8_t* codes = panel + coded_super_offset(kFormat, s);
    const uint8_t* scales = codes + coded_scale_offset(kFormat, blocks);
    const SplitPlace place =
        SplitPlace::of<kFormat, K>(panel, s, kUpperSupersAhead, kUpperSupersFarther);
    F32x8 part[kPanels];
    for (size_t p = 0; p < kPanels; ++p) part[p] = zero_f32();
#pragma clang loop unroll(disable)
    for (size_t b = 0; b < blocks; ++b) {
      const uint8_t* block = codes + b * coded_block_bytes(kFormat);
      const int8_t* a = x.codes + (s * kBlocksPerSuper + b) * kBlock;
      BlockSum sum[kPanels];
#pragma clang loop unroll(full)
      for (size_t v = 0; v < 4; ++v) {
        const Activation4 low = load_activation(a, v * 8), high = load_activation(a, v * 8 + 4);
#pragma clang loop unroll(full)
        for (size_t p = 0; p < kPanels; ++p) {
          const uint8_t* at = block + p * stride + v * 32;
          if (v % 2 == 0) prefetch_places<kFar>(at, place.codes_near, place.codes_far);
          const Codes both = load_codes(at);
          sum[p] = v == 0 ? mul_u4(low_nibbles(both), low) : mac_u4(sum[p], low_nibbles(both), low);
          sum[p] = mac_u4(sum[p], high_nibbles(both), high);
        }
      }
      const F32x8 activations = splat(
          static_cast<float>(coded_activations<kFormat>(x, 0, s * kBlocksPerSuper + b, 1, 0)));
#pragma clang loop unroll(full)
      for (size_t p = 0; p < kPanels; ++p) {
        const F32x8 difference = fma(splat(-kUpperCentre), activations, to_f32(row_sums(sum[p])));
        part[p] = fma(coded_numbers<kFormat>(scales + p * stride), difference, part[p]);
      }
      scales += kPanelRows * coded_number_bytes(kFormat);
    }
    for (size_t p = 0; p < kPanels; ++p) {
      const uint8_t* numbers = codes + coded_scale_offset(kFormat, blocks) + p * stride;
      for (size_t i = 0; i < kBlocksPerSuper * kPanelRows * coded_number_bytes(kFormat);
           i += kAlignment)
        prefetch_places<kFar>(numbers + i, place.codes_near, place.codes_far);
      total[p] = fma(splat(x.scales[s]), part[p], total[p]);
    }
  }
  for (size_t p = 0; p < kPanels; ++p) store(y + p * kPanelRows, total[p]);
}

/// Returns upper bounds of the logits of a panel's rows. `quarters` are the panel's results of
/// upper_panels_gemv().
template <CodedFormat kFormat, size_t K>
LLMC_INLINE F32x8 logit_upper_bounds(const uint8_t* panel, const float* quarters, float norm) {
  // Allows for the bits that sums below 2^-96 may lose to underflow.
  constexpr float kSlack = 1e-27f;
  const F32x8 bounds = load_f16(panel + split_bound_offset(kFormat, K));
  return fma(bounds, splat(norm), fma(splat(4.0f), load(quarters), splat(kSlack)));
}

/// Replaces the elements of a panel that belong to padding, not to the N rows, by -infinity.
template <size_t N>
LLMC_INLINE F32x8 without_padding(F32x8 values, size_t panel) {
  constexpr size_t kRest = N % kPanelRows;
  if (kRest == 0 || panel + 1 < panel_count(N)) return values;
  return select(lanes_below(kRest), values, splat(-__builtin_inff()));
}

/// Data that all workers of a call share.
template <class Source, class Weight, size_t N>
struct ChooseStage {
  static constexpr size_t K = Weight::kColumns, kLogits = N;
  static constexpr CodedFormat kFormat = coded_format(Weight::kKind);

  Source source;
  Weight weight;
  float* greatest;       // [N]
  unsigned char* area;   // the prepared input of each worker
  unsigned char* tiles;  // the choice of each worker

  Choice& choice(size_t slot) const {
    return *reinterpret_cast<Choice*>(tiles + slot * linear_tile_bytes(1, 1));
  }
  unsigned char* input(size_t slot) const {
    return area + slot * linear_input_bytes(Weight::kKind, K, 1);
  }
  void prepare(size_t slot) const {
    using Input = LinearInput<Source, Weight>;
    unsigned char* end = input(slot) + linear_input_bytes(Weight::kKind, K, 1);
    Input::prepare(source, 0, 1, input(slot), reinterpret_cast<float*>(end - Input::kRowBytes));
  }
  /// Computes the logits of a panel and updates `best`.
  LLMC_NOINLINE void compute(size_t panel, size_t slot, Choice& best) const {
    const PreparedRows<Source> row{source, input(slot), 1, 0, 1};
    alignas(kAlignment) float logits[kPanelRows];
    if constexpr (kTiled) {
      panels_gemv<1, Weight>(weight.panel(panel), 0, row, logits, 0);
    } else {
      panel_reference<Weight>(weight.panel(panel), row, 0, logits);
    }
    ++best.panels;
    for (size_t i = 0; i < kPanelRows && panel * kPanelRows + i < N; ++i)
      best.take(logits[i], static_cast<uint32_t>(panel * kPanelRows + i));
  }
};

/// Prepares the input of each worker, which the following steps use, too, and stores upper bounds
/// of all logits. A worker's choice contains the largest of its upper bounds; `index` is its panel.
template <class Stage>
struct UpperBoundTask {
  static constexpr size_t K = Stage::K;
  static constexpr CodedFormat kFormat = Stage::kFormat;
  const Stage& stage;
  WorkPartition partition;

  void work(size_t slot) {
    F32x8 largest = splat(-__builtin_inff());
    I32x8 where = zero_i32();
    stage.prepare(slot);
    const Quantized x = quantized_at<K>(stage.input(slot), 1);
    const float norm = activation_norm<K>(x);
    for (Range range = partition.first(slot); range.begin < range.end; range = partition.next()) {
      // Divide the range into parts that are read concurrently, as in LinearTask.
      const size_t part = (range.end - range.begin) / kWeightStreams;
      for (size_t i = 0; i < part; ++i)
        panels<kWeightStreams>(range.begin + i, part, x, norm, largest, where);
      for (size_t i = range.begin + part * kWeightStreams; i < range.end; ++i)
        panels<1>(i, 0, x, norm, largest, where);
    }
    float value[kPanelRows];
    int32_t panel[kPanelRows];
    store(value, largest);
    store_i32(panel, where);
    Choice& best = stage.choice(slot);
    best = {0, -__builtin_inff(), 0};
    for (size_t i = 0; i < kPanelRows; ++i) best.take(value[i], static_cast<uint32_t>(panel[i]));
  }
  template <size_t kPanels>
  LLMC_INLINE void panels(size_t first, size_t distance, const Quantized& x, float norm,
                          F32x8& largest, I32x8& where) const {
    using Weight = decltype(stage.weight);
    alignas(kAlignment) float y[kPanels * kPanelRows];
    upper_panels_gemv<kFormat, K, kPanels>(stage.weight.panel(first),
                                           distance * Weight::kPanelBytes, x, y);
    for (size_t p = 0; p < kPanels; ++p) {
      const size_t panel = first + p * distance;
      const F32x8 most = without_padding<Stage::kLogits>(
          logit_upper_bounds<kFormat, K>(stage.weight.panel(panel), y + p * kPanelRows, norm),
          panel);
      store_row<Stage::kLogits>(stage.greatest, panel * kPanelRows, most);
      const Mask8 larger = less(largest, most);
      largest = select(larger, most, largest);
      where =
          bits(select(larger, from_bits(splat_i32(static_cast<int32_t>(panel))), from_bits(where)));
    }
  }
};

/// Computes all panels that may contain the largest logit. Workers begin with `known`, the choice
/// from panel `computed`, which is already computed.
template <class Stage>
struct CandidateTask {
  const Stage& stage;
  WorkPartition partition;
  Choice known;
  size_t computed;

  void work(size_t slot) {
    Choice best = known;
    best.panels = 0;
    for (Range range = partition.first(slot); range.begin < range.end; range = partition.next()) {
      for (size_t panel = range.begin; panel < range.end; ++panel) {
        const F32x8 most = without_padding<Stage::kLogits>(
            load_row<Stage::kLogits>(stage.greatest, panel * kPanelRows), panel);
        const Mask8 below = less(most, splat(best.logit));  // false for NaN
        const I32x8 rest = bits(select(below, from_bits(zero_i32()), from_bits(splat_i32(1))));
        if (reduce_max_i32(rest) == 0 || panel == computed) continue;
        stage.compute(panel, slot, best);
      }
    }
    stage.choice(slot) = best;
  }
};

/// Computes the same product as linear() with Store<N>, for one token, but stores only the Choice.
template <class Source, class Weight, size_t N>
inline void linear(const KernelContext& context, const Source& source, const Weight& weight,
                   const Choose<N>& chosen) {
  using Stage = ChooseStage<Source, Weight, N>;
  static_assert(Stage::kFormat.split && Weight::kPanels == panel_count(N));
  const llmc_run* const run = context.run;
  unsigned char* area = context.work + run->threads * linear_tile_bytes(1, 1);
  const Stage stage{source, weight, chosen.greatest, area, context.work};
  const size_t workers = workers_for(run, Weight::bytes, 1);
  UpperBoundTask<Stage> greatest{stage,
                                 WorkPartition(run, Weight::kPanels, workers, kWeightStreams)};
  for_each_worker(run, greatest);
  Choice most = stage.choice(0);
  for (size_t slot = 1; slot < workers; ++slot)
    most.take(stage.choice(slot).logit, stage.choice(slot).index);

  Choice best{0, -__builtin_inff(), 0};
  stage.compute(most.index, 0, best);
  CandidateTask<Stage> candidates{stage, WorkPartition(run, Weight::kPanels, workers), best,
                                  most.index};
  for_each_worker(run, candidates);
  for (size_t slot = 0; slot < workers; ++slot) {
    const Choice& other = stage.choice(slot);
    best.panels += other.panels;
    best.take(other.logit, other.index);
  }
  *chosen.out = best;
}

}  // namespace LLMC_ISA
}  // namespace llmc
