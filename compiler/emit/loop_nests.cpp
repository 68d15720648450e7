#include "compiler/emit/loop_nests.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "compiler/emit/names.h"
#include "compiler/ir/constant_data.h"
#include "compiler/ir/op_info.h"
#include "compiler/support/check.h"

namespace llmc::emit {
namespace {

using ir::BinaryKind;
using ir::ElementType;
using ir::UnaryKind;
using plan::Expression;
using plan::View;

/// Namespace of templates/llmc/function/.
constexpr std::string_view kScope = "function::";

/// Minimum number of elements for which several workers are used.
constexpr std::int64_t kParallelElements = 4096;

/// Number of rows and columns of a tile: a row of 4-byte elements is a cache line. The copied tiles
/// of a nest have at most kTileBytes, which are on the stack of a worker.
constexpr std::int64_t kTile = 16;
constexpr std::uint64_t kTileBytes = 8192;

/// The infix operator of each BinaryKind; empty if it is a function.
constexpr std::string_view kInfix[] = {"+",  "-", "*",  "/", "",   "",   "",   "",
                                       "==", "<", "<=", ">", ">=", "&&", "||", "!="};
static_assert(std::size(kInfix) == ir::EnumInfo<BinaryKind>::names.size());

std::string double_literal(double value) {
  if (std::isnan(value)) return "__builtin_nan(\"\")";
  if (std::isinf(value)) return value > 0 ? "__builtin_huge_val()" : "-__builtin_huge_val()";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  return text;
}

std::string number(const ir::Constant& one) {
  const std::vector<std::byte> bytes = one.bytes();
  const ElementType type = one.element();
  if (type == ElementType::kF64) return double_literal(ir::element_to_double(type, bytes.data()));
  if (ir::is_float(type)) {
    return float_literal(static_cast<float>(ir::element_to_double(type, bytes.data())));
  }
  const std::int64_t value = ir::element_to_integer(type, bytes.data());
  if (type == ElementType::kBool) return value != 0 ? "true" : "false";
  if (type == ElementType::kI64) {
    return value == INT64_MIN ? "INT64_MIN" : fmt::format("int64_t{{{}}}", value);
  }
  if (type == ElementType::kU64)
    return fmt::format("uint64_t{{{}u}}", std::bit_cast<std::uint64_t>(value));
  if (type == ElementType::kI32 && value == INT32_MIN) return "INT32_MIN";
  return fmt::format("static_cast<{}>({})", computed_type(type), value);
}

/// Returns the variable of a loop: i, j, k, l, i4, ….
std::string loop_variable(std::size_t depth) {
  constexpr std::string_view kNames = "ijkl";
  return depth < kNames.size() ? std::string(1, kNames[depth]) : fmt::format("i{}", depth);
}

/// Builds the text of one loop nest.
class LoopWriter {
 public:
  LoopWriter(const plan::Program& program, const DimNames& dims, const plan::MapStage& stage)
      : program_(program), dims_(dims), target_(stage.target) {
    // Copies of the views, because merging dims to the fewest loops modifies them.
    const auto copy = plan::map_views(stage.value, [](const View& v) { return v; });
    for (const Expression* e : plan::nodes_of(*copy)) nodes_.push_back(*e), pointers_.push_back(e);
    std::vector<View*> views{&target_};
    for (Expression& e : nodes_)
      if (e.kind == Expression::Kind::kLoad || e.kind == Expression::Kind::kIndex)
        views.push_back(&e.view);
    plan::collapse(views);
    root_ = *copy;
    write();
  }

  std::string name;        // from the operators in the nest
  std::string parameters;  // "const float* __restrict x0, float* __restrict y"
  std::string body;
  std::vector<plan::BufferArgument> arguments;
  plan::Size iterations = 0;       // LoopNests::Call
  std::vector<std::string> sizes;  // the open dims that the body uses

