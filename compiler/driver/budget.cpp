#include "compiler/driver/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "compiler/calibrate/sensitivity.h"
#include "compiler/calibrate/window_inputs.h"
#include "compiler/driver/calibration_text.h"
#include "compiler/driver/measurements.h"
#include "compiler/support/check.h"
#include "compiler/support/checked_math.h"
#include "llmc/sizes.h"
#include "passes/split_loop.h"

namespace llmc::driver {
namespace {

using calibrate::ChoiceUnit;
using calibrate::Formats;
using calibrate::kChoices;
using calibrate::Losses;
using calibrate::Product;
using ir::WeightFormat;

/// Maximum number of format choices that are measured for --max-kl, besides q8 for all matrices.
constexpr int kMaxMeasured = 5;

/// Sets the format of a Linear, QkvProjection or ExpertLinear.
void set_format(ir::Node& node, WeightFormat format) {
  if (auto* linear = std::get_if<ir::Linear>(&node.op)) linear->format = format;
  if (auto* experts = std::get_if<ir::ExpertLinear>(&node.op)) experts->format = format;
  if (auto* qkv = std::get_if<ir::QkvProjection>(&node.op)) {
    qkv->format = format;
    qkv->value_format = WeightFormat::kUnset;
  }
}

/// A matrix whose format is chosen.
struct Candidate {
  Product product;
  std::int64_t layer = -1;  // number of the layer, counted over all loops; -1: outside of loops
  std::array<std::uint64_t, kChoices.size()> bytes{};
  Losses losses{};
};

/// Candidates that get the same format: the same product of successive layers.
struct Unit {
  std::vector<std::size_t> candidates;  // ascending indices into Fitter::candidates_
};

class Fitter {
 public:
  Fitter(const ir::Graph& stages, const FitInput& input, const Progress& progress)
      : stages_(stages), input_(input), budget_(*input.options.budget), progress_(progress) {}

  Result<FittedGraph> run() {
    const std::vector<std::int32_t> token[] = {{0}};
    LLMC_RETURN_IF_ERROR(calibrate::window_inputs(stages_, token, 1));  // refuses other models
    LLMC_RETURN_IF_ERROR(find_candidates());
    if (budget_.bytes > 0 && budget_.bytes < min_bytes_) return over_budget(min_bytes_);
    LLMC_RETURN_IF_ERROR(measure());
    make_units();
    return budget_.bytes > 0 ? fit_bytes() : fit_divergence();
  }

 private:
  Result<plan::Plan> planned(const ir::Graph& stages) const {
    plan::PlanOptions options = input_.planned;
    LLMC_TRY(options.target, target::find(input_.target, input_.options.opt_level));
    options.chunk_given = input_.options.chunk != 0;
    options.chunk = options.chunk_given ? input_.options.chunk : options.target->chunk;
    options.shard = {};  // the budget applies to the whole model
    options.device = nullptr;
    return plan::make_plan(stages, options);
  }

  /// Returns the graph with one format for all products.
  ir::Graph with_format(WeightFormat format) const {
    ir::Graph graph = stages_;
    for (const Product& product : calibrate::products_of(stages_)) set_in(graph, product, format);
    return graph;
  }
  static void set_in(ir::Graph& graph, const Product& product, WeightFormat format) {
    ir::Node& node = graph.mutable_nodes()[product.node];
    if (product.iteration < 0) return set_format(node, format);
    if (product.iteration > 0) return;  // all iterations share one body
    auto& loop = std::get<ir::Loop>(node.op);
    auto body = std::make_shared<ir::Graph>(*loop.body);
    set_format(body->mutable_nodes()[product.inner], format);
    loop.body = std::move(body);
  }

