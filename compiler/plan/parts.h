#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/plan/program.h"
#include "llmc/parts.h"

/// Classifies each stage by its part of a layer, from the buffers that it reads and their readers.
namespace llmc::plan {

/// Returns "qkv", "attention", "attention_out", "gate_up", "down", "head" or "rest".
std::string_view part_name(Part part);
std::optional<Part> part_named(std::string_view name);

/// Returns the part of each of `stages`, in order. `stages` is a loop body or a whole forward pass.
/// A loop in a forward pass is kRest; the stages of its body have parts of their own. Norms and
/// elementwise stages belong to the part that uses their result.
std::vector<Part> parts_of(const std::vector<Stage>& stages);

/// Matrix products with weights, for one token; of a plain graph, for one run.
struct Products {
  Part part = Part::kRest;
  std::string format;  // PackedWeight::format_name() of the matrices
  std::uint64_t macs = 0, bytes = 0;
};
/// Returns the products by part and format, in the order of the parts. Those of the head do not run
/// for every prompt token.
std::vector<Products> products_of(const Program& program);

/// The work of the loop nests, and of all stages, for one token or for one run of a plain graph.
/// Attention counts as a kernel.
struct NestWork {
  std::uint64_t stages = 0;                    // number of nest executions
  std::uint64_t multiply_adds = 0, bytes = 0;  // of matrix products in nests; weight bytes read
  std::uint64_t all_multiply_adds = 0, all_bytes = 0;  // the same for kernels and nests together
  std::map<std::string, std::uint64_t> operators;      // number of executions by name
};
NestWork nest_work(const Program& program);

}  // namespace llmc::plan
