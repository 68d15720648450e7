#include "compiler/emit/steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "compiler/emit/names.h"
#include "compiler/emit/stage_calls.h"
#include "compiler/support/check.h"

namespace llmc::emit {

using plan::Plan;
using plan::Segment;

std::string segment_name(std::string_view function, std::size_t index) {
  return fmt::format("{}_part_{}", function, index + 1);
}

std::string segment_comment(const Plan& plan, const Segment& segment) {
  if (segment.region == 0) return "/// On the CPU.\n";
  const plan::Region& region = plan.partition->regions[segment.region - 1];
  return fmt::format("/// Region {}: {}.\n", segment.region, fmt::join(region.products, ", "));
}

std::string step_functions(const Plan& plan) {
  std::string steps, regions, next;  // next: the line before the steps of the next segment
  std::size_t part = 0;
  const auto add_regions = [&](const std::vector<Segment>& segments, std::uint64_t times) {
    std::vector<std::uint32_t> row;
    for (const Segment& segment : segments) row.push_back(segment.region);
    for (std::uint64_t i = 0; i < times; ++i)
      regions += fmt::format("    {},\n", fmt::join(row, ", "));
  };
  for (const Segment& segment : plan::segments_of(plan.program.forward)) {
    const plan::Stage& stage = plan.program.forward[segment.begin];
    const auto* loop = std::get_if<plan::LoopStage>(&stage.op);
    steps += next;
    if (loop == nullptr) {
      steps +=
          fmt::format("  if (step == 0) return {}(context);\n", segment_name("forward", part++));
      next = "  step -= 1;\n";
      add_regions({segment}, 1);
      continue;
    }
    const std::vector<Segment> segments = plan::segments_of(loop->body);
    const std::string type = type_name(loop->function + "_weights");
    const std::string passes = iterations(plan.program, *loop);
    const std::string factor = passes.find(' ') == passes.npos ? passes : "(" + passes + ")";
    const std::string count =
        segments.size() == 1 ? passes : fmt::format("{} * {}", segments.size(), factor);
    steps += fmt::format(
        "  if (step < {0}) {{\n"
        "    const uint32_t i = step / {1}, layer_index = {2};\n"
        "    const {3}& w = k{3}[i];\n"
        "    switch (step % {1}) {{\n",
        count, segments.size(), layer_index(*loop), type);
    for (std::size_t i = 0; i < segments.size(); ++i)
      steps += fmt::format("      {}:\n        return {}(context, w, layer_index);\n",
                           i + 1 == segments.size() ? "default" : fmt::format("case {}", i),
                           segment_name(loop->function, i));
    steps += "    }\n  }\n";
    next = fmt::format("  step -= {};\n", count);
    add_regions(segments, loop->count);
  }
  return fmt::format(
      "\n/// The region of each step of a chunk; 0: the CPU computes it.\n"
      "constexpr uint32_t kSteps = {};\n"
      "constexpr uint16_t kStepRegions[kSteps] = {{\n{}}};\n"
      "\n/// Runs a step of a chunk of tokens. The last one leaves their final rows in `{}`.\n"
      "void run_step(const llmc_run* run, uint32_t step) {{\n"
      "  const KernelContext context{{run, run->count, run->scratch + kWork}};\n{}}}\n"
      "\n/// Runs a chunk of tokens.\n"
      "void forward(const llmc_run* run) {{\n"
      "  for (uint32_t step = 0; step < kSteps; ++step) run_step(run, step);\n}}\n",
      plan.partition->steps, regions, plan.program.buffers[plan.program.hidden.index].name, steps);
}

}  // namespace llmc::emit
