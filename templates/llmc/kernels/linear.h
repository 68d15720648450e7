#pragma once

#include "llmc/kernels/epilogue.h"
#include "llmc/kernels/linear_input.h"
#include "llmc/kernels/product_few.h"
#include "llmc/kernels/product_float.h"
#include "llmc/kernels/product_reference.h"
#include "llmc/sizes.h"

/// linear(context, source, weight, epilogue):  epilogue(source[tokens][K] . weight[rows][K]^T)
///
/// With one token, every worker prepares the input (norm, quantization) separately, which is
/// cheaper than a barrier. With several tokens, the workers share the preparation. Then each worker
/// computes ranges of consecutive units (a unit is the panels that an epilogue needs together).
/// One worker computes an output element in a fixed order of operations, so its bits do not depend
/// on the number of workers or tokens.
namespace llmc {
inline namespace LLMC_ISA {

/// Computes the products of `panels` consecutive panels from `panel` on, and stores them in
/// tile[panels][count][8].
template <WeightKind Kind, size_t N, size_t K, Basis basis, class Source>
LLMC_INLINE void panel_products(const Weight<Kind, N, K, basis>& weight, size_t panel,
                                size_t panels, const PreparedRows<Source>& rows, float* tile) {
  using W = Weight<Kind, N, K, basis>;
  if constexpr (W::kQuantized) {
    const Quantized x = quantized_at<K>(rows.input, rows.tokens);
    const size_t tile_stride = rows.count * kPanelRows;
    for (size_t p = 0; p < panels; p += kPanelGroup) {
      const size_t group = panels - p < kPanelGroup ? panels - p : kPanelGroup;
      float* const y = tile + p * tile_stride;
      if constexpr (Kind == WeightKind::kQ4) {
        if constexpr (kExactPanels) {
          q4_exact_tokens<ExactPanels, K>(weight.panel(panel + p), group, x, rows.token, rows.count,
                                          y);
        } else {
          q4_panels_tokens<K>(weight.panel(panel + p), group, x, rows.token, rows.count, y);
        }
      } else if constexpr (has_vnni_codes(coded_format(Kind))) {
        vnni_codes_group<VnniVector, coded_format(Kind)>(weight.panel(panel + p), K, group, x,
                                                         rows.token, rows.count, y);
      } else {
        coded_panels_tokens<coded_format(Kind), K>(weight.panel(panel + p), group, x, rows.token,
                                                   rows.count, y);
      }
    }
  } else {
    float_product<Kind, K>(weight.panel(panel), panels, rows.template floats<W>(),
                           PreparedRows<Source>::template stride<W>(), rows.count, tile);
  }
}
template <class First, class Second, class Source>
LLMC_INLINE void panel_products(const Joined<First, Second>& weight, size_t panel, size_t panels,
                                const PreparedRows<Source>& rows, float* tile) {
  const size_t left = panel < First::kPanels ? First::kPanels - panel : 0;
  const size_t first = left < panels ? left : panels;
  if (first > 0) panel_products(weight.first, panel, first, rows, tile);
  if (first < panels) {
    panel_products(weight.second, panel + first - First::kPanels, panels - first, rows,
                   tile + first * rows.count * kPanelRows);
  }
}

/// Computes the products of one token with kPanels panels at a distance of `stride` bytes. The
/// results are `y_stride` floats apart.
template <size_t kPanels, class W, class Source>
LLMC_INLINE void panels_gemv(const uint8_t* panel, size_t stride, const PreparedRows<Source>& rows,
                             float* y, size_t y_stride) {
  constexpr size_t K = W::kColumns;
  if constexpr (W::kKind == WeightKind::kQ4) {
    q4_panels_gemv<K, kPanels>(panel, stride, quantized_at<K>(rows.input, 1), y, y_stride);
  } else if constexpr (W::kQuantized) {
    coded_panels_gemv<coded_format(W::kKind), K, kPanels>(
        panel, stride, quantized_at<K>(rows.input, 1), y, y_stride);
  } else {
    float_panels_gemv<W::kKind, K, kPanels>(panel, stride, rows.template floats<W>(), y, y_stride);
  }
}

/// Computes the products of few tokens with panels that are read concurrently. The results of a
/// panel are y[count][8], and those of panels are `y_stride` floats apart.
template <class W, class Source>
LLMC_INLINE void panels_few(const PanelStreams& streams, const PreparedRows<Source>& rows, float* y,
                            size_t y_stride) {
  constexpr size_t K = W::kColumns;
  const Quantized x = quantized_at<K>(rows.input, rows.tokens);
  if constexpr (W::kKind != WeightKind::kQ4) {
    constexpr CodedFormat kFormat = coded_format(W::kKind);
    if constexpr (has_vnni_codes(kFormat)) {
      vnni_codes_few<VnniVector, kFormat>(streams, K, x, rows.token, rows.count, y, y_stride);
    } else {
      few_products<CodedFew<kFormat>>(streams, K, x, rows.token, rows.count, y, y_stride);
    }
  } else if constexpr (kExactPanels) {
    q4_exact_few<ExactPanels>(streams, K, x, rows.token, rows.count, y, y_stride);
  } else {
    few_products<Q4Few>(streams, K, x, rows.token, rows.count, y, y_stride);
  }
}

/// Computes y[8], the product of one panel with row `token` of the prepared rows, without tiling.
template <class W, class Source>
LLMC_INLINE void panel_reference(const uint8_t* panel, const PreparedRows<Source>& rows,
                                 size_t token, float* y) {
  constexpr size_t K = W::kColumns;
  if constexpr (!W::kQuantized) {
    const float* x = rows.template floats<W>() + token * PreparedRows<Source>::template stride<W>();
    float_panels_gemv<W::kKind, K, 1>(panel, 0, x, y, 0);
  } else if constexpr (W::kKind == WeightKind::kQ4) {
    q4_panel_reference<K>(panel, quantized_at<K>(rows.input, rows.tokens), token, y);
  } else {
    coded_panel_reference<coded_format(W::kKind), K>(
        panel, quantized_at<K>(rows.input, rows.tokens), token, y);
  }
}

static_assert(kWeightStreams <= kStreams, "tiles are too small");
static_assert(kPanelGroup == kStreams, "ranges are multiples of both");

template <class Source, class Weight, class Epilogue>
struct LinearTask {
  using Input = LinearInput<Source, Weight>;
  static constexpr size_t K = Weight::kColumns;
  static constexpr size_t kUnitPanels = Epilogue::kUnitPanels;
  static constexpr size_t kUnits = Weight::kPanels / kUnitPanels;
  static constexpr size_t kGroup = kPanelGroup > kUnitPanels ? kPanelGroup / kUnitPanels : 1;
  static constexpr bool kHasFew = kFewTokens > 0 && Weight::kQuantized;
  static constexpr bool kPrepared = Weight::kQuantized || Source::kCopied;
  static_assert(Weight::kPanels % kUnitPanels == 0, "packed rows do not fit the epilogue");

  const llmc_run* run;
  Source source;
  Weight weight;
  Epilogue epilogue;
  size_t tokens;
  WorkPartition partition;
  /// The prepared input: with one token, a copy for each worker; with more tokens, shared by all
  /// workers.
  unsigned char* area;
  unsigned char* tiles;  // one tile per worker

  void work(size_t slot) {
    float* tile = reinterpret_cast<float*>(tiles + slot * linear_tile_bytes(kUnitPanels, tokens));
    Range units = partition.first(slot);
    if (units.begin == units.end) return;
    if (tokens > 1) {
      const PreparedRows<Source> rows{source, area, tokens, 0, tokens};
      for (; units.begin < units.end; units = partition.next()) {
        if constexpr (kTiled) {
          several(units, tile);
        } else {
          reference(weight, units, 0, rows, tile);
        }
      }
      return;
    }
    unsigned char* input = area + slot * linear_input_bytes(Weight::kKind, K, 1);
    if (kPrepared) {
      unsigned char* buffer = input + linear_input_bytes(Weight::kKind, K, 1) - Input::kRowBytes;
      Input::prepare(source, 0, 1, input, reinterpret_cast<float*>(buffer));
    }
    const PreparedRows<Source> row{source, input, 1, 0, 1};
    for (; units.begin < units.end; units = partition.next()) {
      if constexpr (kTiled) {
        gemv(weight, units, 0, row, tile);
      } else {
        reference(weight, units, 0, row, tile);
      }
    }
  }

  /// Processes several tokens.
  LLMC_INLINE void several(Range range, float* tile) const {
    if constexpr (kHasFew) {
      if (tokens <= kFewLimit) {
        few(weight, range, 0, PreparedRows<Source>{source, area, tokens, 0, tokens}, tile);
        return;
      }
    }
    tiled(range, tile);
  }

  /// Processes many tokens, in strips. A panel's weights stay in the cache while they are used for
  /// a strip of tokens.
  LLMC_INLINE void tiled(Range range, float* tile) const {
    // Strips have about the same size, so that none has few tokens. If activations are stored in
    // groups of tokens, strips have kTokenStrip tokens, a whole number of groups.
    const size_t strips = ceil_div(tokens, kTokenStrip);
    const auto first_token = [&](size_t strip) LLMC_INLINE_LAMBDA {
      const size_t whole = strip * kTokenStrip;
      return kActivationTokens == 1 ? tokens * strip / strips : whole < tokens ? whole : tokens;
    };
    for (size_t unit = range.begin; unit < range.end; unit += kGroup) {
      const size_t left = range.end - unit;
      const size_t units = left < kGroup ? left : kGroup;
      for (size_t strip = 0; strip < strips; ++strip) {
        const size_t token = first_token(strip), count = first_token(strip + 1) - token;
        panel_products(weight, unit * kUnitPanels, units * kUnitPanels,
                       PreparedRows<Source>{source, area, tokens, token, count}, tile);
        // Store results token by token, because adjacent units of a row share cache lines.
        for (size_t t = 0; t < count; ++t) {
          for (size_t u = 0; u < units; ++u) {
            epilogue.finish(run, unit + u, tile + (u * kUnitPanels * count + t) * kPanelRows,
                            count * kPanelRows, token + t);
          }
        }
      }
    }
  }

  /// Processes one token. Splits the range into kWeightStreams parts that are read concurrently.
  /// `range` contains units of `matrix`, whose first unit is unit `first` of the stage.
  template <WeightKind Kind, size_t N, Basis basis>
  LLMC_INLINE void gemv(const llmc::Weight<Kind, N, K, basis>& matrix, Range range, size_t first,
                        const PreparedRows<Source>& rows, float* tile) const {
    using W = llmc::Weight<Kind, N, K, basis>;
    constexpr size_t kUnitFloats = kUnitPanels * kPanelRows;
    const size_t part = (range.end - range.begin) / kWeightStreams;
    for (size_t i = 0; i < part; ++i) {
      const size_t unit = range.begin + i;
      for (size_t p = 0; p < kUnitPanels; ++p) {
        panels_gemv<kWeightStreams, W>(matrix.panel(unit * kUnitPanels + p),
                                       part * kUnitPanels * W::kPanelBytes, rows,
                                       tile + p * kPanelRows, kUnitFloats);
      }
      for (size_t stream = 0; stream < kWeightStreams; ++stream) {
        epilogue.finish(run, first + unit + stream * part, tile + stream * kUnitFloats, kPanelRows,
                        0);
      }
    }
    for (size_t unit = range.begin + part * kWeightStreams; unit < range.end; ++unit) {
      size_t p = 0;
      for (; p + 2 <= kUnitPanels; p += 2) {
        panels_gemv<2, W>(matrix.panel(unit * kUnitPanels + p), W::kPanelBytes, rows,
                          tile + p * kPanelRows, kPanelRows);
      }
      if (p < kUnitPanels) {
        panels_gemv<1, W>(matrix.panel(unit * kUnitPanels + p), W::kPanelBytes, rows,
                          tile + p * kPanelRows, kPanelRows);
      }
      epilogue.finish(run, first + unit, tile, kPanelRows, 0);
    }
  }
  template <class First, class Second>
  LLMC_INLINE void gemv(const Joined<First, Second>& matrix, Range range, size_t first,
                        const PreparedRows<Source>& rows, float* tile) const {
    each_matrix(matrix, range, first,
                [&](const auto& part, Range units, size_t unit)
                    LLMC_INLINE_LAMBDA { gemv(part, units, unit, rows, tile); });
  }

  /// Processes few tokens. Splits the range into kStreams parts that are read concurrently, as in
  /// gemv(). For the remaining units, reads kStreams adjacent panels concurrently.
  template <WeightKind Kind, size_t N, Basis basis>
  LLMC_INLINE void few(const llmc::Weight<Kind, N, K, basis>& matrix, Range range, size_t first,
                       const PreparedRows<Source>& rows, float* tile) const {
    using W = llmc::Weight<Kind, N, K, basis>;
    const size_t panel_floats = rows.count * kPanelRows, unit_floats = kUnitPanels * panel_floats;
    const size_t part = (range.end - range.begin) / kStreams;
    // Finishes `count` units at a distance of `distance` units.
    const auto finish = [&](size_t unit, size_t count, size_t distance) LLMC_INLINE_LAMBDA {
      for (size_t t = 0; t < rows.count; ++t) {
        for (size_t i = 0; i < count; ++i) {
          epilogue.finish(run, first + unit + i * distance, tile + i * unit_floats + t * kPanelRows,
                          panel_floats, rows.token + t);
        }
      }
    };
    for (size_t i = 0; i < part; ++i) {
      const size_t unit = range.begin + i;
      for (size_t p = 0; p < kUnitPanels; ++p) {
        panels_few<W>(
            {matrix.panel(unit * kUnitPanels + p), part * kUnitPanels * W::kPanelBytes, kStreams},
            rows, tile + p * panel_floats, unit_floats);
      }
      finish(unit, kStreams, part);
    }
    const size_t rest = range.begin + part * kStreams;
    const size_t panels = (range.end - rest) * kUnitPanels;
    for (size_t p = 0; p < panels; p += kStreams) {
      const size_t left = panels - p;
      panels_few<W>(
          {matrix.panel(rest * kUnitPanels + p), W::kPanelBytes, left < kStreams ? left : kStreams},
          rows, tile + p * panel_floats, panel_floats);
    }
    if (panels > 0) finish(rest, range.end - rest, 1);
  }
  template <class First, class Second>
  LLMC_INLINE void few(const Joined<First, Second>& matrix, Range range, size_t first,
                       const PreparedRows<Source>& rows, float* tile) const {
    each_matrix(matrix, range, first,
                [&](const auto& part, Range units, size_t unit)
                    LLMC_INLINE_LAMBDA { few(part, units, unit, rows, tile); });
  }

  /// Processes all tokens without tiling, unit by unit.
  template <WeightKind Kind, size_t N, Basis basis>
  LLMC_INLINE void reference(const llmc::Weight<Kind, N, K, basis>& matrix, Range range,
                             size_t first, const PreparedRows<Source>& rows, float* tile) const {
    for (size_t unit = range.begin; unit < range.end; ++unit) {
      for (size_t token = 0; token < rows.count; ++token) {
        for (size_t p = 0; p < kUnitPanels; ++p) {
          panel_reference<llmc::Weight<Kind, N, K, basis>>(matrix.panel(unit * kUnitPanels + p),
                                                           rows, token, tile + p * kPanelRows);
        }
        epilogue.finish(run, first + unit, tile, kPanelRows, token);
      }
    }
  }
  template <class First, class Second>
  LLMC_INLINE void reference(const Joined<First, Second>& matrix, Range range, size_t first,
                             const PreparedRows<Source>& rows, float* tile) const {
    each_matrix(matrix, range, first,
                [&](const auto& part, Range units, size_t unit)
                    LLMC_INLINE_LAMBDA { reference(part, units, unit, rows, tile); });
  }

  /// Calls f(matrix, range of its units, index of its first unit in the stage) for each of the two
  /// joined matrices that has units in `range`.
  template <class First, class Second, class F>
  static LLMC_INLINE void each_matrix(const Joined<First, Second>& matrix, Range range,
                                      size_t first, F f) {
    static_assert(First::kPanels % kUnitPanels == 0, "a unit has rows of both joined matrices");
    constexpr size_t kBorder = First::kPanels / kUnitPanels;
    if (range.begin < kBorder) {
      const size_t end = range.end < kBorder ? range.end : kBorder;
      f(matrix.first, Range{range.begin, end}, first);
    }
    if (range.end > kBorder) {
      const size_t begin = range.begin > kBorder ? range.begin - kBorder : 0;
      f(matrix.second, Range{begin, range.end - kBorder}, first + kBorder);
    }
  }
};

/// Distributes the preparation of several tokens over the workers, in groups of tokens that are
/// adjacent in memory (kActivationTokens), so that workers do not write to the same cache lines.
template <class Source, class Weight>
struct PrepareTask {
  using Input = LinearInput<Source, Weight>;
  Source source;
  size_t tokens;
  WorkPartition partition;
  unsigned char* area;
  unsigned char* buffers;  // one row per worker

  void work(size_t slot) {
    float* buffer = reinterpret_cast<float*>(buffers + slot * Input::kRowBytes);
    for (Range range = partition.first(slot); range.begin < range.end; range = partition.next()) {
      const size_t last = range.end * kActivationTokens;
      const size_t end = last < tokens ? last : tokens;
      for (size_t t = range.begin * kActivationTokens; t < end; ++t) {
        Input::prepare(source, t, tokens, area, buffer);
      }
    }
  }
};

template <class Source, class Weight, class Epilogue>
inline void linear(const KernelContext& context, const Source& source, const Weight& weight,
                   const Epilogue& epilogue) {
  using Task = LinearTask<Source, Weight, Epilogue>;
  constexpr size_t K = Weight::kColumns;
  const size_t tokens = context.tokens, workers = context.run->threads;
  const size_t input_bytes = linear_input_bytes(Weight::kKind, K, tokens);
  unsigned char* tiles = context.work;
  unsigned char* area = tiles + workers * linear_tile_bytes(Epilogue::kUnitPanels, tokens);
  if (Task::kPrepared && tokens > 1) {
    const WorkPartition groups(context.run, ceil_div(tokens, kActivationTokens), workers);
    PrepareTask<Source, Weight> prepare{source, tokens, groups, area, area + input_bytes};
    for_each_worker(context.run, prepare);
  }
  const size_t bytes = Weight::kPanels * weight_panel_bytes(Weight::kKind, K);
  const size_t granule = tokens == 1                            ? kWeightStreams
                         : Task::kHasFew && tokens <= kFewLimit ? kStreams
                                                                : Task::kGroup;
  const WorkPartition partition(context.run, Task::kUnits, workers_for(context.run, bytes, tokens),
                                granule);
  Task task{context.run, source, weight, epilogue, tokens, partition, area, tiles};
  for_each_worker(context.run, task);
}

}  // namespace LLMC_ISA
}  // namespace llmc