 private:
  /// Returns an index expression such as "i * 64 + j"; with `of_tile`, that of the tile's first
  /// element, "i * 64 + j_tile".
  std::string position(const View& view, bool of_tile = false) {
    std::string text;
    for (std::size_t d = 0; d < view.dims.size(); ++d) {
      const plan::Size& stride = view.strides[d];
      if (stride == 0) continue;
      const bool backwards = stride.bound() < 0;
      const plan::Size step = backwards ? stride * -1 : stride;
      const std::string variable =
          of_tile && d + 2 >= view.dims.size() ? tile_of(d) : loop_variable(d);
      const std::string term =
          step == 1 ? variable : fmt::format("{} * {}", variable, factor(step));
      if (text.empty()) {
        text = backwards ? "-" + term : term;
      } else {
        text += fmt::format(" {} {}", backwards ? "-" : "+", term);
      }
    }
    return text.empty() ? "0" : text;
  }
  /// Returns the text of a size. Its open dims become parameters.
  std::string factor(const plan::Size& size) {
    if (const plan::Size::Terms* terms = size.terms())
      for (const auto& [monomial, factor] : *terms)
        for (const plan::OpenDimPtr& dim : monomial) used_.insert(dim.get());
    return dims_.factor(size);
  }
  std::size_t index_of(const plan::ExpressionPtr& e) const {
    const auto it = std::ranges::find(pointers_, e.get());
    return static_cast<std::size_t>(it - pointers_.begin());
  }

  /// Returns the parameter for a view's buffer, which points to the view's first element.
  std::string parameter(const View& view, ElementType type) {
    for (std::size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].buffer == view.buffer && arguments[i].offset == view.offset)
        return fmt::format("x{}", i);
    const std::string text = fmt::format("x{}", arguments.size());
    arguments.push_back({view.buffer, view.offset, false});
    parameters += fmt::format("const {}* __restrict {}, ", stored_type(type), text);
    return text;
  }

  std::string value_of(std::size_t i) {
    const Expression& e = nodes_[i];
    const auto operand = [&](std::size_t k) { return texts_[index_of(e.operands[k])]; };
    switch (e.kind) {
      case Expression::Kind::kLoad: {
        std::optional<std::string> tile;
        if (tiled_ && is_transposed(e.view)) tile = tile_load(e.view, e.type);
        const std::string at =
            tile ? *tile : fmt::format("{}[{}]", parameter(e.view, e.type), position(e.view));
        if (e.type == ElementType::kBool) return at + " != 0";
        const bool half = e.type == ElementType::kF16 || e.type == ElementType::kBF16;
        return half ? fmt::format("{}widen({})", kScope, at) : at;
      }
      case Expression::Kind::kIndex: {
        const std::string at = position(e.view);
        if (e.view.offset == 0) return at;
        const std::string offset = factor(e.view.offset);
        return at == "0" ? offset : fmt::format("{} + {}", offset, at);
      }
      case Expression::Kind::kLiteral:
        return number(*e.number);
      case Expression::Kind::kUnary:
        if (e.unary == UnaryKind::kNot) return "!" + operand(0);
        return fmt::format("{}{}({})", kScope, ir::op_name(ir::Unary{e.unary}), operand(0));
      case Expression::Kind::kBinary: {
        const std::string_view infix = kInfix[static_cast<std::size_t>(e.binary)];
        // Integers must wrap, and an integer divided by zero must be 0. C++ operators do neither.
        const bool is_function =
            infix.empty() || (!ir::is_float(e.type) && e.binary < BinaryKind::kEqual);
        if (!is_function) return fmt::format("{} {} {}", operand(0), infix, operand(1));
        return fmt::format("{}{}({}, {})", kScope, ir::op_name(ir::Binary{e.binary}), operand(0),
                           operand(1));
      }
      case Expression::Kind::kWhere:
        return fmt::format("{} ? {} : {}", operand(0), operand(1), operand(2));
      case Expression::Kind::kCast:
        if (e.type == ElementType::kF16)
          return fmt::format("{}round_to_f16({})", kScope, as_float(e));
        if (e.type == ElementType::kBF16)
          return fmt::format("{}round_to_bf16({})", kScope, as_float(e));
        return fmt::format("{}convert<{}>({})", kScope, computed_type(e.type), operand(0));
    }
    return {};
  }
  std::string as_float(const Expression& cast) {
    const std::string& text = texts_[index_of(cast.operands[0])];
    const ElementType from = plan::computed_type_of(*cast.operands[0]);
    return from == ElementType::kF32 ? text : fmt::format("{}convert<float>({})", kScope, text);
  }

