#include "compiler/evaluate/peer_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "compiler/support/file.h"
#include "compiler/support/text_position.h"

namespace llmc::evaluate {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 20;
constexpr std::size_t kMaxRows = 100, kMaxTextBytes = 48;
constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 53;  // whole numbers that a double holds
constexpr double kMaxKl = 1e6;                               // nats

/// Reads the fields of an object. Keeps the first error and returns zeros after it.
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) fail(where_ + " is not an object");
  }

  std::string text(const char* key) {
    const Json* const value = find(key);
    if (value == nullptr) return {};
    const auto* const text = value->get_ptr<const std::string*>();
    const bool valid = text != nullptr && !text->empty() && text->size() <= kMaxTextBytes &&
                       printable(*text) == *text;
    if (!valid) {
      refuse(key, fmt::format("a text of 1 to {} printable bytes", kMaxTextBytes));
      return {};
    }
    return *text;
  }

  std::uint64_t count(const char* key) {
    const Json* const value = find(key);
    if (value == nullptr) return 0;
    const bool valid = value->is_number_unsigned() && value->get<std::uint64_t>() >= 1 &&
                       value->get<std::uint64_t>() <= kMaxCount;
    if (valid) return value->get<std::uint64_t>();
    refuse(key, "a whole number from 1 to 2^53");
    return 0;
  }

  double number(const char* key, double min, double max) {
    const Json* const value = find(key);
    if (value == nullptr) return 0;
    // A comparison with NaN is false.
    if (value->is_number() && value->get<double>() >= min && value->get<double>() <= max)
      return value->get<double>();
    refuse(key, fmt::format("a number from {:g} to {:g}", min, max));
    return 0;
  }

  const Json& list(const char* key) {
    static const Json none = Json::array();
    const Json* const value = find(key);
    if (value == nullptr) return none;
    if (value->is_array() && !value->empty() && value->size() <= kMaxRows) return *value;
    refuse(key, fmt::format("a list of 1 to {} rows", kMaxRows));
    return none;
  }

  /// Returns the first error; an unknown key is one.
  std::optional<std::string> finish() {
    if (object_.is_object()) {
      for (const auto& [key, value] : object_.items())
        if (!known_.contains(key))
          fail(fmt::format("{}: unknown key '{}'", where_, printable(key, 80)));
    }
    return error_;
  }

 private:
  const Json* find(const char* key) {
    known_.insert(key);
    if (error_) return nullptr;
    const auto found = object_.find(key);
    if (found != object_.end()) return &*found;
    fail(fmt::format("{}: '{}' is missing", where_, key));
    return nullptr;
  }
  void refuse(const char* key, const std::string& expected) {
    fail(fmt::format("{}: '{}' is not {}", where_, key, expected));
  }
  void fail(std::string message) {
    if (!error_) error_ = std::move(message);
  }

  const Json& object_;
  const std::string where_;
  std::set<std::string> known_;
  std::optional<std::string> error_;
};

std::optional<std::string> read_row(const Json& json, const std::string& where, PeerRow& row) {
  constexpr double kMaxPerplexity = 1e12;
  Fields fields(json, where);
  row.name = fields.text("name");
  row.weight_bytes = fields.count("weight_bytes");
  row.weight_bytes_per_token = fields.count("weight_bytes_per_token");
  row.perplexity = {fields.number("perplexity", 1, kMaxPerplexity),
                    fields.number("perplexity_standard_error", 0, kMaxPerplexity)};
  row.kl = {fields.number("kl", 0, kMaxKl), fields.number("kl_standard_error", 0, kMaxKl)};
  row.same_top = fields.number("same_top", 0, 1);
  return fields.finish();
}

}  // namespace

Result<PeerFile> parse_peer_file(std::string_view text, const std::string& file) {
  const auto bad = [&](std::string message) {
    return file_failure(ErrorKind::kBadInput, file, std::move(message),
                        "--peer takes a file that tools/peers/quality.py wrote");
  };
  // The parser keeps the last of two equal keys.
  std::vector<std::set<std::string>> open;
  std::string repeated;
  const auto note_keys = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) open.emplace_back();
    if (event == Json::parse_event_t::object_end) open.pop_back();
    if (event == Json::parse_event_t::key && !open.back().insert(value.get<std::string>()).second)
      repeated = value.get<std::string>();
    return true;
  };
  Json json;
  try {
    json = Json::parse(text, note_keys);
  } catch (const Json::parse_error& wrong) {
    return bad("is not valid JSON: " + line_and_column(text, wrong.byte));
  } catch (const Json::exception&) {  // a number too large for a double
    return bad("is not valid JSON");
  }
  if (!repeated.empty()) return bad(fmt::format("'{}' is given twice", printable(repeated, 80)));
  PeerFile peer;
  Fields fields(json, "the file");
  peer.program = fields.text("program");
  peer.cache = fields.text("cache");
  peer.predicted = fields.count("predicted");
  const Json& rows = fields.list("rows");
  if (const auto error = fields.finish()) return bad(*error);
  for (const Json& value : rows) {
    PeerRow row;
    const std::string where = fmt::format("row {}", peer.rows.size() + 1);
    if (const auto error = read_row(value, where, row)) return bad(*error);
    if (row.weight_bytes_per_token > row.weight_bytes)
      return bad(where + ": more weight bytes per token than weight bytes");
    if (std::ranges::count(peer.rows, row.name, &PeerRow::name) > 0)
      return bad(fmt::format("{}: '{}' is given twice", where, row.name));
    peer.rows.push_back(std::move(row));
  }
  return peer;
}

Result<PeerFile> read_peer_file(const std::filesystem::path& path) {
  LLMC_TRY(const std::string text, read_file(path, kMaxFileBytes));
  return parse_peer_file(text, path.string());
}

}  // namespace llmc::evaluate
