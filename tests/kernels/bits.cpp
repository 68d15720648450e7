#include "bits.h"

#include "llmc/kernels.h"
#include "llmc/quant/random.h"

namespace llmc {
inline namespace LLMC_ISA {
namespace {

template <size_t Rows, size_t K>
using Coded4 = WeightCoded<4, 32, CodedScale::kF16, CodedZero::kInteger, Rows, K>;
template <size_t Rows, size_t K>
using Coded8 = WeightCoded<8, 16, CodedScale::kF32, CodedZero::kFloat, Rows, K>;

// Together every way of reading keys and values. Attention takes long to compile: short contexts
// test rules and formats together, long ones test small formats and a window apart.
[[maybe_unused]] constexpr KvFormats kMixed{KvFormat::kF16, KvFormat::kInt8};
[[maybe_unused]] constexpr KvFormats kSmall{KvFormat::kInt8, KvFormat::kFp8};

// What is not the kernels' own is compiled once, not into every function that is measured.
[[gnu::noinline]] void fill_rows(WeightKind kind, unsigned char* data, size_t bytes, size_t rows,
                                 size_t columns, uint64_t seed) {
  __builtin_memset(data, 0, bytes);
  packing::fill_weight(kind, data, columns, 0, rows, seed);
}

struct Bits {
  unsigned char* memory;
  void (*report)(void*, const LlmcKernelBits*);
  void* user;
  size_t used = 0;
  llmc_run run = {};
  llmc_segment segment = {};

  template <class T>
  T* take(size_t count) {
    T* result = reinterpret_cast<T*>(memory + used);
    used += round_up(count * sizeof(T), kAlignment);
    return result;
  }
  template <class W>
  W weight(uint64_t seed) {
    unsigned char* data = take<unsigned char>(W::bytes);
    fill_rows(W::kKind, data, W::bytes, W::kRows, W::kColumns, seed);
    return {data};
  }
  [[gnu::noinline]] float* floats(size_t count, uint64_t seed, float scale = 1) {
    float* result = take<float>(count);
    for (size_t i = 0; i < count; ++i) result[i] = scale * packing::random_float(seed, i);
    return result;
  }
  [[gnu::noinline]] void done(const char* name, const float* y, size_t count) {
    const LlmcKernelBits result{name, run.count, run.threads, packing::hash_of(y, count)};
    report(user, &result);
    used = 0;
  }
  void set(uint32_t tokens, uint32_t threads, uint32_t position) {
    run.count = tokens;
    run.threads = threads;
    at(position);
    run.parallel_for = [](void*, void (*fn)(void*, uint32_t), void* arg, uint32_t n) {
      for (uint32_t i = n; i-- > 0;) fn(arg, i);
    };
  }
  void at(uint32_t position) {
    segment.rows = run.count;
    segment.position = position;
    run.segments = &segment;
    run.segment_count = 1;
  }
  KernelContext kernel_context(size_t work_bytes) {
    return {&run, run.count, take<unsigned char>(work_bytes)};
  }

  template <class W, size_t I>
  [[gnu::noinline]] void products(const char* plain, const char* fused) {
    constexpr size_t K = W::kColumns, N = W::kRows;
    for (int i = 0; i < 2; ++i) {
      const W w = weight<W>(17);
      float* x = floats(run.count * K, 18, 3);
      float* gain = floats(K, 19);
      float* y = floats(run.count * N, 20);
      const KernelContext s = kernel_context(
          linear_work_bytes(W::kKind, K, gated_unit_panels(), run.count, run.threads));
      if (i == 0) {
        linear(s, Rows<K>{x}, w, AddTo<N>{y, floats(N, 21)});
        done(plain, y, run.count * N);
      } else {
        linear(s, RmsNorm<K>{x, gain, 1e-5f}, w, Gated<I, Silu>{y});
        done(fused, y, run.count * I);
      }
    }
  }

  /// The choice from a head with split codes, as a row number and a logit.
  [[gnu::noinline]] void choice(const char* name) {
    constexpr size_t N = 1000, K = 288;
    using W = WeightSplitQ6<N, K, Basis::kHadamard>;
    const W w = weight<W>(22);
    for (size_t panel = 0; panel < W::kPanels; ++panel)
      split_set_bounds(kSplitSixBits, const_cast<unsigned char*>(w.panel(panel)), K);
    const float* x = floats(K, 23, 3);
    Choice chosen{};
    linear(kernel_context(linear_work_bytes(W::kKind, K, 1, 1, run.threads)), Rows<K>{x}, w,
           Choose<N>{&chosen, take<float>(N)});
    float* y = take<float>(2);
    y[0] = static_cast<float>(chosen.index);
    y[1] = chosen.logit;
    done(name, y, 2);
  }

  template <size_t kBlock, class Rule = AttentionRule<>, bool kNorm = false,
            KvFormats kFormats = KvFormats{}>
  [[gnu::noinline]] void attend(const char* name, uint32_t context) {
    using Config = QkvConfig<AttentionShape<6, 2, 20, kBlock, 2, kFormats>>;
    using W = WeightQ4<packed_qkv_rows(6, 2, 20), 96>;
    const uint32_t chunk = run.count;
    float* out = take<float>(context * 120);
    const W w = weight<W>(31);
    const size_t blocks = ceil_div(context, kBlock);
    const size_t pool_bytes = blocks * kv_block_bytes(2, 2, 20, kBlock, kFormats);
    unsigned char* pool = take<unsigned char>(pool_bytes);
    __builtin_memset(pool, 0xff, pool_bytes);
    unsigned char** table = take<unsigned char*>(blocks);
    for (size_t i = 0; i < blocks; ++i) table[i] = pool + (blocks - 1 - i) * (pool_bytes / blocks);
    segment.blocks = table;
    float* x = floats(context * 96, 32, 4);
    float* frequencies = floats(10, 33);
    float* gain = floats(96, 34);
    const float* bias = floats(6 * context, 35, 2);
    const float* sinks = floats(6, 36, 2);
    float* q = take<float>(chunk * 120);
    float* angles = take<float>(chunk * 20);
    const size_t linear_bytes =
        linear_work_bytes(WeightKind::kQ4, 96, qkv_unit_panels(20), chunk, run.threads);
    const size_t attention_bytes =
        attention_work_bytes(6, 2, 20, context, chunk, run.threads, kFormats);
    KernelContext s =
        kernel_context(linear_bytes > attention_bytes ? linear_bytes : attention_bytes);
    for (uint32_t first = 0; first < context; first += chunk) {
      s.tokens = run.count = context - first < chunk ? context - first : chunk;
      at(first);
      rope_angles<20>(s, frequencies, angles);
      const QkvRope<Config> rotate{q, 1, angles};
      if constexpr (kNorm) {
        linear(s, LayerNorm<96>{x + first * 96, gain, gain, 1e-5f}, w,
               QkvNormRope<Config>{rotate, gain, gain, 1e-6f});
      } else {
        linear(s, Rows<96>{x + first * 96}, w, rotate);
      }
      attention<Config, Rule>(s, 1, 0.5f, q, out + first * 120, 3.0f, {bias, context, sinks});
    }
    run.count = chunk;
    done(name, out, context * 120);
  }

  template <KvFormats kFormats>
  [[gnu::noinline]] void attend_to_source(const char* name, uint32_t source) {
    using Shape = SourceShape<6, 2, 20, 200, 2, kFormats>;
    constexpr uint32_t kRows = 40;
    const uint32_t chunk = run.count;
    segment.source_rows = source;
    segment.source = take<unsigned char>(2 * Shape::kLayerBytes);
    KernelContext context =
        kernel_context(attention_work_bytes(6, 2, 20, 200, chunk, run.threads, kFormats));
    source_store<Shape>({&run, source, nullptr}, floats(2 * 2 * source * 20, 51, 2),
                        segment.source + Shape::kLayerBytes);
    const float* q = floats(kRows * 120, 52, 4);
    float* out = take<float>(kRows * 120);
    for (uint32_t first = 0; first < kRows; first += chunk) {
      run.count = kRows - first < chunk ? kRows - first : chunk;
      at(first);
      context.tokens = run.count;
      attention<Shape>(context, 1, 0.5f, q + first * 120, out + first * 120);
    }
    run.count = chunk;
    done(name, out, kRows * 120);
  }

  template <WeightKind kKind>
  [[gnu::noinline]] void experts(const char* name) {
    constexpr size_t kExperts = 5, kSlots = 2, N = 24, K = 288;
    using W = Weight<kKind, kExperts * N, K>;
    const size_t rows = run.count * kSlots;
    const W w = weight<W>(61);
    const float* x = floats(rows * K, 62, 3);
    int64_t* ids = take<int64_t>(rows);
    for (size_t r = 0; r < rows; ++r) ids[r] = static_cast<int64_t>((r * r + r / 2) % kExperts);
    float* y = take<float>(rows * N);
    expert_linear<kExperts>(
        kernel_context(expert_work_bytes(kKind, K, kSlots, kExperts, run.count, run.threads)), x,
        ids, kSlots, w, y, nullptr);
    done(name, y, rows * N);
  }

  template <class Fn>
  [[gnu::noinline]] void function(const char* name) {
    constexpr size_t N = 77;
    const size_t count = run.count * N;
    const float* x = floats(count, 48, 6);
    float* y = take<float>(count);
    unary<Fn, N>(kernel_context(64), x, y);
    done(name, y, count);
  }

  [[gnu::noinline]] void stages() {
    constexpr size_t N = 77;
    const size_t count = run.count * N;
    const KernelContext s = kernel_context(64);
    float* x = floats(count, 41, 20);
    float* y = take<float>(count);
    unary<Exp, N>(s, x, y);
    done("exp", y, count);
    x = floats(count, 42, 20);
    y = take<float>(count);
    gated_activation<Silu, N>(s, x, x, y);
    done("gated silu", y, count);
    function<Tanh>("tanh");
    function<Erf>("erf");
    function<Gelu>("gelu");
    function<GeluTanh>("gelu_tanh");
    x = floats(count, 46, 20);
    y = floats(N, 47);
    layer_norm<N>(s, x, y, y, 1e-6f, x);
    done("layer_norm", x, count);
    x = floats(count, 43, 20);
    y = floats(N, 44);
    rms_norm<N>(s, x, y, 1e-6f, x);
    done("rms_norm", x, count);
    x = floats(38, 45, 3);
    y = take<float>(run.count * 76);
    at(12345);
    rope_angles<76>(s, x, y);
    done("rope_angles", y, run.count * 76);
  }
};

}  // namespace
}  // namespace LLMC_ISA
}  // namespace llmc

