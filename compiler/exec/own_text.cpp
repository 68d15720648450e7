#include "compiler/exec/own_text.h"

#include <algorithm>

#include "compiler/plan/kv_format.h"
#include "runtime/hosted/thread_pool.h"

namespace llmc::exec {
namespace {

/// Number of texts that are generated in one batch, so that the weights are read once for all.
constexpr std::uint32_t kTexts = 16;

/// Returns the options with which the model is compiled to generate texts on this machine.
NativeOptions writer_options(const NativeOptions& options, std::uint32_t length) {
  const driver::CompileOptions& given = options.compile;
  NativeOptions own;
  own.compile.model = given.model;
  own.use_cache = options.use_cache;
  own.compile.target = target::best_here().name;
  own.compile.quant = ir::WeightFormat::kQ8;
  own.compile.kv = plan::default_kv_formats(own.compile.quant.format);
  own.compile.ctx = length;
  own.compile.sequences = own.compile.batch = kTexts;
  own.compile.cc = given.cc;
  own.compile.import = given.import;
  own.compile.reader = given.reader;
  return own;
}

}  // namespace

Result<std::vector<std::int32_t>> own_text(const NativeOptions& options, std::int32_t bos,
                                           std::uint32_t length, std::uint32_t count,
                                           const driver::Progress& progress) {
  LLMC_TRY(const auto native, load_native(writer_options(options, length), progress));
  const ModelFacts& model = native->model();
  const std::uint32_t threads = std::clamp(hosted::usable_cores(), 1u, model.threads_max);
  const std::size_t tokens = std::min(length, model.ctx);
  std::vector<std::int32_t> ids;
  std::uint64_t begun = 0;
  while (ids.size() < count) {
    LLMC_TRY(const auto session, native->start(threads));
    std::vector<std::uint32_t> sequences{0};
    std::vector<std::vector<std::int32_t>> texts(kTexts);
    for (std::size_t i = 0; i < kTexts; ++i, ++begun) {
      if (i > 0) {
        LLMC_TRY(const std::uint32_t made, session->get<std::uint32_t>(&Api::new_sequence));
        sequences.push_back(made);
      }
      LLMC_RETURN_IF_ERROR(session->call(&Api::select, sequences[i]));
      llmc_sampling sampling{};
      sampling.temperature = 1;
      sampling.top_p = sampling.typical_p = 1;
      sampling.seed = begun;
      LLMC_RETURN_IF_ERROR(session->call(&Api::set_sampling, &sampling));
      constexpr std::uint64_t kFar = 2654435761;  // a prime near 2^32 / golden ratio
      const auto own = static_cast<std::int32_t>((begun + 1) * kFar % (1ull << 32) % model.vocab);
      texts[i].push_back(bos >= 0 ? bos : own);
      LLMC_RETURN_IF_ERROR(session->prefill(texts[i]));
    }
    std::vector<std::int32_t> next(kTexts);
    for (std::size_t step = 1; step < tokens; ++step) {
      LLMC_RETURN_IF_ERROR(
          session->call(&Api::step_batch, sequences.data(), sequences.size(), next.data()));
      for (std::size_t i = 0; i < kTexts; ++i) texts[i].push_back(next[i]);
      driver::report(progress, "text", ids.size() + step * kTexts,
                     std::max<std::uint64_t>(count, ids.size() + tokens * kTexts));
    }
    for (const auto& text : texts) ids.insert(ids.end(), text.begin(), text.end());
  }
  return ids;
}

}  // namespace llmc::exec
