#pragma once

#include "llmc/kernels/epilogue.h"
#include "llmc/kernels/norm.h"
#include "llmc/kernels/product_float.h"
#include "llmc/kernels/product_q4.h"
#include "llmc/kernels/product_q8.h"
#include "llmc/kernels/weights.h"

/// linear(stage, source, weight, epilogue):  epilogue(source[tokens][K] . weight[rows][K]^T)
///
/// With one token every worker prepares the input (norm, quantization) for itself, which is cheaper
/// than meeting at a barrier; with more the tokens are prepared once, spread over the workers. Then
/// each worker computes a consecutive range of units (panels that an epilogue wants together). An
/// output element is computed by one worker in one fixed order of operations, so neither the number
/// of workers nor that of tokens changes its bits.
namespace llmc {
inline namespace LLMC_ISA {

/// x f32[tokens][K]
template <size_t K>
struct Rows {
  static constexpr size_t kColumns = K;
  static constexpr bool kNormalised = false;
  const float* x;

  LLMC_INLINE const float* row(size_t token, float*) const { return x + token * K; }
};

/// x / sqrt(mean(x^2) + eps) * weight
template <size_t K>
struct RmsNorm {
  static constexpr size_t kColumns = K;
  static constexpr bool kNormalised = true;
  const float* x;
  const float* weight;
  float eps;

  LLMC_INLINE const float* row(size_t token, float* buffer) const {
    rms_norm_row<K>(x + token * K, weight, eps, buffer);
    return buffer;
  }
};

/// Turns rows of a source into what the product reads: quantized rows, or normalised float rows
/// kRowBytes apart.
template <class Source, class Weight>
struct LinearInput {
  static constexpr size_t K = Weight::kColumns;
  static constexpr size_t kRowBytes = round_up(K * sizeof(float), kAlignment);
  static_assert(Source::kColumns == K, "source and weight disagree about K");

  /// Row `token` of `tokens` in `area`; `buffer` holds one row.
  static LLMC_INLINE void prepare(const Source& source, size_t token, size_t tokens,
                                  unsigned char* area, float* buffer) {
    if constexpr (Weight::kQuantized) {
      quantize_row<K>(source.row(token, buffer), quantized_at<K>(area, tokens), token);
    } else if constexpr (Source::kNormalised) {
      source.row(token, reinterpret_cast<float*>(area + token * kRowBytes));
    }
  }
};

/// Tokens [token, token + count) of a stage's prepared rows.
template <class Source>
struct PreparedRows {
  const Source& source;
  unsigned char* input;
  size_t tokens, token, count;
};

/// `panels` panels from `panel` on: tile[panels][count][8].
template <WeightKind Kind, size_t Rows, size_t K, class Source>
LLMC_INLINE void panel_products(const Weight<Kind, Rows, K>& weight, size_t panel, size_t panels,
                                const PreparedRows<Source>& rows, float* tile) {
  if constexpr (Weight<Kind, Rows, K>::kQuantized) {
    const Quantized x = quantized_at<K>(rows.input, rows.tokens);
    for (size_t p = 0; p < panels; ++p, tile += rows.count * kPanelRows) {
      const uint8_t* at = weight.panel(panel + p);
      if constexpr (Kind == WeightKind::kQ8) {
        q8_panel_tokens<K>(at, x, rows.token, rows.count, tile);
      } else if (rows.tokens == 1) {
        store(tile, q4_panel_single<K>(at, x));
      } else {
        q4_panel_tokens<K>(at, x, rows.token, rows.count, tile);
      }
    }
  } else {
    constexpr size_t kStride =
        Source::kNormalised ? LinearInput<Source, Weight<Kind, Rows, K>>::kRowBytes / sizeof(float)
                            : K;
    const float* x;
    if constexpr (Source::kNormalised) {
      x = reinterpret_cast<const float*>(rows.input);
    } else {
      x = rows.source.x;
    }
    float_product<Kind, K>(weight.panel(panel), panels, x + rows.token * kStride, kStride,
                           rows.count, tile);
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

template <class Source, class Weight, class Epilogue>
struct LinearTask {
  using Input = LinearInput<Source, Weight>;
  static constexpr size_t K = Weight::kColumns;
  static constexpr size_t kUnits = Weight::kPanels / Epilogue::kUnitPanels;
  static constexpr size_t kGroup =
      kPanelGroup > Epilogue::kUnitPanels ? kPanelGroup / Epilogue::kUnitPanels : 1;
  static constexpr bool kPrepared = Weight::kQuantized || Source::kNormalised;
  static_assert(Weight::kPanels % Epilogue::kUnitPanels == 0,
                "packed rows do not fit the epilogue");

  const llmc_run* run;
  Source source;
  Weight weight;
  Epilogue epilogue;
  size_t tokens, workers;
  unsigned char* area;   // prepared input: one for all, or (one token) one for each worker
  unsigned char* tiles;  // a tile for each worker

  void work(size_t slot) {
    unsigned char* input = area;
    if (tokens == 1 && kPrepared) {
      input += slot * linear_input_bytes(Weight::kKind, K, 1);
      float* buffer = reinterpret_cast<float*>(input + linear_input_bytes(Weight::kKind, K, 1) -
                                               Input::kRowBytes);
      Input::prepare(source, 0, 1, input, buffer);
    }
    float* tile =
        reinterpret_cast<float*>(tiles + slot * linear_tile_bytes(Epilogue::kUnitPanels, tokens));
    const Range range = worker_range(kUnits, slot, workers);
    for (size_t unit = range.begin; unit < range.end; unit += kGroup) {
      const size_t left = range.end - unit;
      const size_t units = left < kGroup ? left : kGroup;
      for (size_t token = 0; token < tokens; token += kTokenStrip) {
        const size_t count = tokens - token < kTokenStrip ? tokens - token : kTokenStrip;
        panel_products(weight, unit * Epilogue::kUnitPanels, units * Epilogue::kUnitPanels,
                       PreparedRows<Source>{source, input, tokens, token, count}, tile);
        for (size_t u = 0; u < units; ++u) {
          epilogue.finish(run, unit + u, tile + u * Epilogue::kUnitPanels * count * kPanelRows,
                          token, count);
        }
      }
    }
  }
};

/// Spreads the preparation of several tokens over the workers.
template <class Source, class Weight>
struct PrepareTask {
  using Input = LinearInput<Source, Weight>;
  Source source;
  size_t tokens, workers;
  unsigned char* area;
  unsigned char* buffers;  // a row for each worker

  void work(size_t slot) {
    float* buffer = reinterpret_cast<float*>(buffers + slot * Input::kRowBytes);
    const Range range = worker_range(tokens, slot, workers);
    for (size_t t = range.begin; t < range.end; ++t) {
      Input::prepare(source, t, tokens, area, buffer);
    }
  }
};

template <class Source, class Weight, class Epilogue>
inline void linear(const Stage& stage, const Source& source, const Weight& weight,
                   const Epilogue& epilogue) {
  using Task = LinearTask<Source, Weight, Epilogue>;
  constexpr size_t K = Weight::kColumns;
  const size_t tokens = stage.tokens, workers = stage.run->threads;
  const size_t input_bytes = linear_input_bytes(Weight::kKind, K, tokens);
  unsigned char* tiles = stage.work;
  unsigned char* area = tiles + workers * linear_tile_bytes(Epilogue::kUnitPanels, tokens);
  if (Task::kPrepared && tokens > 1) {
    PrepareTask<Source, Weight> prepare{source, tokens, workers, area, area + input_bytes};
    for_each_worker(stage.run, prepare);
  }
  Task task{stage.run, source, weight, epilogue, tokens, workers, area, tiles};
  for_each_worker(stage.run, task);
}

}  // namespace LLMC_ISA
}  // namespace llmc