extern "C" void LLMC_KERNEL_BITS(unsigned char* memory,
                                 void (*report)(void*, const LlmcKernelBits*), void* user) {
  using namespace llmc;
  Bits bits{memory, report, user};
  constexpr uint32_t kTokens[] = {1, 2, 3, 4, 5, 6, 7, 9, 16, 32, 134};
  for (const uint32_t tokens : kTokens) {
    for (uint32_t threads = 1; threads <= 4; ++threads) {
      if (tokens > 9 && threads != (tokens == 32 ? 1 : 4)) continue;  // 134: more than a strip
      // Without tiles there are no remainders of them.
      if (!kTiled && (threads % 3 != 1 || (tokens != 1 && tokens != 9 && tokens != 134))) continue;
      bits.set(tokens, threads, 0);
      bits.products<WeightQ4<48, 288>, 24>("q4 288", "q4 288 norm swiglu");
      bits.products<WeightQ4<16, 77>, 5>("q4 77", "q4 77 norm swiglu");
      bits.products<WeightQ8<48, 288>, 24>("q8 288", "q8 288 norm swiglu");
      bits.products<WeightQ8<16, 77>, 5>("q8 77", "q8 77 norm swiglu");
      bits.products<WeightQ6<48, 288>, 24>("q6 288", "q6 288 norm swiglu");
      bits.products<WeightQ6<16, 77>, 5>("q6 77", "q6 77 norm swiglu");
      bits.products<WeightSplitQ6<48, 288>, 24>("split q6 288", "split q6 288 norm swiglu");
      if (tokens == 1) bits.choice("choice of split q6");
      bits.products<WeightQ8<48, 480, Basis::kHadamard>, 24>("q8 transformed",
                                                             "q8 transformed norm swiglu");
      bits.products<Coded4<48, 288>, 24>("4-bit codes 288", "4-bit codes 288 norm swiglu");
      bits.products<Coded4<16, 77>, 5>("4-bit codes 77", "4-bit codes 77 norm swiglu");
      bits.products<Coded8<16, 330>, 5>("8-bit codes 330", "8-bit codes 330 norm swiglu");
      bits.products<WeightF16<48, 77>, 24>("f16", "f16 norm swiglu");
      bits.products<WeightF32<48, 77>, 24>("f32", "f32 norm swiglu");
      bits.experts<WeightKind::kQ4>("q4 experts");
      bits.experts<WeightKind::kF32>("f32 experts");
#ifndef LLMC_BITS_OF_PRODUCTS  // of a target that has the rest from another one
      bits.stages();
      // Attention has no tiles of tokens: these are about threads, and chunks that end anywhere.
      if (threads == 2 || threads == 3 || tokens == 5 || tokens == 6) continue;
      bits.attend<32>("qkv and attention", 90);
      bits.attend<32, AttentionRule<40, true>, true, kMixed>(
          "attention in f16 and int8 with norms, window, cap", 90);
      bits.attend<32, AttentionRule<0, true, ScoreBias::kByKey, true>>(
          "attention with a bias by key, sinks", 90);
      bits.attend_to_source<{KvFormat::kInt8, KvFormat::kInt8}>("attention to a source in int8",
                                                                129);
#endif
    }
  }
#ifndef LLMC_BITS_OF_PRODUCTS
  // A long cache: chunk, threads and block size may change, the bits may not.
  constexpr uint32_t kChunks[] = {1, 64, 333};
  for (const uint32_t tokens : kChunks) {
    for (uint32_t threads = 1; threads <= 3; threads += 2) {
      if (threads != (tokens == 333 ? 1 : 3)) continue;  // one token each is slow
      if (!kTiled && (threads != 3 || tokens != 64)) continue;
      bits.set(tokens, threads, 0);
      bits.attend<32>("long attention", 530);
      bits.attend<8, AttentionRule<>, false, kSmall>("long attention in int8 and fp8", 530);
      bits.attend<32, AttentionRule<>, false, kSmall>("long attention in int8 and fp8", 530);
      bits.attend<32, AttentionRule<70, false, ScoreBias::kByDistance>>(
          "long attention with a window, a bias", 530);
    }
  }
#endif
}
