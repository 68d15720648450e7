#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/plan/program.h"
#include "llmc/parts.h"

/// Classification of stages by part of a layer, based on the buffers that they use.
namespace llmc::plan {

/// Returns "qkv", "attention", "attention_out", "gate_up", "down", "head" or "rest".
std::string_view part_name(Part part);
/// Returns nullopt if `name` is not one of these names.
std::optional<Part> parse_part(std::string_view name);

/// Returns the part of each of `stages`, in order. `stages` is a loop body, a whole forward pass or
/// a head. A loop is kRest; the stages of its body are classified separately. A norm belongs to the
/// part of the first stage that reads its result, an elementwise stage or a nest to the part of the
/// operand that was computed last.
std::vector<Part> parts_of(const std::vector<Stage>& stages);

/// Matrix products with weights of one part and format: multiply-adds and weight bytes per token,
/// or per run of a plain graph.
struct Products {
  Part part = Part::kRest;
  std::string format;  // PackedWeight::format_name() of the matrices
  std::uint64_t macs = 0, bytes = 0;
  std::uint64_t split_bytes = 0;  // part of `bytes`: matrices with split codes, which greedy
                                  // choices read only in part
};
/// Returns the products by part and format, in the order of the parts. The head is counted as if it
/// ran for every token, although in a prompt it runs for the last token only.
std::vector<Products> products_of(const Program& program);

/// What attention reads from a sequence's cache for one token, in all layers with the same window.
struct CacheReads {
  std::uint64_t window = 0;  // as in AttentionStage
  bool chunked = false;
  std::uint64_t key_bytes = 0;  // of one token's keys and values in all these layers

  /// Returns the bytes that are read for the token at `position`.
  std::uint64_t bytes_at(std::uint64_t position) const;
};
/// Returns the cache reads of a decode step, without cross-attention. `block` is the number of
/// tokens per KV block.
std::vector<CacheReads> cache_reads_of(const Program& program, KvFormats formats,
                                       std::uint32_t block);

/// Returns the multiply-adds of a stage's matrix products per row. `loop`: the loop whose body
/// contains the stage, or nullptr.
std::uint64_t product_multiply_adds(const Program& program, const Stage& stage,
                                    const LoopStage* loop);

/// Returns the multiply-adds of a plain graph's stage per run: of its products, convolution or
/// attention. Open dims count with their bounds.
std::uint64_t run_multiply_adds(const Program& program, const Stage& stage);

/// Work of loop nests and of kernels, per token or per run of a plain graph. Tiled calls
/// (CallStage::tiled) count as kernels. Attention of decoders is not counted.
struct NestWork {
  std::uint64_t stages = 0;                            // number of nest executions
  std::uint64_t multiply_adds = 0, bytes = 0;          // of products in nests; weight bytes read
  std::uint64_t all_multiply_adds = 0, all_bytes = 0;  // the same for kernels and nests together
  std::map<std::string, std::uint64_t> operators;      // number of nest executions by operator
};
NestWork nest_work(const Program& program);

}  // namespace llmc::plan
