#include "compiler/emit/stage_calls.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/emit/fields.h"
#include "compiler/emit/kernel_names.h"
#include "compiler/emit/names.h"
#include "compiler/emit/operands.h"
#include "compiler/support/check.h"

namespace llmc::emit {
namespace {

using plan::BufferId;
using plan::WeightRef;

/// Minimum number of elements, or multiply-adds, of a call for which several workers are used.
constexpr std::uint64_t kParallelWork = 4096;
/// Places the fields of an epilogue on a separate line.
constexpr std::string_view kNewLine = "\n             ";

class Printer : Operands {
 public:
  using Operands::Operands;

  std::string operator()(const plan::EmbeddingStage& s) const {
    if (plain_)
      return fmt::format("if (!lookup(m.rows({}), {}{{{}}}, {}, {})) return kIndexOutOfRange;",
                         row_count(program_.buffers[s.ids.index].size),
                         weight_type(weight(s.table)), packed(s.table), buffer(s.ids),
                         buffer(s.out));
    const plan::PackedWeight& table = weight(s.table);
    const bool by_token = !s.by_position && table.rows == program_.vocabulary;
    return fmt::format("embedding{}(context, {}{{{}}}, {});", s.by_position ? "<ByPosition>" : "",
                       weight_type(table, by_token ? "kVocab" : "", width(s.out, table.columns)),
                       packed(s.table), buffer(s.out));
  }
  std::string operator()(const plan::LinearStage& s) const {
    if (s.experts != 0)
      return fmt::format(
          "expert_linear<{}>(context, {}, {}, {},\n{:19}{},\n{:19}{}, {});", s.experts,
          buffer(s.source), s.ids.exists() ? buffer(s.ids) : "nullptr", s.slots, "",
          matrix(s.weight, fmt::format("{} * {}", s.experts, s.n), fmt::to_string(s.k)), "",
          buffer(s.out), vector(s.bias));
    const std::string rows =
        plain_ ? fmt::format("m.rows({})", row_count(plan::rows_of(program_, s))) : "context";
    const std::string weights = s.more_rows.exists()
                                    ? joined(s.weight, s.more_rows)
                                    : matrix(s.weight, packed_rows_text(s), width(s.source, s.k));
    if (s.quantized)
      return linear(fmt::format("QuantizedRows<{}>{{{}}}", width(s.source, s.k), buffer(s.source)),
                    weights, epilogue(s), rows);
    if (s.windows)
      return linear(windows_text(s, buffer(s.source), dims()), weights, epilogue(s), rows);
    return linear(s.source, s.norm, s.k, weights, epilogue(s), rows);
  }
  std::string operator()(const plan::InputRowsStage& s) const {
    return fmt::format("input_rows<{}>(context, {});", s.width, buffer(s.out));
  }
  std::string operator()(const plan::QuantizeStage& s) const {
    const bool hadamard = weight(s.weight).basis == Basis::kHadamard;
    return fmt::format("quantize_rows<{}{}>(context, {}, {});", width(s.x, s.k),
                       hadamard ? ", Basis::kHadamard" : "", buffer(s.x), buffer(s.out));
  }
  std::string operator()(const plan::RopeAnglesStage& s) const {
    const std::string positions =
        s.position_axes.empty() ? std::string()
                                : fmt::format(", PositionAxes<{}, {}>", program_.position_axes,
                                              fmt::join(s.position_axes, ", "));
    return fmt::format("rope_angles<{}{}>(context, {}, {});", rotary_dim(s.rotary_dim), positions,
                       vector(s.frequencies), buffer(s.out));
  }
  std::string operator()(const plan::QkvStage& s) const {
    return linear(s.source, s.norm, s.k, qkv_matrix(s), qkv_epilogue(s));
  }
  std::string operator()(const plan::QkvFinishStage& s) const {
    return fmt::format("finish_rows<{}>(\n         context, {},\n         {});",
                       program_.buffers[s.product.index].width, buffer(s.product),
                       qkv_epilogue(s.projection));
  }
  std::string qkv_epilogue(const plan::QkvStage& s) const {
    LLMC_CHECK(s.shape == program_.attention);
    const std::string config = s.angles.exists()
                                   ? fmt::format("QkvConfig<Attention, {}>", rotation(s.angles))
                                   : "QkvConfig<Attention>";
    const std::string store = fields({{"q", buffer(s.q)},
                                      {"layer", layer(s.layer)},
                                      {"rope", angles(s.angles)},
                                      {"bias", vector(s.bias)}},
                                     kNewLine);
    if (!s.q_norm.exists()) return fmt::format("QkvRope<{}>{}", config, store);
    return fmt::format("QkvNormRope<{}>{}", config,
                       fields({{"qkv", store},
                               {"q_norm", vector(s.q_norm)},
                               {"k_norm", vector(s.k_norm)},
                               {"eps", float_literal(s.qk_norm_epsilon)}},
                              kNewLine));
  }
  std::string operator()(const plan::AttentionStage& s) const {
    const bool biased = s.bias.exists(), tables = biased || s.sinks.exists();
    std::string more;
    if (s.softcap > 0 || tables) more = ", " + float_literal(s.softcap);
    if (tables)
      more += ", " + fields({{"bias", vector(s.bias)},
                             {"columns", biased ? fmt::to_string(s.bias_columns) : "nullptr"},
                             {"sinks", vector(s.sinks)}});
    LLMC_CHECK(s.shape == program_.attention);
    return fmt::format("attention<Attention{}>(context, {}, {}, {}, {}{});",
                       attention_rule(s, context_.plan.options.ctx), layer(s.layer),
                       float_literal(s.scale), buffer(s.q), buffer(s.out), more);
  }
  std::string operator()(const plan::CrossAttentionStage& s) const {
    return fmt::format("attention<Source{}>(context, {}, {}, {}, {}{});", attention_rule(s),
                       layer(s.layer), float_literal(s.scale), buffer(s.q), buffer(s.out),
                       s.softcap > 0 ? ", " + float_literal(s.softcap) : "");
  }
  std::string operator()(const plan::SourceStoreStage& s) const {
    return fmt::format("source_store<Source>(m.rows({}), {}, {});", row_count(s.rows), buffer(s.x),
                       buffer(s.out));
  }
  std::string operator()(const plan::NormStage& s) const {
    const std::string shape =
        s.parts == 1 ? width(s.x, s.width) : fmt::format("{}, {}", s.width, s.parts);
    const std::string residual = s.residual.exists() ? ", " + buffer(s.residual) : "";
    if (s.norm.kind == ir::NormKind::kRms) {
      return fmt::format("rms_norm<{}>(context, {}, {}, {}, {}{});", shape, buffer(s.x),
                         vector(s.norm.weight), float_literal(s.norm.epsilon), buffer(s.out),
                         residual);
    }
    return fmt::format("layer_norm<{}>(context, {}, {}, {}, {}, {}{});", shape, buffer(s.x),
                       vector(s.norm.weight), vector(s.norm.bias), float_literal(s.norm.epsilon),
                       buffer(s.out), residual);
  }
  std::string operator()(const plan::RopeStage& s) const {
    return fmt::format("rope<{}, {}, {}>(context, {}, {}, {});", s.heads, s.head_dim,
                       rotation(s.angles), buffer(s.x), angles(s.angles), buffer(s.out));
  }
  std::string operator()(const plan::KvStoreStage& s) const {
    LLMC_CHECK(s.shape == program_.attention);
    return fmt::format("kv_store<Attention>(context, {}, {}, {});", layer(s.layer), buffer(s.k),
                       buffer(s.v));
  }
  std::string operator()(const plan::GatedStage& s) const {
    return fmt::format("gated_activation<{}, {}>(context, {}, {}, {});", operator_type(s.function),
                       width(s.out, s.width), buffer(s.gate), buffer(s.up), buffer(s.out));
  }
  std::string operator()(const plan::BinaryStage& s) const {
    const std::string op = operator_type(ir::Binary{s.kind}), elements = width(s.out, s.width);
    if (s.b.exists()) {
      return fmt::format("binary<{}, {}>(context, {}, {}, {});", op, elements, buffer(s.a),
                         buffer(s.b), buffer(s.out));
    }
    if (s.row.exists()) {
      return fmt::format("binary_row<{}, {}>(context, {}, {}, {});", op, elements, buffer(s.a),
                         vector(s.row), buffer(s.out));
    }
    const std::string number = s.number.exists() ? "*" + vector(s.number) : float_literal(s.value);
    return fmt::format("binary_scalar<{}, {}>(context, {}, {}, {});", op, elements, buffer(s.a),
                       number, buffer(s.out));
  }
  std::string operator()(const plan::UnaryStage& s) const {
    return fmt::format("unary<{}, {}>(context, {}, {});", operator_type(ir::Unary{s.kind}),
                       width(s.out, s.width), buffer(s.x), buffer(s.out));
  }
  std::string operator()(const plan::CopyStage& s) const {
    return fmt::format("copy_rows<{}>(context, {}, {});", width(s.out, s.width), buffer(s.x),
                       buffer(s.out));
  }
  std::string operator()(const plan::MapStage& s) const {
    const LoopNests::Call call = context_.nests.add(s);
    if (plain_) {
      std::vector<std::string> arguments;
      for (const auto& argument : call.arguments) arguments.push_back(pointer(argument));
      if (call.iterations != 0) arguments.insert(arguments.end(), {"begin", "end"});
      arguments.insert(arguments.end(), call.sizes.begin(), call.sizes.end());
      const std::string statement =
          fmt::format("{}({});", call.function, fmt::join(arguments, ", "));
      return call.iterations == 0 ? statement : in_parallel(call.iterations, statement);
    }
    return for_each_row(call.arguments, [&](const std::vector<std::string>& arguments) {
      return fmt::format("{}({});", call.function, fmt::join(arguments, ", "));
    });
  }
  std::string operator()(const plan::CallStage& s) const {
    if (plain_) return plain_call(s);
    return for_each_row(s.buffers, [&](const std::vector<std::string>& arguments) {
      const std::string call = call_text(s, arguments, number_texts(s, dims()));
      if (!s.can_fail) return call + ";";
      const auto result = std::ranges::find(s.buffers, true, &plan::BufferArgument::written);
      return fmt::format("if (!{}) invalidate({}, {});", call,
                         arguments[static_cast<std::size_t>(result - s.buffers.begin())],
                         program_.buffers[result->buffer].width);
    });
  }
  std::string operator()(const plan::StateStoreStage& s) const {
    const plan::RecurrentState& state = program_.states[s.slot];
    return fmt::format("store_state<{}>(context, {}, {});", state.width, state.offset,
                       buffer(s.next));
  }
  /// Returns the call of a stage's loop nest for row t: "add_1(x + t * 64, …);\n".
  std::string row_call(const plan::Stage& stage) {
    in_recurrence_ = true;
    return std::visit(*this, stage.op);
  }
  std::string operator()(const plan::LoopStage& s) const {
    return fmt::format("for (uint32_t i = 0; i < {}; ++i) {}(context, {}[i], {});",
                       iterations(program_, s), s.function, constant_name(s.function + "_weights"),
                       layer_index(s));
  }

