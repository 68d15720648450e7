// What `cmake --install` puts in place is enough to compile a model and to embed it.
#ifdef LLMC_PROGRAM
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/file.h"
#include "compiler/support/subprocess.h"
#include "tests/end_to_end/models.h"
#include "tests/end_to_end/program.h"

namespace llmc::tests {
namespace {

namespace fs = std::filesystem;

TEST(Install, HasAllThatEmbeddingNeeds) {
  const ModelFolder model;
  testing::TemporaryFolder out;
  const fs::path prefix = out.path() / "prefix";
  output_of({LLMC_CMAKE, "--install", LLMC_BINARY_DIR, "--prefix", prefix});
  const fs::path include = prefix / "include";
  for (const char* header : {"llmc.h", "hosted.h", "model.h", "arena.h"}) {
    EXPECT_TRUE(fs::exists(include / "llmc" / header)) << header;
  }
  fs::path hosted;
  for (const auto& entry : fs::recursive_directory_iterator(prefix)) {
    if (entry.path().filename() == "libllmc_hosted.a") hosted = entry.path();
  }
  ASSERT_FALSE(hosted.empty());
  EXPECT_TRUE(fs::exists(prefix / "bin/llmc-opt"));

  // By the installed program alone, as it would be without this source tree.
  const fs::path bundle = out.path() / "bundle";
  output_of({prefix / "bin/llmc", "compile", model.path(), "--target=generic", "-q", "--cflag=-O0",
             "--name", "tiny", "-o", bundle});
  constexpr std::string_view kProgram = R"(
#include <stdio.h>
#include "llmc/hosted.h"
#include "tiny.h"
static unsigned char arena[TINY_ARENA_BYTES] __attribute__((aligned(LLMC_ALIGNMENT)));
int main(void) {
  llmc_pool* pool;
  llmc_session* session;
  llmc_config config = {0};
  int32_t prompt[] = {1, 2, 3}, token;
  config.size = sizeof config;
  if (llmc_pool_create(2, &pool) != LLMC_OK) return 1;
  config.threads = 2;
  config.parallel_for = llmc_pool_parallel_for;
  config.parallel_user = pool;
  if (tiny_init(&session, arena, sizeof arena, &config) != LLMC_OK) return 2;
  if (llmc_prefill(session, prompt, 3, NULL) != LLMC_OK) return 3;
  if (llmc_step(session, &token) != LLMC_OK) return 4;
  printf("%d\n", (int)token);
  return 0;
}
)";
  ASSERT_TRUE(write_file(out.path() / "app.c", kProgram).ok());
  std::vector<std::string> link{"clang-19",
                                "-I" + bundle.string(),
                                "-I" + include.string(),
                                out.path() / "app.c",
                                bundle / "libtiny.a",
                                hosted,
                                "-lstdc++",
                                "-lpthread",
                                "-ldl",
                                "-lm",
                                "-o",
                                out.path() / "app"};
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  link.emplace_back("-fsanitize=address,undefined");
#endif
#endif
  output_of(link);
  EXPECT_FALSE(output_of({out.path() / "app"}).empty());
}

}  // namespace
}  // namespace llmc::tests
#endif