  void add_name(const Expression& e) {
    std::string_view part;
    if (e.kind == Expression::Kind::kUnary) part = ir::op_name(ir::Unary{e.unary});
    if (e.kind == Expression::Kind::kBinary) part = ir::op_name(ir::Binary{e.binary});
    if (e.kind == Expression::Kind::kWhere) part = "where";
    if (e.kind == Expression::Kind::kCast) part = "cast";
    if (part.empty() || name.size() + part.size() > 40) return;
    name += (name.empty() ? "" : "_") + std::string(part);
  }

  /// Returns whether the view is contiguous along the next to last dim, not along the last one.
  static bool is_transposed(const View& view) {
    const std::size_t rank = view.dims.size();
    if (rank < 2) return false;
    const plan::Size &across = view.strides[rank - 2], &along = view.strides[rank - 1];
    return across == 1 && along != 0 && along != 1;
  }
  /// Returns whether the last two loops run in tiles: an operand is transposed, and both loops are
  /// long enough.
  bool has_tiles() const {
    const std::size_t rank = target_.dims.size();
    return std::ranges::any_of(nodes_,
                               [](const Expression& e) {
                                 return e.kind == Expression::Kind::kLoad && is_transposed(e.view);
                               }) &&
           target_.dims[rank - 1].bound() >= 2 * kTile &&
           target_.dims[rank - 2].bound() >= 2 * kTile;
  }
  static std::string tile_of(std::size_t d) { return loop_variable(d) + "_tile"; }
  static std::string end_of(std::size_t d) { return loop_variable(d) + "_end"; }

  /// Copies the elements of a transposed view in the current tile, once for equal views. Returns
  /// the text of the element for the current iteration; nullopt if there is no room for the copy.
  std::optional<std::string> tile_load(const View& view, ElementType type) {
    const std::size_t k = view.dims.size() - 1, j = k - 1;
    const std::string first = fmt::format("{} + {}, {}", parameter(view, type),
                                          position(view, true), factor(view.strides[k]));
    auto tile = tiles_.find(first);
    if (tile == tiles_.end()) {
      const std::uint64_t bytes = kTile * kTile * ir::element_bytes(type);
      if (tile_bytes_ + bytes > kTileBytes) return std::nullopt;
      tile_bytes_ += bytes;
      tile = tiles_.emplace(first, fmt::format("tile{}", tiles_.size())).first;
      const std::string indent(2 * (view.dims.size() + 1), ' ');
      tile_lines_ += fmt::format(
          "{0}{1} {2}[{3}];\n"
          "{0}{4}transpose_tile<{5}>({6}, {7} - {8}, {9} - {10}, {2});\n",
          indent, stored_type(type), tile->second, kTile * kTile, kScope, kTile, first, end_of(j),
          tile_of(j), end_of(k), tile_of(k));
    }
    return fmt::format("{}[({} - {}) * {} + {} - {}]", tile->second, loop_variable(j), tile_of(j),
                       kTile, loop_variable(k), tile_of(k));
  }

