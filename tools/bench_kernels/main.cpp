// llmc_bench_kernels: rates of a target's kernels on one thread, each beside a limit measured in
// the same process in turn: for one token the fastest of three plain reads of the same bytes (1, 4
// and 8 streams), for prompts the q4 or fma sequence on registers.
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "llmc/kernels.h"
#include "llmc/quant/random.h"
#include "peak.h"

namespace llmc::bench {
namespace {

struct Free {
  void operator()(unsigned char* p) const { std::free(p); }
};
using Memory = std::unique_ptr<unsigned char, Free>;

/// Aligned bytes of a cheap pseudo-random pattern whose 16-bit words are normal numbers as f16, as
/// bf16 and, in pairs, as f32 (subnormal ones would be slow). Many bytes are in huge pages, like
/// llmc's arena.
Memory filled(std::size_t bytes) {
  constexpr std::size_t kHuge = 2u << 20;
  const std::size_t alignment = bytes < 2 * kHuge ? 4096 : kHuge;
  const std::size_t size = round_up(bytes, alignment);
  Memory memory(static_cast<unsigned char*>(std::aligned_alloc(alignment, size)));
  if (alignment == kHuge) madvise(memory.get(), size, MADV_HUGEPAGE);
  std::uint32_t state = 1;
  for (std::size_t i = 0; i + 1 < bytes; i += 2) {
    state = state * 1664525u + 1013904223u;
    store_u16(memory.get() + i, static_cast<std::uint16_t>(0x3800u | ((state >> 16) & 0x3ffu)));
  }
  return memory;
}

void serial(void*, void (*fn)(void*, std::uint32_t), void* arg, std::uint32_t n) {
  for (std::uint32_t i = 0; i < n; ++i) fn(arg, i);
}

llmc_run make_run(std::uint32_t tokens) {
  llmc_run run = {};
  run.count = tokens;
  run.threads = 1;
  run.parallel_for = serial;
  return run;
}

volatile std::uint64_t sink;

/// The products' arithmetic on registers, about a millisecond of it; multiply-adds.
template <bool kQuantized>
double arithmetic() {
  if constexpr (kQuantized) return q4_sequence(65536);
  sink = static_cast<std::uint64_t>(fma_sequence(16 * 65536));
  return 12.0 * 8 * 16 * 65536;
}

/// One token through enough matrices to leave every cache; GB/s of weights beside a plain read.
template <class W>
void generation(const char* name) {
  constexpr std::size_t kMatrices = (std::size_t{256} << 20) / W::bytes;
  constexpr std::size_t kBytes = kMatrices * W::bytes;
  const Memory weights = filled(kBytes), x = filled(W::kColumns * 4), y = filled(W::kRows * 4);
  const Memory work = filled(linear_work_bytes(W::kKind, W::kColumns, 1, 1, 1));
  const llmc_run run = make_run(1);
  const auto read = [&](std::size_t streams) {
    return [&weights, streams] { sink = read_all(weights.get(), kBytes, streams); };
  };
  const auto [product, one, four, eight] = fastest_of(
      5,
      [&] {
        for (std::size_t i = 0; i < kMatrices; ++i) {
          linear(KernelContext{&run, 1, work.get()},
                 Rows<W::kColumns>{reinterpret_cast<float*>(x.get())},
                 W{weights.get() + i * W::bytes},
                 Store<W::kRows>{reinterpret_cast<float*>(y.get())});
        }
      },
      read(1), read(4), read(8));
  const double plain = std::min({one, four, eight});
  std::printf("%-4s M=1   %5zu x %-5zu %7.2f GB/s  plain read %6.2f GB/s  %5.1f %%\n", name,
              W::kRows, W::kColumns, kBytes / product * 1e-9, kBytes / plain * 1e-9,
              100 * plain / product);
}

/// A head with codes distributed like those of rounded weights.
template <class W>
Memory head_of() {
  Memory memory(
      static_cast<unsigned char*>(std::aligned_alloc(1 << 21, round_up(W::bytes, 1 << 21))));
  std::fill_n(memory.get(), W::bytes, std::uint8_t{0});
  constexpr CodedFormat kFormat = coded_format(W::kKind);
  std::uint64_t state = 1;
  for (std::size_t row = 0; row < W::kRows; ++row) {
    std::uint8_t* const panel = memory.get() + row / kPanelRows * W::kPanelBytes;
    for (std::size_t k = 0; k < W::kColumns; ++k) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const auto bell =
          static_cast<int>((state >> 35 & 31) + (state >> 43 & 31) + (state >> 51 & 31));
      coded_set_code(kFormat, panel, W::kColumns, row % kPanelRows, k,
                     std::clamp(bell - 46, -32, 31));
    }
    for (std::size_t g = 0; g < block_count(W::kColumns); ++g)
      coded_set_group(kFormat, panel, W::kColumns, row % kPanelRows, g, 0.01f, 0);
  }
  for (std::size_t panel = 0; kFormat.split && panel < W::kPanels; ++panel)
    split_set_bounds(kFormat, memory.get() + panel * W::kPanelBytes, W::kColumns);
  return memory;
}

/// The head of one token: all logits in both layouts of q6, and the choice of the largest.
template <std::size_t N, std::size_t K>
void head(bool likely) {
  using W = WeightQ6<N, K>;
  using Split = WeightSplitQ6<N, K>;
  const Memory whole = head_of<W>(), split = head_of<Split>();
  const Memory x = filled(K * 4), y = filled(N * 4);
  float* const row = reinterpret_cast<float*>(x.get());
  // With a likely token, and without one: its row of the matrix is like the input.
  for (std::size_t k = 0; k < K; ++k) {
    const int code = coded_code(kSixBits, whole.get(), K, 3, k);
    row[k] = packing::random_float(7, k) + (likely ? 0.02f * static_cast<float>(code) : 0.0f);
  }
  const Memory work = filled(linear_work_bytes(W::kKind, K, 1, 1, 1));
  const llmc_run run = make_run(1);
  const KernelContext context{&run, 1, work.get()};
  Choice choice{};
  const auto [plain, parts, chosen] = fastest_of(
      9,
      [&] {
        linear(context, Rows<K>{row}, W{whole.get()}, Store<N>{reinterpret_cast<float*>(y.get())});
      },
      [&] {
        linear(context, Rows<K>{row}, Split{split.get()},
               Store<N>{reinterpret_cast<float*>(y.get())});
      },
      [&] {
        linear(context, Rows<K>{row}, Split{split.get()},
               Choose<N>{&choice, reinterpret_cast<float*>(y.get())});
      });
  std::printf(
      "head M=1 %6zu x %-5zu q6 %7.3f ms  split %7.3f ms  choice %7.3f ms, %.2f, with %.2f "
      "%% of the panels\n",
      N, K, plain * 1e3, parts * 1e3, chosen * 1e3, plain / chosen,
      100.0 * choice.panels / Split::kPanels);
}

/// `tokens` tokens through one matrix; GMAC/s beside the arithmetic alone.
template <class W>
void prompt(const char* name, std::uint32_t tokens) {
  const Memory weights = filled(W::bytes), x = filled(tokens * W::kColumns * 4);
  const Memory y = filled(tokens * W::kRows * 4);
  const Memory work = filled(linear_work_bytes(W::kKind, W::kColumns, 1, tokens, 1));
  const llmc_run run = make_run(tokens);
  const double macs = static_cast<double>(W::kRows) * W::kColumns * tokens;
  const int repeats = static_cast<int>(4e9 / macs) + 20;
  double arithmetic_macs = 0;
  const auto [seconds, sequence] = fastest_of(
      repeats,
      [&] {
        linear(KernelContext{&run, tokens, work.get()},
               Rows<W::kColumns>{reinterpret_cast<float*>(x.get())}, W{weights.get()},
               Store<W::kRows>{reinterpret_cast<float*>(y.get())});
      },
      [&] { arithmetic_macs = arithmetic<W::kQuantized>(); });
  const double peak = arithmetic_macs / sequence;
  std::printf("%-4s M=%-3u %5zu x %-5zu %7.2f GMAC/s  sequence  %6.2f GMAC/s  %5.1f %%\n", name,
              tokens, W::kRows, W::kColumns, macs / seconds * 1e-9, peak * 1e-9,
              100 * macs / seconds / peak);
}

/// `tokens` tokens through matrices that leave every cache: seconds per weight beside the roof, the
/// larger of a plain read of the weights and of the arithmetic alone.
template <class W>
void batch(const char* name, std::uint32_t tokens) {
  constexpr std::size_t kMatrices = (std::size_t{128} << 20) / W::bytes;
  constexpr std::size_t kBytes = kMatrices * W::bytes;
  const Memory weights = filled(kBytes), x = filled(tokens * W::kColumns * 4);
  const Memory y = filled(tokens * W::kRows * 4);
  const Memory work = filled(linear_work_bytes(W::kKind, W::kColumns, 1, tokens, 1));
  const llmc_run run = make_run(tokens);
  const double macs = static_cast<double>(W::kRows) * W::kColumns * tokens * kMatrices;
  const auto multiply = [&](std::size_t matrices) {
    for (std::size_t i = 0; i < kMatrices; ++i) {
      linear(KernelContext{&run, tokens, work.get()},
             Rows<W::kColumns>{reinterpret_cast<float*>(x.get())},
             W{weights.get() + i % matrices * W::bytes},
             Store<W::kRows>{reinterpret_cast<float*>(y.get())});
    }
  };
  double arithmetic_macs = 0;
  const auto [all, cached, read, sequence] = fastest_of(
      15, [&] { multiply(kMatrices); }, [&] { multiply(1); },
      [&] { sink = read_all(weights.get(), kBytes, 4); },
      [&] { arithmetic_macs = arithmetic<W::kQuantized>(); });
  const double roof = std::max(read, macs / (arithmetic_macs / sequence));
  std::printf(
      "%-4s M=%-3u %5zu x %-5zu %7.2f GMAC/s %6.2f GB/s, in caches %7.2f GMAC/s; roof %7.2f "
      "GMAC/s %5.1f %%\n",
      name, tokens, W::kRows, W::kColumns, macs / all * 1e-9, kBytes / all * 1e-9,
      macs / cached * 1e-9, macs / roof * 1e-9, 100 * roof / all);
}

/// Attention of `tokens` new tokens at the end of a context.
template <class Shape>
void attend(std::uint32_t tokens, std::uint32_t context) {
  const std::size_t blocks = context / Shape::kBlockTokens;
  constexpr std::size_t kBlockBytes = kv_block_bytes(
      Shape::kLayers, Shape::kKvHeads, Shape::kHeadDim, Shape::kBlockTokens, Shape::kFormats);
  const Memory pool = filled(blocks * kBlockBytes);
  std::vector<unsigned char*> table;
  for (std::size_t i = 0; i < blocks; ++i) table.push_back(pool.get() + i * kBlockBytes);
  const Memory q = filled(tokens * Shape::kHeads * Shape::kHeadDim * 4);
  const Memory out = filled(tokens * Shape::kHeads * Shape::kHeadDim * 4);
  const Memory work = filled(attention_work_bytes(Shape::kHeads, Shape::kKvHeads, Shape::kHeadDim,
                                                  context, tokens, 1, Shape::kFormats));
  llmc_run run = make_run(tokens);
  const llmc_segment segment = {table.data(), 0, tokens, context - tokens, 0, nullptr,
                                nullptr,      0, 0};
  run.segments = &segment;
  run.segment_count = 1;
  double macs = 0;
  for (std::uint32_t t = 0; t < tokens; ++t) macs += segment.position + t + 1;
  macs *= 2.0 * Shape::kHeads * Shape::kHeadDim;
  double arithmetic_macs = 0;
  const auto [seconds, sequence] = fastest_of(
      static_cast<int>(1e9 / macs) + 20,
      [&] {
        attention<Shape>(KernelContext{&run, tokens, work.get()}, 0, 0.1f,
                         reinterpret_cast<const float*>(q.get()),
                         reinterpret_cast<float*>(out.get()));
      },
      [&] { arithmetic_macs = arithmetic<false>(); });
  const double peak = arithmetic_macs / sequence;
  std::printf("attn M=%-3u %2zu/%zu heads x %zu, %4u keys %7.2f GMAC/s  fma peak %.2f  %5.1f %%\n",
              tokens, Shape::kHeads, Shape::kKvHeads, Shape::kHeadDim, context,
              macs / seconds * 1e-9, peak * 1e-9, 100 * macs / seconds / peak);
}

/// One token's attention in all layers after `context` tokens, whose keys and values in `kFormats`
/// come from memory; beside a plain read of the same bytes. Each KV head has kGroup query heads.
template <KvFormats kFormats, std::size_t kKvHeads = 16, std::size_t kGroup = 1>
void cached(const char* name, std::uint32_t context) {
  constexpr std::size_t kHeads = kKvHeads * kGroup;
  using Shape = AttentionShape<kHeads, kKvHeads, 64, 32, 24, kFormats>;
  const std::size_t blocks = context / Shape::kBlockTokens;
  const std::size_t bytes = blocks * kv_block_bytes(24, kKvHeads, 64, 32, kFormats);
  const Memory pool = filled(bytes), idle = filled(256u << 20);
  std::vector<unsigned char*> table;
  for (std::size_t i = 0; i < blocks; ++i) table.push_back(pool.get() + i * (bytes / blocks));
  const Memory q = filled(kHeads * 64 * 4), out = filled(kHeads * 64 * 4);
  const Memory work = filled(attention_work_bytes(kHeads, kKvHeads, 64, context, 1, 1, kFormats));
  llmc_run run = make_run(1);
  const llmc_segment segment = {table.data(), 0, 1, context - 1, 0, nullptr, nullptr, 0, 0};
  run.segments = &segment;
  run.segment_count = 1;
  // Weights would have taken the caches since the last step.
  const auto forget = [&] { sink = read_all(idle.get(), 256u << 20, 8); };
  double seconds = 1e30, plain = 1e30;
  for (int i = 0; i < 15; ++i) {
    forget();
    double start = now();
    for (std::size_t layer = 0; layer < Shape::kLayers; ++layer) {
      attention<Shape>(KernelContext{&run, 1, work.get()}, layer, 0.1f,
                       reinterpret_cast<const float*>(q.get()),
                       reinterpret_cast<float*>(out.get()));
    }
    seconds = std::min(seconds, now() - start);
    forget();
    start = now();
    sink = read_all(pool.get(), bytes, 8);
    plain = std::min(plain, now() - start);
  }
  std::printf(
      "attn M=1   24 layers of %zu/%zu heads x 64, %4u keys  %-12s %8.1f us %6.2f GB/s  plain "
      "read %8.1f us  %5.1f %%\n",
      kHeads, kKvHeads, context, name, seconds * 1e6, static_cast<double>(bytes) / seconds * 1e-9,
      plain * 1e6, 100 * plain / seconds);
}

void all_generation() {
  generation<WeightQ4<4096, 4096>>("q4");
  generation<WeightQ4<2048, 2048>>("q4");
  generation<WeightQ4<768, 288>>("q4");
  generation<WeightQ8<2048, 2048>>("q8");
  generation<WeightF16<2048, 2048>>("f16");
  generation<WeightF32<2048, 2048>>("f32");
}

void all_heads() {
  for (const bool likely : {true, false}) {
    head<32000, 288>(likely);
    head<151936, 1024>(likely);
    head<151936, 2048>(likely);
  }
}

void all_prompts() {
  for (const std::uint32_t tokens : {2u, 4u, 8u, 32u, 64u, 128u}) {
    prompt<WeightQ4<2048, 2048>>("q4", tokens);
  }
  prompt<WeightQ4<4096, 4096>>("q4", 64);
  prompt<WeightQ4<5632, 1024>>("q4", 128);  // layers of a model of 0.5 B parameters
  prompt<WeightQ4<1024, 2816>>("q4", 128);
  prompt<WeightQ4<1024, 1024>>("q4", 128);
  prompt<WeightQ4<768, 288>>("q4", 64);
  prompt<WeightQ8<2048, 2048>>("q8", 64);
  prompt<WeightF16<1024, 1024>>("f16", 64);
  prompt<WeightF32<1024, 1024>>("f32", 64);
}

void all_batches() {
  for (const std::uint32_t tokens : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 12u, 16u}) {
    batch<WeightQ4<2048, 1024>>("q4", tokens);
    batch<WeightQ6<2048, 1024>>("q6", tokens);
    batch<WeightQ8<2048, 1024>>("q8", tokens);
  }
}

