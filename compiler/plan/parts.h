#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/plan/program.h"
#include "llmc/parts.h"

/// Which part of a layer each stage is, by what it reads and who reads it.
namespace llmc::plan {

/// "qkv", "attention", "attention_out", "gate_up", "down", "head", "rest".
std::string_view part_name(Part part);
std::optional<Part> part_named(std::string_view name);

/// The part of each of `stages`, in order: a loop's body, or a whole forward pass, whose loops are
/// kRest (their bodies have parts of their own). Norms and elementwise stages go with what they are
/// for.
std::vector<Part> parts_of(const std::vector<Stage>& stages);

/// Products with weights, for one token that goes through them; of a plain graph, for one run.
struct Products {
  Part part = Part::kRest;
  std::string format;  // PackedWeight::format_name() of the matrices
  std::uint64_t macs = 0, bytes = 0;
};
/// By part and format, in the order of the parts. The head's are not done for every prompt token.
std::vector<Products> products_of(const Program& program);

/// The work of the loop nests for one token, or for one run of a plain graph, and that of all
/// stages. Attention counts as a kernel.
struct NestWork {
  std::uint64_t stages = 0;                            // that are run
  std::uint64_t multiply_adds = 0, bytes = 0;          // of matrix products in nests; weights read
  std::uint64_t all_multiply_adds = 0, all_bytes = 0;  // the same of kernels and nests
  std::map<std::string, std::uint64_t> operators;      // by name, how often
};
NestWork nest_work(const Program& program);

}  // namespace llmc::plan