  /// Returns the nest around `lines`, the text of the innermost loop's body. `divided`: the
  /// outermost loop runs over the range of a worker.
  std::string nest(const std::string& lines, bool divided) {
    const std::size_t rank = target_.dims.size(), first_tiled = tiled_ ? rank - 2 : rank;
    std::string text, ends;
    std::size_t depth = 0;
    for (std::size_t d = 0; d < rank; ++d) {
      const bool range = divided && d == 0;
      const std::string begin = range ? "begin" : "0",
                        end = range ? "end" : factor(target_.dims[d]);
      const bool tiled = d >= first_tiled;
      const std::string variable = tiled ? tile_of(d) : loop_variable(d);
      text += fmt::format("{0}for (int64_t {1} = {2}; {1} < {3}; {4}) {{\n",
                          std::string(2 * ++depth, ' '), variable, begin, end,
                          tiled ? fmt::format("{} += {}", variable, kTile) : "++" + variable);
      if (!tiled) continue;
      ends +=
          fmt::format("{}const int64_t {} = {}min<int64_t>({} + {}, {});\n",
                      std::string(2 * (rank + 1), ' '), end_of(d), kScope, tile_of(d), kTile, end);
    }
    text += ends + tile_lines_;
    for (std::size_t d = first_tiled; d < rank; ++d)
      text += fmt::format("{0}for (int64_t {1} = {2}; {1} < {3}; ++{1}) {{\n",
                          std::string(2 * ++depth, ' '), loop_variable(d), tile_of(d), end_of(d));
    text += lines;
    for (; depth > 0; --depth) text += std::string(2 * depth, ' ') + "}\n";
    return text;
  }

  void write() {
    std::vector<std::size_t> uses(nodes_.size(), 0);
    for (const Expression& e : nodes_)
      for (const auto& operand : e.operands) ++uses[index_of(operand)];
    tiled_ = has_tiles();
    const std::string indent(2 * (target_.dims.size() + (tiled_ ? 3 : 1)), ' ');
    std::string lines;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Expression& e = nodes_[i];
      add_name(e);
      const std::string value = value_of(i);
      const bool plain = e.kind == Expression::Kind::kLoad && e.type != ElementType::kBool;
      const bool is_root = i == index_of(root_);
      if (e.kind == Expression::Kind::kLiteral || (plain && uses[i] <= 1) || is_root) {
        texts_.push_back(value);
        continue;
      }
      texts_.push_back(fmt::format("v{}", ++named_));
      lines +=
          fmt::format("{}const {} {} = {};\n", indent, computed_type(e.type), texts_.back(), value);
    }
    const ElementType type = program_.buffers[target_.buffer].element;
    const bool half = type == ElementType::kF16 || type == ElementType::kBF16;
    const std::string& result = texts_[index_of(root_)];
    lines += fmt::format(
        "{}y[{}] = {};\n", indent, position(target_),
        half ? fmt::format("{}narrow<{}>({})", kScope, stored_type(type), result) : result);
    const bool divided = program_.is_plain() &&
                         plan::product(target_.dims).bound() >= kParallelElements &&
                         target_.dims[0].bound() > 1;
    if (divided) iterations = target_.dims[0];
    body = nest(lines, divided);
    arguments.push_back({target_.buffer, target_.offset, true});
    parameters += fmt::format("{}* __restrict y", stored_type(type));
    if (divided) parameters += ", int64_t begin, int64_t end";
    for (std::size_t i = 0; i < dims_.dims().size(); ++i) {
      if (!used_.contains(dims_.dims()[i].get())) continue;
      sizes.push_back(DimNames::variable(dims_.identifiers()[i]));
      parameters += ", int64_t " + sizes.back();
    }
    if (name.empty()) name = arguments.size() > 1 ? "copy" : "fill";
  }

  const plan::Program& program_;
  const DimNames& dims_;
  View target_;
  std::set<const plan::OpenDim*> used_;
  plan::ExpressionPtr root_;
  std::vector<Expression> nodes_;
  std::vector<const Expression*> pointers_;
  std::vector<std::string> texts_;
  bool tiled_ = false;
  std::map<std::string, std::string> tiles_;  // arguments of transpose_tile() -> copy
  std::string tile_lines_;                    // the copies, before the loops of a tile
  std::uint64_t tile_bytes_ = 0;
  int named_ = 0;
};

}  // namespace

std::string_view stored_type(ElementType element) {
  switch (element) {
    case ElementType::kF16:
      return "function::f16";
    case ElementType::kBF16:
      return "function::bf16";
    case ElementType::kBool:
      return "uint8_t";
    default:
      return computed_type(element);
  }
}