template <KvFormats kFormats>
void attend_in(const char* name) {
  std::printf("cache in %s\n", name);
  attend<AttentionShape<16, 16, 64, 32, 1, kFormats>>(1, 512);
  attend<AttentionShape<16, 4, 64, 32, 1, kFormats>>(1, 2048);
  attend<AttentionShape<16, 16, 64, 32, 1, kFormats>>(128, 128);
  attend<AttentionShape<16, 16, 64, 32, 1, kFormats>>(128, 512);
  attend<AttentionShape<16, 16, 64, 32, 1, kFormats>>(128, 2048);
  attend<AttentionShape<16, 4, 64, 32, 1, kFormats>>(128, 2048);
}

void all_attention() {
  attend_in<KvFormats{}>("f32");
  attend_in<KvFormats{KvFormat::kF16, KvFormat::kF16}>("f16");
  attend_in<KvFormats{KvFormat::kInt8, KvFormat::kInt8}>("int8");
  attend_in<KvFormats{KvFormat::kInt8, KvFormat::kFp8}>("K int8, V fp8");
}

/// Groups of query heads as models have them.
template <KvFormats kFormats>
void grouped(const char* name) {
  cached<kFormats, 16, 1>(name, 2048);
  cached<kFormats, 8, 2>(name, 4096);
  cached<kFormats, 8, 3>(name, 4096);
  cached<kFormats, 8, 4>(name, 4096);
  cached<kFormats, 2, 6>(name, 4096);
  cached<kFormats, 4, 7>(name, 4096);
  cached<kFormats, 4, 8>(name, 4096);
}