  /// Finds the matrices whose size depends on the format, by making a plan for each format. The
  /// other matrices keep the model's codes.
  Status find_candidates() {
    std::array<std::map<const ir::Constant*, std::uint64_t>, kChoices.size()> bytes;
    for (std::size_t f = 0; f < kChoices.size(); ++f) {
      LLMC_TRY(const plan::Plan plan, planned(with_format(kChoices[f])));
      for (const plan::PackedWeight& weight : plan.program.weights)
        if (weight.use == plan::WeightUse::kMatrix)
          bytes[f][weight.data.get()] += round_up(weight.bytes, kAlignment);
      if (f == 0) min_bytes_ = plan.weights_bytes;
    }
    other_bytes_ = min_bytes_;
    std::map<std::size_t, std::int64_t> first_layer;  // by the node of the loop
    std::int64_t layers = 0;
    std::set<const ir::Constant*> seen;
    for (const Product& product : calibrate::products_of(stages_)) {
      Candidate candidate{.product = product};
      if (product.iteration >= 0) {
        const auto& loop = std::get<ir::Loop>(stages_.nodes()[product.node].op);
        const auto [place, added] = first_layer.emplace(product.node, layers);
        if (added) layers += loop.count;
        candidate.layer = place->second + product.iteration;
      }
      bool known = true;
      for (std::size_t f = 0; f < kChoices.size(); ++f) {
        const auto found = bytes[f].find(product.weight.get());
        known = known && found != bytes[f].end();
        if (known) candidate.bytes[f] = found->second;
      }
      if (!known || candidate.bytes.front() >= candidate.bytes.back()) continue;
      // If several products read the same matrix, only the first counts its bytes.
      if (!seen.insert(product.weight.get()).second) candidate.bytes = {};
      other_bytes_ -= candidate.bytes.front();
      candidates_.push_back(std::move(candidate));
    }
    if (candidates_.empty())
      return failure(
          ErrorKind::kUnsupported,
          "the model has no matrix whose format --fit and --max-kl could choose",
          "matrices with integer codes in the model keep them; --requantize rounds them, too");
    return ok_status();
  }

  /// `least`: minimum number of bytes, more than the budget.
  Diagnostic over_budget(std::uint64_t least) const {
    return {
        .kind = ErrorKind::kOverBudget,
        .message = fmt::format("the weights need at least {} bytes, {} more than the {} of --fit",
                               least, least - budget_.bytes, budget_.bytes),
        .hint = fmt::format("use --fit {} or more", least)};
  }

  /// Measures the losses of all candidates.
  Status measure() {
    std::vector<ir::ConstantPtr> matrices;
    for (const Candidate& candidate : candidates_) matrices.push_back(candidate.product.weight);
    LLMC_TRY(measurements_, Measurements::start(stages_, matrices, input_, progress_));
    LLMC_TRY(const std::vector<Losses> losses, measurements_->losses());
    // A matrix is rounded once for all products that read it, so only the first counts its loss.
    std::set<const ir::Constant*> seen;
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      if (seen.insert(candidates_[i].product.weight.get()).second)
        candidates_[i].losses = losses[i];
    return ok_status();
  }

  /// Groups the candidates into units: the same product of the layers of a range.
  void make_units() {
    for (std::size_t at = 0; at < candidates_.size();) {
      const std::size_t node = candidates_[at].product.node;
      std::size_t end = at;
      while (end < candidates_.size() && candidates_[end].product.node == node) ++end;
      if (candidates_[at].layer < 0) {
        for (; at < end; ++at) units_.push_back({{at}});
        continue;
      }
      const auto& loop = std::get<ir::Loop>(stages_.nodes()[node].op);
      const auto layers = static_cast<std::size_t>(loop.count);
      // Each layer has the same candidates, because whether a matrix keeps its codes is decided for
      // all layers together.
      const std::size_t slots = (end - at) / layers;
      LLMC_CHECK(slots * layers == end - at);
      std::vector<std::vector<double>> losses(layers);
      for (std::size_t i = at; i < end; ++i)
        losses[(i - at) / slots].push_back(candidates_[i].losses.front());
      std::size_t first = 0;
      for (const std::int64_t count : calibrate::similar_ranges(losses, kMaxLayerRanges)) {
        for (std::size_t slot = 0; slot < slots; ++slot) {
          Unit& unit = units_.emplace_back();
          for (std::size_t layer = first; layer < first + static_cast<std::size_t>(count); ++layer)
            unit.candidates.push_back(at + layer * slots + slot);
        }
        first += static_cast<std::size_t>(count);
      }
      at = end;
    }
    join_shared();
    for (const Unit& unit : units_) {
      ChoiceUnit& choice = choices_.emplace_back();
      for (const std::size_t i : unit.candidates) {
        for (std::size_t f = 0; f < kChoices.size(); ++f) {
          choice.bytes[f] += candidates_[i].bytes[f];
          choice.losses[f] += candidates_[i].losses[f];
        }
      }
    }
  }

