#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "compiler/support/file.h"
#include "tests/end_to_end/last_line.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {

/// `llmc run` of one bundle, of the shipped model with a context of 64 tokens.
class RunCommand : public ::testing::Test {
 protected:
  using Arguments = std::vector<std::string>;
  using json = nlohmann::json;
  static constexpr const char* kPrompt = "Once upon a time";

  static void SetUpTestSuite() {
    folder_ = new testing::TemporaryFolder;
    const ProgramRun made = llmc({"compile", tinyfable().string(), "-o", bundle(), "--target",
                                  "generic", "--cflag=-O1", "--ctx", "64", "-q"});
    ASSERT_EQ(made.code, 0) << made.err;
  }
  static void TearDownTestSuite() { delete std::exchange(folder_, nullptr); }

  static std::string bundle() { return (folder_->path() / "fable").string(); }
  static std::string file(const std::string& name, const std::string& text) {
    const std::filesystem::path path = folder_->path() / name;
    EXPECT_TRUE(write_file(path, text).ok());
    return path.string();
  }
  /// Greedy unless `more` has --temp.
  static ProgramRun run(Arguments more) {
    if (std::ranges::find(more, "--temp") == more.end()) more.insert(more.end(), {"--temp", "0"});
    more.insert(more.begin(), {"run", bundle(), "-t", "1"});
    return llmc(more);
  }
  static json result(Arguments more) {
    more.emplace_back("--json");
    const ProgramRun ran = run(more);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return json::parse(last_line(ran.out), nullptr, false);
  }
  static std::vector<std::int32_t> ids(const Arguments& more) { return result(more)["ids"]; }
  static std::string list(const std::vector<std::int32_t>& ids) {
    std::string text;
    for (const std::int32_t id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
    return text;
  }

  /// Generates 24 tokens after a prompt.
  static ProgramRun run_prompt(Arguments more) {
    more.insert(more.begin(), {"run", bundle(), "-t", "1", "-p", kPrompt, "-n", "24"});
    return llmc(more);
  }
  /// Each line that `run_prompt` prints with --json.
  static std::vector<json> lines(Arguments more) {
    more.insert(more.end(), {"--json", "--temp", "0"});
    const ProgramRun ran = run_prompt(more);
    EXPECT_EQ(ran.code, 0) << ran.err;
    std::vector<json> result;
    std::istringstream in(ran.out);
    for (std::string line; std::getline(in, line);) result.push_back(json::parse(line));
    return result;
  }

  static inline testing::TemporaryFolder* folder_ = nullptr;
};

/// `llmc run` of models that a test writes into a folder.
class RunOfModels : public ::testing::Test {
 protected:
  using Arguments = std::vector<std::string>;
  using json = nlohmann::json;

  std::string file(const std::string& name, const std::string& content) {
    EXPECT_TRUE(write_file(folder_.path() / name, content).ok());
    return (folder_.path() / name).string();
  }
  static std::string floats(const std::vector<float>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }
  /// Generates `tokens` tokens with a folder or a bundle.
  static ProgramRun run_model(const std::string& model, Arguments more, const char* tokens,
                              bool bundle) {
    more.insert(more.begin(), {"run", model, "--temp", "0", "-n", tokens, "-t", "1", "--json"});
    if (!bundle) more.insert(more.end(), {"--target", "generic", "--cflag=-O0"});
    return llmc(more);
  }
  static std::string hash(const ProgramRun& ran) {
    EXPECT_EQ(ran.code, 0) << ran.err;
    return json::parse(last_line(ran.out), nullptr, false).value("logits_hash", "");
  }

  testing::TemporaryFolder folder_;
};

}  // namespace llmc::tests
#endif