 private:
  std::string in_parallel(const plan::Size& count, const std::string& statement,
                          bool by_worker = false) const {
    return fmt::format(
        "in_parallel(m, {}, [&](int64_t begin, int64_t end, int64_t{}) {{\n    {}\n  }});",
        dims().text(count), by_worker ? " worker" : "", statement);
  }
  /// Returns the call of a plain graph, divided among the workers if it can be and is large enough.
  std::string plain_call(const plan::CallStage& s) const {
    using Split = plan::CallStage::Split;
    std::vector<std::string> arguments, numbers = number_texts(s, dims());
    const std::size_t number = s.split == Split::kRange ? 1 : 0;
    const auto* count =
        s.split == Split::kNone ? nullptr : std::get_if<plan::Size>(&s.numbers[number].value);
    std::uint64_t work = s.multiply_adds;
    for (const plan::BufferArgument& b : s.buffers)
      work = std::max(work, program_.buffers[b.buffer].width);
    const bool divided = count != nullptr && count->bound() > 1 && work >= kParallelWork;
    for (const plan::BufferArgument& b : s.buffers) {
      arguments.push_back(pointer(b));
      if (divided && b.row_step != 0) arguments.back() += " + begin * " + dims().factor(b.row_step);
      if (divided && b.slot_step != 0)
        arguments.back() += fmt::format(" + worker * {}", b.slot_step);
    }
    if (divided && s.split == Split::kRows) numbers[number] = "end - begin";
    if (divided && s.split == Split::kRange) {
      numbers[0] = "begin";
      numbers[number] = "end";
    }
    const std::string call = call_text(s, arguments, numbers);
    if (!divided)
      return s.can_fail ? fmt::format("if (!{}) return kIndexOutOfRange;", call) : call + ";";
    if (!s.can_fail) return in_parallel(*count, call + ";", s.split == Split::kRange);
    return fmt::format(
        "if (!all_in_parallel(m, {}, [&](int64_t begin, int64_t end, int64_t) {{\n"
        "    return {};\n  }}))\n    return kIndexOutOfRange;",
        dims().text(*count), call);
  }
  /// Returns code that runs loop nests for every row: "for_each_token(context, [=](size_t t) {
  /// add_1(x + t * 64, …); });"
  template <class Body>
  std::string for_each_row(const std::vector<plan::BufferArgument>& buffers, Body&& body) const {
    std::vector<std::string> arguments;
    std::string locals;
    for (const plan::BufferArgument& argument : buffers) {
      const plan::Buffer& b = program_.buffers[argument.buffer];
      std::string text;
      switch (b.place) {
        case plan::Place::kTokens:
          text = "context.run->tokens + t";
          break;
        case plan::Place::kPositions:
        case plan::Place::kLastPositions: {
          const std::string local = fmt::format(
              "    const int32_t {0} = static_cast<int32_t>({0}_of(context.run, t));\n", b.name);
          if (locals.find(local) == locals.npos) locals += local;
          text = "&" + b.name;
          break;
        }
        case plan::Place::kState: {
          const plan::RecurrentState& state = program_.states[b.slot];
          text = fmt::format("state_before<{}>(context, t, {}, {})", state.width, state.offset,
                             buffer(state.next));
          break;
        }
        case plan::Place::kWeight:
          text = fmt::format("data<{}>(context, {})", stored_type(b.element), offset(b.weight));
          break;
        case plan::Place::kArena:
        case plan::Place::kInput:
        case plan::Place::kOutput:
          text = fmt::format("{} + t * {}", b.name, b.width);
          break;
      }
      if (argument.offset != 0) text += fmt::format(" + {}", argument.offset.bound());
      arguments.push_back(std::move(text));
    }
    if (in_recurrence_) return fmt::format("{{\n{}    {}\n  }}", locals, body(arguments));
    return fmt::format("for_each_token(context, [=](size_t t) {{\n{}    {}\n  }});", locals,
                       body(arguments));
  }
  std::string linear(BufferId source, const plan::NormInput& norm, std::uint64_t k,
                     const std::string& matrix, const std::string& epilogue,
                     const std::string& rows = "context") const {
    std::string input = fmt::format("Rows<{}>{{{}}}", width(source, k), buffer(source));
    if (norm.exists()) {
      const bool rms = norm.kind == ir::NormKind::kRms;
      input = fmt::format("{}<{}>{}", rms ? "RmsNorm" : "LayerNorm", width(source, k),
                          fields({{"x", buffer(source)},
                                  {"weight", vector(norm.weight)},
                                  {"bias", rms ? "nullptr" : vector(norm.bias)},
                                  {"eps", float_literal(norm.epsilon)}}));
    }
    return linear(input, matrix, epilogue, rows);
  }
  std::string linear(const std::string& input, const std::string& matrix,
                     const std::string& epilogue, const std::string& rows) const {
    const std::string_view name = plain_ ? "linear_rows" : "linear";
    const std::string indent(name.size() + 3, ' ');
    return fmt::format("{0}({2}, {3},\n{1}{4},\n{1}{5});", name, indent, rows, input, matrix,
                       epilogue);
  }
  std::string matrix(WeightRef w, const std::string& rows, const std::string& columns) const {
    return fmt::format("{}{{{}}}", weight_type(weight(w), rows, columns), packed(w));
  }
  /// Returns the number of packed rows of a layer's matrix as text.
  std::string packed_rows_text(const plan::LinearStage& s) const {
    if (s.epilogue == plan::LinearStage::Epilogue::kGated)
      return fmt::format("packed_gated_rows({})", width(s.out, s.n / 2));
    const std::string rows = width(s.out, s.n);
    return weight(s.weight).packed_rows == s.n ? rows : fmt::format("packed_rows({})", rows);
  }
  std::string qkv_matrix(const plan::QkvStage& s) const {
    if (s.value_weight.exists()) return joined(s.weight, s.value_weight);
    return matrix(s.weight, "packed_qkv_rows(kHeads, kKvHeads, kHeadDim)", width(s.source, s.k));
  }
  std::string joined(WeightRef first, WeightRef second) const {
    return fmt::format("Joined<{}, {}>{{\n             {{{}}}, {{{}}}}}",
                       weight_type(weight(first)), weight_type(weight(second)), packed(first),
                       packed(second));
  }
  std::string epilogue(const plan::LinearStage& s) const {
    using enum plan::LinearStage::Epilogue;
    const std::string out = buffer(s.out), bias = vector(s.bias);
    std::string shape = width(s.out, s.epilogue == kGated ? s.n / 2 : s.n);
    if (s.epilogue == kGated || s.function != ir::ActivationFn::kNone)
      shape += ", " + operator_type(s.function);
    switch (s.epilogue) {
      case kStore:
      case kGated:
        return fmt::format("{}<{}>{}", s.epilogue == kStore ? "Store" : "Gated", shape,
                           fields({{"y", out}, {"bias", bias}}));
      case kAddTo:
        return fmt::format("AddTo<{}>{}", shape, fields({{"x", out}, {"bias", bias}}));
      case kAddStore:
        return fmt::format("AddStore<{}>{}", shape,
                           fields({{"y", out}, {"x", buffer(s.residual)}, {"bias", bias}}));
      case kChoose:
        return fmt::format("Choose<{}>{{&choice, room}}", shape);
    }
    return {};
  }