  /// Joins units that share a matrix, because a matrix has only one format.
  void join_shared() {
    for (std::size_t u = 0; u < units_.size(); ++u) {
      // Compare with all later units. Start again after a join, which adds matrices.
      for (std::size_t other = u + 1; other < units_.size();) {
        if (!share_matrix(units_[u], units_[other])) {
          ++other;
          continue;
        }
        auto& all = units_[u].candidates;
        all.insert(all.end(), units_[other].candidates.begin(), units_[other].candidates.end());
        std::ranges::sort(all);
        units_.erase(units_.begin() + static_cast<std::ptrdiff_t>(other));
        other = u + 1;
      }
    }
  }
  bool share_matrix(const Unit& a, const Unit& b) const {
    const auto weight = [&](std::size_t i) { return candidates_[i].product.weight; };
    return std::ranges::any_of(a.candidates, [&](std::size_t i) {
      return std::ranges::any_of(b.candidates,
                                 [&](std::size_t j) { return weight(i) == weight(j); });
    });
  }

  /// Returns the graph with a format for each unit. Splits loops where formats change.
  ir::Graph with_formats(const Formats& formats) const {
    std::vector<WeightFormat> chosen(candidates_.size());
    for (std::size_t u = 0; u < units_.size(); ++u)
      for (const std::size_t i : units_[u].candidates) chosen[i] = kChoices[formats[u]];
    ir::Graph graph = stages_;
    for (std::size_t end = candidates_.size(); end > 0;) {
      const std::size_t node = candidates_[end - 1].product.node;
      std::size_t at = end;
      while (at > 0 && candidates_[at - 1].product.node == node) --at;
      if (candidates_[at].layer < 0) {
        for (std::size_t i = at; i < end; ++i) set_format(graph.mutable_nodes()[node], chosen[i]);
      } else {
        set_loop_formats(graph, node, {candidates_.data() + at, end - at},
                         {chosen.data() + at, end - at});
      }
      end = at;
    }
    return graph;
  }

  static void set_loop_formats(ir::Graph& graph, std::size_t node,
                               std::span<const Candidate> candidates,
                               std::span<const WeightFormat> chosen) {
    const auto layers = static_cast<std::size_t>(std::get<ir::Loop>(graph.nodes()[node].op).count);
    const std::size_t slots = candidates.size() / layers;
    std::vector<std::int64_t> counts;
    std::vector<std::size_t> firsts;
    for (std::size_t layer = 0; layer < layers; ++layer) {
      const bool same = layer > 0 && std::ranges::equal(chosen.subspan(layer * slots, slots),
                                                        chosen.subspan((layer - 1) * slots, slots));
      if (same) {
        ++counts.back();
      } else {
        counts.push_back(1);
        firsts.push_back(layer);
      }
    }
    graph = passes::split_loop(std::move(graph), node, counts);
    for (std::size_t part = 0; part < counts.size(); ++part) {
      auto& loop = std::get<ir::Loop>(graph.mutable_nodes()[node + part].op);
      auto body = std::make_shared<ir::Graph>(*loop.body);
      for (std::size_t slot = 0; slot < slots; ++slot) {
        const std::size_t i = firsts[part] * slots + slot;
        set_format(body->mutable_nodes()[candidates[i].product.inner], chosen[i]);
      }
      loop.body = std::move(body);
    }
  }

  Result<FittedGraph> fit_bytes() {
    for (std::uint64_t budget = budget_.bytes;;) {
      const Formats formats = calibrate::least_loss(choices_, budget - other_bytes_);
      ir::Graph graph = with_formats(formats);
      LLMC_TRY(const plan::Plan plan, planned(graph));
      if (plan.weights_bytes <= budget_.bytes) return finish(std::move(graph), formats, plan);
      // The plan may exceed the budget because a constant that all layers share is stored once for
      // each loop.
      if (budget == min_bytes_) return over_budget(plan.weights_bytes);
      const std::uint64_t excess = plan.weights_bytes - budget_.bytes;
      budget = budget - min_bytes_ > excess ? budget - excess : min_bytes_;
    }
  }

