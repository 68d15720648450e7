#include "compiler/evaluate/peer_file.h"

#include <gmock/gmock.h>

#include <string>

#include "compiler/support/file.h"
#include "tests/support/temporary_folder.h"

namespace llmc::evaluate {
namespace {

using ::testing::HasSubstr;

constexpr const char* kRow =
    R"({"name": "Q8_0", "weight_bytes": 900, "weight_bytes_per_token": 800, "perplexity": 7.5,)"
    R"( "perplexity_standard_error": 0.25, "kl": 0.001, "kl_standard_error": 1e-5, "same_top": 0.98})";

std::string file_with(const std::string& rows) {
  return R"({"program": "llama.cpp 0.7.0", "cache": "f32", "predicted": 7761, "rows": [)" + rows +
         "]}";
}

/// kRow with the value of a key replaced; an empty value removes the key, which is not the last.
std::string row_with(const std::string& key, const std::string& value) {
  std::string row = kRow;
  const std::size_t begin = row.find("\"" + key + "\"");
  EXPECT_NE(begin, row.npos) << key;
  std::size_t end = row.find(',', begin);
  if (end == row.npos) end = row.size() - 1;
  if (value.empty()) return row.erase(begin, end + 1 - begin);
  return row.replace(begin, end - begin, "\"" + key + "\": " + value);
}

void expect_refused(const std::string& text, const std::string& words) {
  const auto parsed = parse_peer_file(text, "peer.json");
  ASSERT_FALSE(parsed.ok()) << text;
  EXPECT_EQ(parsed.error().first().kind, ErrorKind::kBadInput);
  EXPECT_EQ(parsed.error().first().file, "peer.json");
  EXPECT_THAT(parsed.error().first().message, HasSubstr(words)) << text;
  EXPECT_NE(parsed.error().first().hint, "");
}

TEST(PeerFile, HasTheRowsOfTheFile) {
  const auto parsed = parse_peer_file(
      file_with(std::string(kRow) + "," + row_with("name", "\"Q4_0\"")), "peer.json");
  ASSERT_TRUE(parsed.ok()) << parsed.error().first().message;
  EXPECT_EQ(parsed->program, "llama.cpp 0.7.0");
  EXPECT_EQ(parsed->cache, "f32");
  EXPECT_EQ(parsed->predicted, 7761u);
  ASSERT_EQ(parsed->rows.size(), 2u);
  const PeerRow& row = parsed->rows[0];
  EXPECT_EQ(row.name, "Q8_0");
  EXPECT_EQ(row.weight_bytes, 900u);
  EXPECT_EQ(row.weight_bytes_per_token, 800u);
  EXPECT_EQ(row.perplexity.value, 7.5);
  EXPECT_EQ(row.perplexity.error, 0.25);
  EXPECT_EQ(row.kl.value, 0.001);
  EXPECT_EQ(row.kl.error, 1e-5);
  EXPECT_EQ(row.same_top, 0.98);
  EXPECT_EQ(parsed->rows[1].name, "Q4_0");
}

TEST(PeerFile, RefusesWhatIsNoPeerFile) {
  expect_refused("", "is not valid JSON: line 1, column 1");
  expect_refused("{", "is not valid JSON");
  expect_refused(std::string(10000, '['), "is not valid JSON");
  expect_refused("\xff\xfe", "is not valid JSON");
  expect_refused("[]", "the file is not an object");
  expect_refused("{}", "'program' is missing");
  expect_refused(R"({"program": 1, "cache": "f32", "predicted": 1, "rows": []})",
                 "'program' is not a text");
  expect_refused(R"({"program": "p", "cache": "f32", "predicted": 0, "rows": []})",
                 "'predicted' is not a whole number");
  expect_refused(file_with(""), "'rows' is not a list");
  expect_refused(R"({"program": "p", "cache": "f32", "predicted": 1, "rows": {}})",
                 "'rows' is not a list");
  std::string rows = kRow;
  for (int i = 1; i <= 100; ++i) rows += "," + row_with("name", "\"" + std::to_string(i) + "\"");
  expect_refused(file_with(rows), "'rows' is not a list of 1 to 100 rows");
  std::string more = file_with(kRow);
  expect_refused(more.insert(1, "\"extra\": 1, "), "unknown key 'extra'");
  expect_refused(file_with(kRow).insert(1, R"("program": "p", )"), "'program' is given twice");
  expect_refused(file_with("1"), "row 1 is not an object");
}

TEST(PeerFile, RefusesInvalidRows) {
  for (const char* key : {"name", "weight_bytes", "weight_bytes_per_token", "perplexity",
                          "perplexity_standard_error", "kl", "kl_standard_error"})
    expect_refused(file_with(row_with(key, "")), std::string("row 1: '") + key + "' is missing");
  for (const char* name : {"\"\"", "7", "null", "\"a\\nb\"", "\"\\u001b[31m\"", "\"\\u202eab\"",
                           "\"1234567890123456789012345678901234567890123456789\""})
    expect_refused(file_with(row_with("name", name)), "row 1: 'name' is not a text");
  for (const char* bytes : {"0", "-1", "1.5", "\"1\"", "9007199254740993", "1e3", "true"})
    expect_refused(file_with(row_with("weight_bytes", bytes)),
                   "row 1: 'weight_bytes' is not a whole number");
  for (const char* kl : {"-1e-9", "1e7", "\"0\"", "null"})
    expect_refused(file_with(row_with("kl", kl)), "row 1: 'kl' is not a number");
  expect_refused(file_with(row_with("kl", "1e999")), "is not valid JSON");
  expect_refused(file_with(row_with("kl", "NaN")), "is not valid JSON");
  expect_refused(file_with(row_with("perplexity", "0.5")), "'perplexity' is not a number from 1");
  expect_refused(file_with(row_with("perplexity_standard_error", "-1")),
                 "'perplexity_standard_error' is not a number");
  expect_refused(file_with(row_with("same_top", "1.01")), "'same_top' is not a number from 0 to 1");
  expect_refused(file_with(row_with("weight_bytes_per_token", "901")),
                 "more weight bytes per token than weight bytes");
  expect_refused(file_with(row_with("same_top", "1, \"same_pot\": 1")), "unknown key 'same_pot'");
  expect_refused(file_with(row_with("same_top", "1, \"kl\": 1")), "'kl' is given twice");
  expect_refused(file_with(std::string(kRow) + "," + kRow), "row 2: 'Q8_0' is given twice");
}

TEST(PeerFile, ReadsFilesOfLimitedSize) {
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "peer.json";
  ASSERT_TRUE(write_file(path, file_with(kRow)).ok());
  EXPECT_TRUE(read_peer_file(path).ok());
  ASSERT_TRUE(write_file(path, file_with(kRow) + std::string(1 << 20, ' ')).ok());
  EXPECT_FALSE(read_peer_file(path).ok());
  EXPECT_FALSE(read_peer_file(folder.path() / "none.json").ok());
}

}  // namespace
}  // namespace llmc::evaluate