void all_caches() {
  using enum KvFormat;
  for (const std::uint32_t context : {64u, 256u, 1024u}) {
    cached<KvFormats{}>("f32", context);
    cached<KvFormats{kF16, kF16}>("f16", context);
    cached<KvFormats{kInt8, kF16}>("K int8 V f16", context);
    cached<KvFormats{kInt8, kInt8}>("int8", context);
    cached<KvFormats{kInt8, kFp8}>("K int8 V fp8", context);
  }
  grouped<KvFormats{kF16, kF16}>("f16");
  grouped<KvFormats{kInt8, kInt8}>("int8");
}

}  // namespace
}  // namespace llmc::bench

int main(int count, char** arguments) {
  // Without arguments everything, else the named parts.
  const auto wanted = [&](std::string_view part) {
    for (int i = 1; i < count; ++i) {
      if (part == arguments[i]) return true;
    }
    return count == 1;
  };
  if (wanted("generation")) llmc::bench::all_generation();
  if (wanted("head")) llmc::bench::all_heads();
  if (wanted("prompt")) llmc::bench::all_prompts();
  if (wanted("batch")) llmc::bench::all_batches();
  if (wanted("attention")) llmc::bench::all_attention();
  if (wanted("cache")) llmc::bench::all_caches();
  return 0;
}
