#pragma once

#include "llmc/kernels/linear.h"

/// linear_rows(context, source, weight, epilogue) is like linear(), for the many rows of a plain
/// graph. If a layer has too few panels for all workers, or if it would prepare too many rows
/// (Source::kInBlocks), the workers divide the rows: each prepares and multiplies blocks of them by
/// itself. The bits are those of linear().
namespace llmc {
inline namespace LLMC_ISA {

/// Applies an epilogue to rows whose numbers begin at `first` instead of 0.
template <class Epilogue>
struct EpilogueFrom {
  static constexpr size_t kUnitPanels = Epilogue::kUnitPanels;
  Epilogue epilogue;
  size_t first;

  LLMC_INLINE void finish(const llmc_run* run, size_t unit, const float* tile, size_t panel_stride,
                          size_t token) const {
    epilogue.finish(run, unit, tile, panel_stride, first + token);
  }
};

/// Computes blocks of rows, each on one worker.
template <class Source, class Weight, class Epilogue>
struct RowBlocksTask {
  llmc_run run;  // for one worker
  Source source;
  Weight weight;
  Epilogue epilogue;
  size_t rows, block;
  WorkPartition partition;
  unsigned char* work_areas;  // one per worker
  size_t area_bytes;

  void work(size_t slot) {
    unsigned char* const area = work_areas + slot * area_bytes;
    for (Range range = partition.first(slot); range.begin < range.end; range = partition.next()) {
      for (size_t b = range.begin; b < range.end; ++b) {
        const size_t first = b * block, rest = rows - first;
        const auto count = static_cast<uint32_t>(rest < block ? rest : block);
        linear(KernelContext{&run, count, area}, source.from(first), weight,
               EpilogueFrom<Epilogue>{epilogue, first});
      }
    }
  }
};

template <class Source, class Weight, class Epilogue>
inline void linear_rows(const KernelContext& context, const Source& source, const Weight& weight,
                        const Epilogue& epilogue) {
  using Task = LinearTask<Source, Weight, EpilogueFrom<Epilogue>>;
  constexpr size_t K = Weight::kColumns;
  const size_t rows = context.tokens, threads = context.run->threads;
  const bool few_units = threads > 1 && Task::kUnits < threads * Task::kGroup;
  if (rows < kMinRowBlock * threads || !(Source::kInBlocks || few_units)) {
    linear(context, source, weight, EpilogueFrom<Epilogue>{epilogue, 0});
    return;
  }
  const size_t block = row_block(Weight::kKind, K, rows, threads);
  const size_t bytes =
      linear_work_bytes(Weight::kKind, K, Epilogue::kUnitPanels, block, 1, Task::kPrepared);
  llmc_run alone = *context.run;
  alone.threads = 1;
  const WorkPartition partition(context.run, ceil_div(rows, block), threads);
  RowBlocksTask<Source, Weight, Epilogue> task{alone, source,    weight,       epilogue, rows,
                                               block, partition, context.work, bytes};
  for_each_worker(context.run, task);
}

}  // namespace LLMC_ISA
}  // namespace llmc
