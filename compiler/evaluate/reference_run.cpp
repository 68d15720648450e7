#include "compiler/evaluate/reference_run.h"

#include <fmt/format.h>

#include <limits>
#include <map>

#include "compiler/support/check.h"

namespace llmc::evaluate {
namespace {

Diagnostic unsupported(std::string message) {
  return failure(ErrorKind::kUnsupported, std::move(message),
                 "the reference runs decoders: token ids and caches in, logits out");
}

/// Returns the dims of an input for `tokens` new tokens after `past` previous tokens.
Result<std::vector<std::int64_t>> bind(const ir::Value& value, std::int64_t tokens,
                                       std::int64_t past, std::int64_t source = 0) {
  const std::map<std::string, std::int64_t> symbols{
      {"seq", tokens}, {"past", past}, {"source", source}};
  std::vector<std::int64_t> dims;
  for (const ir::Dim& dim : value.type.dims) {
    const auto size = dim.evaluate(symbols);
    if (!size)
      return unsupported(fmt::format("input '{}' has an unknown dim", printable(value.name)));
    dims.push_back(*size);
  }
  return dims;
}

}  // namespace

Result<ReferenceRun> ReferenceRun::create(const ir::Module& module, std::int64_t vocabulary) {
  const ir::Graph& graph = module.graph();
  ReferenceRun run{ir::Graph(graph)};
  run.vocabulary_ = vocabulary;
  run.recurrent_ = module.is_recurrent();
  if (const ir::Graph* const encoder = module.encoder()) run.encoder_.emplace(ir::Graph(*encoder));
  for (const ir::ValueId id : graph.inputs()) {
    const ir::Value& value = graph.value(id);
    const bool recurrent = value.kind == ir::InputKind::kRecurrent;
    if (value.kind == ir::InputKind::kNone ||
        (value.kind == ir::InputKind::kSource && !run.encoder_))
      return unsupported(fmt::format("the graph has an input '{}'", printable(value.name)));
    if (!recurrent && value.kind != ir::InputKind::kAttentionCache) continue;
    LLMC_TRY(std::vector<std::int64_t> dims, bind(value, recurrent ? 1 : 0, 0));
    run.caches_.push_back(reference::zeros(value.type.element, std::move(dims)));
  }
  if (graph.outputs().size() != run.caches_.size() + 1) {
    return unsupported("the graph does not return logits and every cache");
  }
  return run;
}

Status ReferenceRun::encode(const exec::EncoderInput& source) {
  LLMC_CHECK(encoder_);
  const ir::TensorType& type = encoder_->graph().value(encoder_->graph().inputs().front()).type;
  std::vector<reference::Tensor> inputs;
  if (type.element == ir::ElementType::kI64) {
    inputs.push_back(reference::i64_tensor({static_cast<std::int64_t>(source.ids.size())},
                                           {source.ids.begin(), source.ids.end()}));
  } else {
    auto rest = static_cast<std::int64_t>(source.features.size());
    for (const ir::Dim& dim : type.dims) rest /= dim.constant().value_or(1);
    std::vector<std::int64_t> dims;
    for (const ir::Dim& dim : type.dims) dims.push_back(dim.constant().value_or(rest));
    inputs.push_back(reference::f32_tensor(std::move(dims), source.features));
  }
  LLMC_TRY(sources_, encoder_->evaluate(inputs));
  LLMC_CHECK(!sources_.empty());
  source_rows_ = sources_.front().dims[2];
  return ok_status();
}

Result<std::vector<float>> ReferenceRun::run(std::span<const std::int32_t> tokens) {
  if (!recurrent_) return run_at_once(tokens);
  std::vector<float> logits;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    LLMC_TRY(logits, run_at_once(tokens.subspan(i, 1)));
  }
  return logits;
}

Result<std::vector<float>> ReferenceRun::run_at_once(std::span<const std::int32_t> tokens) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  const ir::Graph& graph = interpreter_.graph();
  std::vector<reference::Tensor> values;
  std::size_t cache = 0;
  for (const ir::ValueId id : graph.inputs()) {
    const ir::Value& input = graph.value(id);
    LLMC_TRY(std::vector<std::int64_t> dims, bind(input, count, position_, source_rows_));
    switch (input.kind) {
      case ir::InputKind::kTokenIds:
        values.push_back(reference::i64_tensor(std::move(dims), {tokens.begin(), tokens.end()}));
        break;
      case ir::InputKind::kPositions:
      case ir::InputKind::kPositionAxes: {
        std::vector<std::int64_t> positions;  // one row, or several equal rows
        for (std::int64_t row = 0; row < dims[0]; ++row)
          for (std::int64_t t = 0; t < count; ++t) positions.push_back(position_ + t);
        values.push_back(reference::i64_tensor(std::move(dims), std::move(positions)));
        break;
      }
      case ir::InputKind::kMask: {
        std::vector<float> mask;
        for (std::int64_t t = 0; t < count; ++t) {
          for (std::int64_t key = 0; key < position_ + count; ++key) {
            mask.push_back(key <= position_ + t ? 0.0f : std::numeric_limits<float>::lowest());
          }
        }
        values.push_back(reference::f32_tensor(std::move(dims), std::move(mask)));
        break;
      }
      case ir::InputKind::kSource:
        values.push_back(sources_[static_cast<std::size_t>(input.layer)]);
        break;
      case ir::InputKind::kAttentionCache:
      case ir::InputKind::kRecurrent:
        values.push_back(std::move(caches_[cache++]));
        break;
      case ir::InputKind::kLastPosition:  // only passes add it
      case ir::InputKind::kNone:
        LLMC_CHECK(false);
    }
  }
  LLMC_TRY(std::vector<reference::Tensor> results, interpreter_.evaluate(values));
  for (std::size_t i = 0; i < caches_.size(); ++i) caches_[i] = std::move(results[i + 1]);
  position_ += count;
  const std::vector<float>& logits = results.front().floats;
  const auto vocabulary = static_cast<std::size_t>(vocabulary_);
  if (logits.size() < vocabulary || logits.size() % vocabulary != 0) {
    return unsupported(fmt::format("{} logits and a vocabulary of {}", logits.size(), vocabulary));
  }
  return std::vector<float>(logits.end() - static_cast<std::ptrdiff_t>(vocabulary), logits.end());
}

}  // namespace llmc::evaluate
