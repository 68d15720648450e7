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
#include "compiler/support/subprocess.h"
#include "tests/end_to_end/models.h"

#ifdef LLMC_PROGRAM
namespace llmc::tests {

/// What `llmc chat` left.
struct ChatRun {
  int code = -1;
  std::string out, err;
  /// Each line of `out` as JSON.
  std::vector<nlohmann::json> lines() const {
    std::vector<nlohmann::json> result;
    std::istringstream in(out);
    for (std::string line; std::getline(in, line);) result.push_back(nlohmann::json::parse(line));
    return result;
  }
};

/// Bundles of the shipped model, with a template and as it is, made once. The model's folder is
/// gone when they are used.
class ChatCommand : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new testing::TemporaryFolder;
    const std::filesystem::path model = folder_->path() / "model";
    std::filesystem::copy(tinyfable(), model, std::filesystem::copy_options::recursive);
    ASSERT_TRUE(write_file(model / "chat_template.jinja",
                           "{% for m in messages %}\n{{ bos_token if loop.first }}{{ m.role }}: {{ "
                           "m.content | trim }}\n{% endfor %}\n{% if add_generation_prompt %}\n"
                           "assistant:{% endif %}")
                    .ok());
    ASSERT_TRUE(write_file(model / "generation_config.json",
                           R"({"eos_token_id": [2], "temperature": 0.5, "top_k": 7})")
                    .ok());
    compile(model, "talker", "512");
    std::filesystem::remove_all(model);
    compile(tinyfable(), "plain", "4096");  // long answers, to be stopped
  }
  static void TearDownTestSuite() { delete std::exchange(folder_, nullptr); }
  static void compile(const std::filesystem::path& model, const std::string& name,
                      const std::string& ctx, const std::string& quant = "q4m") {
    const auto made = run_command({LLMC_PROGRAM, "compile", model.string(), "-o", bundle(name),
                                   "--target", "generic", "--opt-level=1", "--ctx", ctx, "--quant",
                                   quant, "--name", name, "--cflag=-O1", "-q"});
    ASSERT_TRUE(made.ok());
    ASSERT_EQ(made->exit_code, 0) << made->standard_error;
  }
  static std::string bundle(const std::string& name) { return (folder_->path() / name).string(); }

  /// llmc chat with these arguments, reading `said`; greedy unless they have --temp.
  static ChatRun chat(std::vector<std::string> arguments, const std::string& said) {
    const std::filesystem::path input = folder_->path() / "said";
    EXPECT_TRUE(write_file(input, said).ok());
    std::vector<std::string> argv{"sh", "-c", "exec \"$0\" chat \"$@\" < '" + input.string() + "'",
                                  LLMC_PROGRAM};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    if (std::ranges::find(arguments, "--temp") == arguments.end())
      argv.insert(argv.end(), {"--temp", "0"});
    const auto ran = run_command(argv);
    EXPECT_TRUE(ran.ok());
    return {ran->exit_code, ran->standard_output, ran->standard_error};
  }

  static inline testing::TemporaryFolder* folder_ = nullptr;
};

}  // namespace llmc::tests
#endif