std::string_view computed_type(ElementType element) {
  switch (element) {
    case ElementType::kF32:
    case ElementType::kF16:
    case ElementType::kBF16:
      return "float";
    case ElementType::kF64:
      return "double";
    case ElementType::kI8:
      return "int8_t";
    case ElementType::kU8:
      return "uint8_t";
    case ElementType::kI16:
      return "int16_t";
    case ElementType::kU16:
      return "uint16_t";
    case ElementType::kI32:
      return "int32_t";
    case ElementType::kU32:
      return "uint32_t";
    case ElementType::kI64:
      return "int64_t";
    case ElementType::kU64:
      return "uint64_t";
    case ElementType::kBool:
      return "bool";
  }
  return "";
}

namespace {

std::string list_text(const plan::Sizes& sizes, const DimNames& dims) {
  if (plan::all_constant(sizes))
    return fmt::format("{}Sizes<{}>{{}}", kScope, fmt::join(plan::bounds(sizes), ", "));
  std::vector<std::string> values;
  for (const plan::Size& size : sizes) values.push_back(dims.text(size));
  return fmt::format("{}RuntimeSizes<{}>{{{{{}}}}}", kScope, sizes.size(), fmt::join(values, ", "));
}

}  // namespace

std::string windows_text(const plan::LinearStage& stage, const std::string& source,
                         const DimNames& dims) {
  const plan::View &first = stage.windows->first, &elements = stage.windows->elements;
  return fmt::format("windows<{}>({}, {}, {}, {}, {})", stage.k, source,
                     list_text(first.dims, dims), list_text(first.strides, dims),
                     list_text(elements.dims, dims), list_text(elements.strides, dims));
}

std::vector<std::string> number_texts(const plan::CallStage& stage, const DimNames& dims) {
  struct Text {
    const DimNames& dims;
    std::string operator()(const plan::Size& value) const { return dims.text(value); }
    std::string operator()(float value) const { return float_literal(value); }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(const plan::Sizes& sizes) const { return list_text(sizes, dims); }
  };
  std::vector<std::string> texts;
  for (const auto& number : stage.numbers) texts.push_back(std::visit(Text{dims}, number.value));
  return texts;
}

std::string call_text(const plan::CallStage& stage, std::span<const std::string> buffers,
                      std::span<const std::string> numbers) {
  std::vector<std::string> types, config, lists, arguments(buffers.begin(), buffers.end());
  for (const ir::ElementType type : stage.types) types.emplace_back(stored_type(type));
  for (const std::string_view tag : stage.tags) types.push_back(fmt::format("{}{}", kScope, tag));
  bool all_empty = true;  // then the parameters' defaults are used
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto& [name, value] = stage.numbers[i];
    if (name.empty()) {
      arguments.push_back(numbers[i]);
    } else if (const auto* sizes = std::get_if<plan::Sizes>(&value)) {
      all_empty &= sizes->empty();
      lists.push_back(fmt::format("/*{}=*/{}", name, numbers[i]));
    } else if (numbers[i] != "0" && numbers[i] != "false") {  // defaults of the fields
      config.push_back(fmt::format(".{} = {}", name, numbers[i]));
    }
  }
  const bool has_config = std::ranges::any_of(
      stage.numbers, [](const plan::CallStage::Number& number) { return !number.name.empty(); });
  if (has_config) arguments.push_back(fmt::format("{{{}}}", fmt::join(config, ", ")));
  if (!all_empty) arguments.insert(arguments.end(), lists.begin(), lists.end());
  return fmt::format("{}{}<{}>({})", kScope, stage.kernel, fmt::join(types, ", "),
                     fmt::join(arguments, ", "));
}

LoopNests::Call LoopNests::add(const plan::MapStage& stage) {
  LoopWriter loop(program_, dims_, stage);
  const auto [it, is_new] = known_.try_emplace(loop.parameters + "\n" + loop.body);
  if (is_new) {
    it->second = fmt::format("{}_{}", loop.name, known_.size());
    text_ += fmt::format("\nvoid {}({}) {{\n{}}}\n", it->second, loop.parameters, loop.body);
  }
  return {it->second, std::move(loop.arguments), loop.iterations, std::move(loop.sizes)};
}

}  // namespace llmc::emit