  bool in_recurrence_ = false;  // an enclosing loop iterates over the rows
};

}  // namespace

std::string stage_call(const FunctionContext& context, const plan::Stage& stage,
                       std::string_view tag) {
  std::string text;
  if (!stage.comment.empty()) {
    text += fmt::format("  // {}{}\n", tag, line_comment(stage.comment));
  } else if (!tag.empty()) {
    text += fmt::format("  // {}\n", tag.substr(0, tag.size() - 1));
  }
  text += origin_comment(stage.origin);
  text += "  " + std::visit(Printer(context), stage.op);
  return text + "\n";
}

std::string recurrence_call(const FunctionContext& context, std::span<const plan::Stage> stages,
                            std::string_view tag) {
  std::string text, body;
  for (const plan::Stage& stage : stages) {
    if (!stage.comment.empty()) body += fmt::format("    // {}\n", line_comment(stage.comment));
    body += fmt::format("    {}\n", Printer(context).row_call(stage));
  }
  if (!tag.empty()) text += fmt::format("  // {}\n", tag.substr(0, tag.size() - 1));
  text += origin_comment(stages.front().origin);
  return text +
         fmt::format("  for_each_token_in_order(context, [=](size_t t) {{\n{}  }});\n", body);
}

}  // namespace llmc::emit
