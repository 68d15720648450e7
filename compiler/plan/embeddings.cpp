#include "compiler/plan/embeddings.h"

#include <algorithm>

namespace llmc::plan {
namespace {

bool is_token_embedding(const Stage& stage) {
  const auto* embedding = std::get_if<EmbeddingStage>(&stage.op);
  return embedding && !embedding->by_position;
}

/// Returns whether any of the stages, or any stage of a loop body, comes from a file other than
/// `file`.
bool has_other_file(const std::vector<Stage>& stages, const std::string& file) {
  return std::ranges::any_of(stages, [&](const Stage& stage) {
    const auto* loop = std::get_if<LoopStage>(&stage.op);
    return loop ? has_other_file(loop->body, file) : stage.origin.file != file;
  });
}

}  // namespace

std::uint64_t embedding_width(const Program& program) {
  const std::vector<Stage>& stages = program.forward;
  for (const Stage& stage : stages)
    if (const auto* rows = std::get_if<InputRowsStage>(&stage.op)) return rows->width;
  const auto table = std::ranges::find_if(stages, is_token_embedding);
  if (table == stages.end() || std::ranges::count_if(stages, is_token_embedding) != 1) return 0;
  if (std::ranges::find(program.buffers, Place::kTokens, &Buffer::place) != program.buffers.end())
    return 0;
  const std::string& file = table->origin.file;
  const auto of_file = [&](const Stage& stage) { return stage.origin.file == file; };
  if (has_other_file(stages, file) && std::ranges::count_if(stages, of_file) != 1) return 0;
  return program.buffers[std::get<EmbeddingStage>(table->op).out.index].width;
}

}  // namespace llmc::plan
