#include "passes/op_key.h"

#include <bit>
#include <concepts>
#include <type_traits>

#include "compiler/ir/op_info.h"

namespace llmc::passes {

namespace {

/// Maximum sizes of constants that are compared by content. Those that are dense in memory, such as
/// folded ones, are compared without computing their elements.
constexpr std::size_t kContentLimit_bytes = std::size_t{64} << 10,
                      kDenseContentLimit_bytes = std::size_t{1} << 20;

template <std::integral T>
void put(std::string& key, T value) {
  key += std::to_string(value) + ',';
}
void put(std::string& key, float value) {
  put(key, static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(value)));
}
template <class E>
  requires std::is_enum_v<E>
void put(std::string& key, E value) {
  put(key, static_cast<std::int64_t>(value));
}
void put(std::string& key, const ir::ConstantPtr& data) {
  key += constant_key(data);
}
template <class T>
void put(std::string& key, const std::vector<T>& values);
template <class T>
void put_fields(std::string& key, const T& op);

template <class T>
void put(std::string& key, const std::optional<T>& value) {
  if (!value) {
    key += '-';
  } else if constexpr (std::is_same_v<T, ir::Rope>) {
    put_fields(key, *value);
  } else {
    put(key, *value);
  }
}
template <class T>
void put(std::string& key, const std::vector<T>& values) {
  put(key, static_cast<std::int64_t>(values.size()));
  for (const T& value : values) put(key, value);
}
template <class T>
void put_fields(std::string& key, const T& op) {
  ir::for_each_field<T>([&](const auto& field) { put(key, op.*field.member); });
}

}  // namespace

std::string constant_key(const ir::ConstantPtr& data) {
  std::string key(ir::to_string(data->element()));
  for (std::int64_t dim : data->dims()) key += '.' + std::to_string(dim);
  const bool dense = !data->window().empty();
  if (data->byte_count() > (dense ? kDenseContentLimit_bytes : kContentLimit_bytes))
    return key + '@' + std::to_string(reinterpret_cast<std::uintptr_t>(data.get()));
  const std::vector<std::byte> bytes = data->bytes();
  key += ':';
  key.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return key;
}

std::optional<std::string> op_key(const ir::Op& op) {
  if (std::holds_alternative<ir::Loop>(op)) return std::nullopt;
  std::string key(ir::op_name(op));
  key += '(';
  std::visit(
      [&]<class T>(const T& concrete) {
        if constexpr (std::is_same_v<T, ir::ConstantOp>) key += constant_key(concrete.data);
        put_fields(key, concrete);
      },
      op);
  return key;
}

}  // namespace llmc::passes