  Result<FittedGraph> fit_divergence() {
    const Formats finest(choices_.size(), kChoices.size() - 1);
    double target = budget_.max_kl, measured = 0;
    Formats formats;
    for (int i = 0; i <= kMaxMeasured; ++i) {
      const Formats before = std::exchange(formats, calibrate::least_bytes(choices_, target));
      if (i == kMaxMeasured || formats == before) formats = finest;
      LLMC_TRY(measured, divergence_of(formats));
      if (measured <= budget_.max_kl) {
        ir::Graph graph = with_formats(formats);
        LLMC_TRY(const plan::Plan plan, planned(graph));
        return finish(std::move(graph), formats, plan);
      }
      if (formats == finest) break;
      const double estimated = calibrate::loss_of(choices_, formats);
      target = 0.95 * std::min(target, estimated) * budget_.max_kl / measured;
    }
    return Diagnostic{
        .kind = ErrorKind::kOverBudget,
        .message = fmt::format("no choice of formats has a divergence of {} nats: with q8 for all "
                               "matrices it is {:.6f}",
                               budget_.max_kl, measured),
        .hint = "use a larger --max-kl, or --quant=f16"};
  }

  /// Returns the measured KL divergence with these formats.
  Result<double> divergence_of(const Formats& formats) {
    std::vector<WeightFormat> chosen(candidates_.size());
    for (std::size_t u = 0; u < units_.size(); ++u)
      for (const std::size_t i : units_[u].candidates) chosen[i] = kChoices[formats[u]];
    return measurements_->divergence(chosen);
  }

  Result<FittedGraph> finish(ir::Graph graph, const Formats& formats, const plan::Plan& plan) {
    FittedGraph fitted;
    fitted.stages = std::move(graph);
    plan::BudgetReport& made = fitted.report;
    made.bytes = budget_.bytes;
    made.max_kl = budget_.max_kl;
    made.weights_bytes = plan.weights_bytes;
    made.estimated_kl = calibrate::loss_of(choices_, formats);
    LLMC_TRY(made.measured_kl, divergence_of(formats));
    made.tokens = measurements_->tokens();
    made.own_text = bool(budget_.text.write);
    for (std::size_t u = 0; u < units_.size(); ++u) {
      plan::BudgetReport::Matrices matrices;
      const Unit& unit = units_[u];
      const Candidate& first = candidates_[unit.candidates.front()];
      const ir::Node& node = calibrate::node_of(stages_, first.product);
      matrices.role = ir::to_string(calibrate::role_of(node));
      matrices.origin = node.origin.node;
      matrices.first_layer = first.layer;
      matrices.last_layer = candidates_[unit.candidates.back()].layer;
      matrices.format = ir::kWeightFormatNames[static_cast<std::size_t>(kChoices[formats[u]])];
      for (const std::size_t i : unit.candidates) {
        const Candidate& candidate = candidates_[i];
        const double share =
            made.estimated_kl > 0 ? candidate.losses[formats[u]] / made.estimated_kl : 0;
        fitted.shares[candidate.product.weight.get()] += share;
        matrices.bytes += candidate.bytes[formats[u]];
        matrices.share += share;
      }
      made.matrices.push_back(std::move(matrices));
    }
    return fitted;
  }

  const ir::Graph& stages_;
  const FitInput& input_;
  const WeightBudget& budget_;
  const Progress& progress_;
  std::vector<Candidate> candidates_;
  std::uint64_t min_bytes_ = 0, other_bytes_ = 0;  // all weights in q4; all but the candidates
  std::vector<Unit> units_;
  std::vector<ChoiceUnit> choices_;
  std::unique_ptr<Measurements> measurements_;
};

}  // namespace

Result<FittedGraph> fit_formats(const ir::Graph& stages, const FitInput& input,
                                const Progress& progress) {
  LLMC_CHECK(input.options.budget.has_value());
  return Fitter(stages, input, progress).run();
}

void use_shares(const std::map<const ir::Constant*, double>& shares,
                std::vector<plan::Plan>& plans) {
  for (plan::Plan& plan : plans)
    for (plan::PackedWeight& weight : plan.program.weights)
      if (weight.use == plan::WeightUse::kMatrix)
        if (const auto found = shares.find(weight.data.get()); found != shares.end())
          weight.loss_share = found->second;
}

std::string budget_key(const CompileOptions& options) {
  const WeightBudget& budget = *options.budget;
  const std::string text = budget.text.write ? "" : ",measured=" + text_key(budget.text);
  return budget.bytes > 0 ? fmt::format("fit={}{}", budget.bytes, text)
                          : fmt::format("max-kl={}{}", budget.max_kl, text);
}

}  // namespace llmc::driver
