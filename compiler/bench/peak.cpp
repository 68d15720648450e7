#include "compiler/bench/peak.h"

#include <algorithm>

#include "compiler/bench/parallel_timer.h"
#include "compiler/plan/weight_formats.h"

namespace llmc::bench {
namespace {

constexpr double kSampleSeconds = 2e-3;

/// Returns the CPU time of this thread in seconds, which excludes preemption by other programs.
double thread_seconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

emit::Arithmetic arithmetic_of(std::string_view format) {
  const auto named = plan::parse_weight_format(format);
  if (!named)  // codes of a quantized model
    return format.starts_with("int4") ? emit::Arithmetic::kNibbles : emit::Arithmetic::kBytes;
  const WeightKind kind = plan::weight_format_info(*named).kind;
  if (!is_quantized(kind)) return emit::Arithmetic::kFloats;
  const bool nibbles = kind == WeightKind::kQ4 || coded_format(kind).bits == 4;
  return nibbles ? emit::Arithmetic::kNibbles : emit::Arithmetic::kBytes;
}

Result<std::unique_ptr<Peak>> Peak::compile(const driver::Toolchain& toolchain,
                                            const target::Target& target,
                                            const std::vector<std::string>& cflags) {
  LLMC_TRY(auto source, LoadedSource::compile(toolchain, target, emit::peak_source(target),
                                              emit::kPeakFunction, cflags));
  return std::unique_ptr<Peak>(new Peak(std::move(source)));
}

std::vector<double> Peak::measure(emit::Arithmetic arithmetic, std::uint32_t threads,
                                  std::uint32_t samples) const {
  using Function = std::uint64_t (*)(std::uint32_t, std::uint64_t, std::int32_t*);
  const auto function = source_->function<Function>();
  const auto rate = [&](std::uint64_t blocks) {
    std::int32_t result = 0;
    const double started = thread_seconds();
    const std::uint64_t macs = function(static_cast<std::uint32_t>(arithmetic), blocks, &result);
    return static_cast<double>(macs) / std::max(thread_seconds() - started, 1e-9);
  };
  constexpr std::uint64_t kTrial = 1000;
  const double trial = std::max({rate(kTrial), rate(kTrial), rate(kTrial)});
  if (trial == 0) return {0.0};
  std::int32_t result = 0;
  const auto macs =
      static_cast<double>(function(static_cast<std::uint32_t>(arithmetic), kTrial, &result));
  const auto blocks =
      static_cast<std::uint64_t>(std::max(kSampleSeconds * trial / macs, 1.0)) * kTrial;
  // [thread][sample]; the first sample of each thread is the warm-up.
  std::vector<std::vector<double>> rates(threads);
  parallel_seconds(threads, samples,
                   [&](std::uint32_t index) { rates[index].push_back(rate(blocks)); });
  std::vector<double> sums(samples);
  for (const std::vector<double>& own : rates) {
    for (std::uint32_t i = 0; i < samples; ++i) sums[i] += own[i + 1];
  }
  return sums;
}

}  // namespace llmc::bench
