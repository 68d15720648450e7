#pragma once

#include "llmc/kernels/linear.h"

/// The largest logit of one row from a matrix in a split format, without reading the lower bits of
/// most rows: a row whose product is below the largest so far, according to its upper bits and its
/// bound (quant/split.h), is left out. Index and logit are those of the whole product, bit for bit.
namespace llmc {
inline namespace LLMC_ISA {

/// In place of Store<N>: the first of the greatest of N logits, ignoring NaN; index 0 and -infinity
/// if all are NaN or -infinity.
struct Choice {
  uint32_t index;
  float logit;
  uint32_t panels;  // whose logits were computed

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
};

/// Returns a bound of |x|, the Euclidean norm of one token's quantized activations; infinity or NaN
/// where sums of products might not be finite.
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
  // Whatever is lost when a square underflows is far below the square of kLeast.
  constexpr float kLeast = 1e-15f, kGreatest = 1e15f;
  float lane[8];
  store(lane, sqrt(splat(sum)));
  const float norm = lane[0] * (1 + 0x1p-16f);
  if (norm < kLeast) return kLeast;
  return norm < kGreatest ? norm : __builtin_inff();
}

/// Superblocks between the one whose upper bits are read and those that are prefetched.
inline constexpr size_t kUpperSupersAhead = 3, kUpperSupersFarther = 7;

/// Computes the products of one token with the upper bits of kPanels panels, `stride` bytes apart,
/// as quarters: sum_k (u - kUpperCentre) a.
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

/// Returns 1 in the lane of each logit of the panel that may be at least `best`, otherwise 0.
/// `quarters` are the products of its upper bits.
template <CodedFormat kFormat, size_t K>
LLMC_INLINE I32x8 may_exceed(const uint8_t* panel, const float* quarters, float norm, float best) {
  // Sums below 2^-96 may lose bits to underflow.
  constexpr float kSlack = 1e-27f;
  const F32x8 bounds = load_f16(panel + split_bound_offset(kFormat, K));
  const F32x8 greatest = fma(bounds, splat(norm), fma(splat(4.0f), load(quarters), splat(kSlack)));
  const Mask8 below = less(greatest, splat(best));  // false for NaN
  return bits(select(below, from_bits(zero_i32()), from_bits(splat_i32(1))));
}

template <class Source, class Weight, size_t N>
struct ChooseTask {
  using Input = LinearInput<Source, Weight>;
  static constexpr size_t K = Weight::kColumns;
  static constexpr CodedFormat kFormat = coded_format(Weight::kKind);

  Source source;
  Weight weight;
  WorkPartition partition;
  unsigned char* area;   // the prepared input of each worker
  unsigned char* tiles;  // the choice of each worker

  struct Search {
    PreparedRows<Source> row;
    float norm;
    Choice best;
  };

  Choice* choice(size_t slot) const {
    return reinterpret_cast<Choice*>(tiles + slot * linear_tile_bytes(1, 1));
  }

  void work(size_t slot) {
    Choice& result = *choice(slot);
    result = {0, -__builtin_inff(), 0};
    Range range = partition.first(slot);
    if (range.begin == range.end) return;
    unsigned char* input = area + slot * linear_input_bytes(Weight::kKind, K, 1);
    unsigned char* buffer = input + linear_input_bytes(Weight::kKind, K, 1) - Input::kRowBytes;
    Input::prepare(source, 0, 1, input, reinterpret_cast<float*>(buffer));
    Search search{{source, input, 1, 0, 1}, activation_norm<K>(quantized_at<K>(input, 1)), result};
    for (; range.begin < range.end; range = partition.next()) look_at(range, search);
    result = search.best;
  }

  /// Reads kWeightStreams parts of the range concurrently.
  LLMC_INLINE void look_at(Range range, Search& search) const {
    const size_t part = (range.end - range.begin) / kWeightStreams;
    for (size_t i = 0; i < part; ++i) panels<kWeightStreams>(range.begin + i, part, search);
    for (size_t i = range.begin + part * kWeightStreams; i < range.end; ++i)
      panels<1>(i, 0, search);
  }
  /// Takes the panels first, first + distance, … into account.
  template <size_t kPanels>
  LLMC_INLINE void panels(size_t first, size_t distance, Search& search) const {
    alignas(kAlignment) float y[kPanels * kPanelRows];
    upper_panels_gemv<kFormat, K, kPanels>(weight.panel(first), distance * Weight::kPanelBytes,
                                           quantized_at<K>(search.row.input, 1), y);
    const auto candidates = [&](size_t p) LLMC_INLINE_LAMBDA {
      return may_exceed<kFormat, K>(weight.panel(first + p * distance), y + p * kPanelRows,
                                    search.norm, search.best.logit);
    };
    I32x8 any = candidates(0);
    for (size_t p = 1; p < kPanels; ++p) any = any | candidates(p);
    if (reduce_max_i32(any) == 0) return;
    for (size_t p = 0; p < kPanels; ++p) {
      if (reduce_max_i32(candidates(p)) != 0) compute(first + p * distance, search);
    }
  }
  LLMC_NOINLINE void compute(size_t panel, Search& search) const {
    alignas(kAlignment) float logits[kPanelRows];
    if constexpr (kTiled) {
      panels_gemv<1, Weight>(weight.panel(panel), 0, search.row, logits, 0);
    } else {
      panel_reference<Weight>(weight.panel(panel), search.row, 0, logits);
    }
    ++search.best.panels;
    for (size_t i = 0; i < kPanelRows && panel * kPanelRows + i < N; ++i)
      search.best.take(logits[i], static_cast<uint32_t>(panel * kPanelRows + i));
  }
};

/// Does what linear() does with Store<N>, for one token, but stores only the greatest result.
template <class Source, class Weight, size_t N>
inline void linear(const KernelContext& context, const Source& source, const Weight& weight,
                   const Choose<N>& chosen) {
  using Task = ChooseTask<Source, Weight, N>;
  static_assert(Task::kFormat.split && Weight::kPanels == panel_count(N));
  unsigned char* tiles = context.work;
  unsigned char* area = tiles + context.run->threads * linear_tile_bytes(1, 1);
  const size_t bytes = Weight::bytes;
  const WorkPartition partition(context.run, Weight::kPanels, workers_for(context.run, bytes, 1),
                                kWeightStreams);
  Task task{source, weight, partition, area, tiles};
  for_each_worker(context.run, task);
  Choice best{0, -__builtin_inff(), 0};
  for (size_t slot = 0; slot < task.partition.workers(); ++slot) {
    const Choice& other = *task.choice(slot);
    best.panels += other.panels;
    best.take(other.logit, other.index);
  }
  *chosen.out = best;
}

}  // namespace LLMC_ISA
}  // namespace llmc
