#include "tests/end_to_end/models.h"

#include <stdlib.h>

#include <algorithm>

#include "compiler/evaluate/logits.h"
#include "compiler/plan/kv_format.h"
#include "compiler/support/diagnostic.h"

namespace llmc::tests {
namespace {

/// One cache for this program's tests, gone when it ends.
class CacheEnvironment : public ::testing::Environment {
 public:
  void SetUp() override {
    folder_ = std::make_unique<testing::TemporaryFolder>();
    setenv("XDG_CACHE_HOME", folder_->path().c_str(), 1);
  }
  void TearDown() override { folder_.reset(); }

 private:
  std::unique_ptr<testing::TemporaryFolder> folder_;
};
const auto* const kCacheEnvironment =
    ::testing::AddGlobalTestEnvironment(new CacheEnvironment);  // owned by the framework

}  // namespace

std::filesystem::path shared_folder() {
  const char* given = getenv("LLMC_SHARED_DIR");
  return given != nullptr ? std::filesystem::path(given)
                          : std::filesystem::path(LLMC_SOURCE_DIR).parent_path() / "shared";
}

driver::CompileOptions options_for(const std::filesystem::path& model, std::string target,
                                   passes::QuantScheme format) {
  driver::CompileOptions options;
  options.model = model;
  options.target = std::move(target);
  options.quant = format;
  options.kv = plan::default_kv_formats(format.format);
  options.ctx = 128;
  options.threads_max = 4;
  options.cflags = {"-O0"};
  return options;
}

std::string test_name(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

std::size_t entries(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                                std::filesystem::directory_iterator()));
}

void expect_ok(const Error& error) {
  for (const Diagnostic& d : error.diagnostics()) ADD_FAILURE() << format(d);
}

driver::CompileOptions quick(const std::filesystem::path& model, const std::filesystem::path& out) {
  auto options = options_for(model, "generic", passes::kQ4Mixed);
  options.out_dir = out;
  return options;
}

std::unique_ptr<exec::NativeModel> load(const driver::CompileOptions& options) {
  auto model = exec::load_native({.compile = options});
  if (!model.ok()) {
    expect_ok(model.error());
    return nullptr;
  }
  return *std::move(model);
}

Generated generate(const exec::NativeModel& model, const std::vector<std::int32_t>& prompt,
                   std::size_t count, exec::SessionOptions options) {
  Generated result;
  const auto session = model.start(options);
  if (!session.ok()) {
    expect_ok(session.error());
    return result;
  }
  exec::Session& s = **session;
  if (const Status status = s.prefill(prompt); !status.ok()) {
    expect_ok(status.error());
    return result;
  }
  evaluate::LogitHash hash;
  for (std::size_t i = 0; i < count; ++i) {
    const auto logits = s.logits();
    const auto token = s.sample();
    if (!logits.ok() || !token.ok()) {
      expect_ok(logits.ok() ? token.error() : logits.error());
      return result;
    }
    hash.add(*logits);
    result.ids.push_back(*token);
    if (i + 1 < count) EXPECT_TRUE(s.prefill(std::span(&*token, 1)).ok());
  }
  result.logit_hash = hash.text();
  return result;
}

std::vector<std::int32_t> made_up_prompt(std::size_t count, std::int32_t vocabulary) {
  std::vector<std::int32_t> prompt;
  for (std::size_t i = 0; i < count; ++i) {
    prompt.push_back(
        static_cast<std::int32_t>((i * 37 + 5) % static_cast<std::size_t>(vocabulary)));
  }
  return prompt;
}

}  // namespace llmc::tests

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
