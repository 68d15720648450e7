#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "compiler/driver/compile.h"
#include "compiler/exec/native.h"
#include "tests/support_onnx/tiny_llama.h"

/// Models for end-to-end tests and what they say.
namespace llmc::tests {

/// A tiny Llama written as a split export into a folder of its own.
class ModelFolder {
 public:
  explicit ModelFolder(const testing::TinyLlamaConfig& config = {}) : model_(config) {
    std::filesystem::create_directories(path());
    model_.write(path());
  }
  std::filesystem::path path() const { return folder_.path() / "tiny-model"; }
  const testing::TinyLlama& model() const { return model_; }

 private:
  testing::TemporaryFolder folder_;
  testing::TinyLlama model_;
};

/// The shipped model.
inline std::filesystem::path tinyfable() {
  return std::filesystem::path(LLMC_SOURCE_DIR) / "models/tinyfable";
}
/// Reference material that need not be there: LLMC_SHARED_DIR, or ../shared.
std::filesystem::path shared_folder();

/// Options for a test: small context, the target's chunk, and not optimized, since compiling
/// takes most of a test. Tests of what the compiler makes of code clear `cflags`.
driver::CompileOptions options_for(const std::filesystem::path& model, std::string target,
                                   passes::QuantScheme format);
/// Options for the generic target: of tests that look at files.
driver::CompileOptions quick(const std::filesystem::path& model, const std::filesystem::path& out);
/// Loaded through the cache that all tests of this program share.
std::unique_ptr<exec::NativeModel> load(const driver::CompileOptions& options);
/// Returns a name with '_' for each '-', as names of parameterized tests need it.
std::string test_name(std::string name);
/// Files and folders directly in `folder`, hidden ones too.
std::size_t entries(const std::filesystem::path& folder);
/// Adds failures for every diagnostic.
void expect_ok(const Error& error);

/// Returns `count` ids below `vocabulary`, the same in every call.
std::vector<std::int32_t> made_up_prompt(std::size_t count, std::int32_t vocabulary);

struct Generated {
  std::vector<std::int32_t> ids;
  std::string logit_hash;  // of all logits on the way
};
/// Greedy ids after `prompt`.
Generated generate(const exec::NativeModel& model, const std::vector<std::int32_t>& prompt,
                   std::size_t count, exec::SessionOptions session = {});

}  // namespace llmc::tests
