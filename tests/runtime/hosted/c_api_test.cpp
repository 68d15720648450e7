#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "llmc/hosted.h"
#include "runtime/hosted/mapped_weights.h"
#include "runtime/hosted/tokenizer.h"
#include "tests/runtime/core/fake_model.h"
#include "tests/runtime/hosted/shared_files.h"

namespace llmc::hosted {
namespace {

namespace fs = std::filesystem;

/// A file that goes away with it.
struct TemporaryFile {
  TemporaryFile(const std::string& name, const std::string& content)
      : path(fs::temp_directory_path() / (std::to_string(getpid()) + name)) {
    std::ofstream(path, std::ios::binary) << content;
  }
  ~TemporaryFile() { fs::remove(path); }
  fs::path path;
};

TEST(HostedC, ASessionOnAPool) {
  llmc_pool* pool = nullptr;
  ASSERT_EQ(llmc_pool_create(3, &pool), LLMC_OK);
  EXPECT_EQ(llmc_pool_threads(pool), 3u);
  llmc_config config = fake::config();
  config.threads = llmc_pool_threads(pool);
  config.parallel_for = llmc_pool_parallel_for;
  config.parallel_user = pool;
  const auto tokens = fake::prompt(30);
  const fake::Session threaded(config);
  const fake::Session serial;
  ASSERT_EQ(llmc_prefill(threaded, tokens.data(), tokens.size(), nullptr), LLMC_OK);
  ASSERT_EQ(llmc_prefill(serial, tokens.data(), tokens.size(), nullptr), LLMC_OK);
  EXPECT_EQ(fake::hash_logits(llmc_logits(threaded)), fake::hash_logits(llmc_logits(serial)));
  llmc_pool_destroy(pool);

  ASSERT_EQ(llmc_pool_create(0, &pool), LLMC_OK);
  EXPECT_EQ(llmc_pool_threads(pool), llmc_usable_cores());
  llmc_pool_destroy(pool);
  llmc_pool_destroy(nullptr);
  EXPECT_EQ(llmc_pool_create(1u << 30, &pool), LLMC_ERROR_ARGUMENT);
  EXPECT_EQ(pool, nullptr);
  EXPECT_EQ(llmc_pool_create(1, nullptr), LLMC_ERROR_ARGUMENT);
}

TEST(HostedC, WeightsFromAFile) {
  llmc_model model = fake::model();
  llmc_weights_header header{};
  std::memcpy(header.magic, LLMC_WEIGHTS_MAGIC, sizeof header.magic);
  header.bytes = model.weights_bytes;
  header.hash = model.weights_hash;
  std::string content(reinterpret_cast<const char*>(&header), sizeof header);
  content.append(reinterpret_cast<const char*>(model.weights), model.weights_bytes);
  model.weights = nullptr;
  const TemporaryFile file("weights.bin", content);
  llmc_config config = fake::config();
  ASSERT_EQ(llmc_map_weights(file.path.c_str(), &config.weights, &config.weights_bytes), LLMC_OK);
  EXPECT_EQ(config.weights_bytes, content.size());
  {
    const fake::Session session(config, model);
    EXPECT_EQ(session.status, LLMC_OK);
    EXPECT_EQ(llmc_append(session, 1), LLMC_OK);
  }
  llmc_unmap_weights(config.weights, config.weights_bytes);
  llmc_unmap_weights(nullptr, 0);
}

TEST(HostedC, FilesThatCannotBeMapped) {
  const TemporaryFile empty("empty.bin", "");
  for (const fs::path& path :
       {fs::path("/nonexistent"), fs::path("/"), fs::path("/dev/zero"), empty.path}) {
    const void* weights = &path;
    std::size_t bytes = 1;
    EXPECT_EQ(llmc_map_weights(path.c_str(), &weights, &bytes), LLMC_ERROR_FILE) << path;
    EXPECT_EQ(weights, nullptr);
    EXPECT_EQ(bytes, 0u);
    EXPECT_THAT(MappedWeights::open(path).failure().message, testing::HasSubstr(path.string()));
  }
}

TEST(HostedC, Tokenizer) {
  const TemporaryFile file("tokenizer.txt",
                           "430 0\n2 1 1\n1 2 2 1\n6\nPHVuaz4= 0 2\nPHM+ 0 3\nPC9zPg== 0 3\n"
                           "4paB -1 1\nYQ== -2 1\n4paBYQ== -3 1\n");
  llmc_tokenizer* tokenizer = nullptr;
  char message[100] = "before";
  ASSERT_EQ(llmc_tokenizer_load(file.path.c_str(), &tokenizer, message, sizeof message), LLMC_OK);
  EXPECT_STREQ(message, "");
  EXPECT_EQ(llmc_tokenizer_size(tokenizer), 6u);
  EXPECT_EQ(llmc_tokenizer_bos(tokenizer), 1);
  EXPECT_TRUE(llmc_tokenizer_is_stop(tokenizer, 2));
  EXPECT_FALSE(llmc_tokenizer_is_stop(tokenizer, 1));
  std::int32_t ids[4] = {9, 9, 9, 9};
  std::size_t count = 0;
  EXPECT_EQ(llmc_tokenizer_encode(tokenizer, "a a", 3, LLMC_ENCODE_PREFIX, ids, 4, &count),
            LLMC_OK);
  EXPECT_EQ(count, 3u);
  EXPECT_THAT(ids, testing::ElementsAre(1, 5, 5, 9));
  EXPECT_EQ(llmc_tokenizer_encode(tokenizer, "a a", 3, 0, nullptr, 0, &count), LLMC_ERROR_BUFFER);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(llmc_tokenizer_encode(tokenizer, "</s>", 4, LLMC_ENCODE_SPECIAL, ids, 1, &count),
            LLMC_OK);
  EXPECT_EQ(ids[0], 2);

  llmc_decoder* decoder = nullptr;
  ASSERT_EQ(llmc_decoder_create(tokenizer, 1, &decoder), LLMC_OK);
  const char* text = nullptr;
  std::size_t bytes = 9;
  EXPECT_EQ(llmc_decoder_add(decoder, 5, &text, &bytes), LLMC_OK);
  EXPECT_STREQ(text, "a");
  EXPECT_EQ(bytes, 1u);
  EXPECT_EQ(llmc_decoder_add(decoder, 5, &text, nullptr), LLMC_OK);
  EXPECT_STREQ(text, " a");
  EXPECT_EQ(llmc_decoder_finish(decoder, &text, nullptr), LLMC_OK);
  EXPECT_STREQ(text, "");
  llmc_decoder_free(decoder);
  llmc_tokenizer_free(tokenizer);

  auto made = Tokenizer::load(file.path);
  ASSERT_TRUE(made.ok());
  const auto tables = (*made)->tables();
  ASSERT_EQ(llmc_tokenizer_from_tables(tables.data(), tables.size(), &tokenizer, message, 100),
            LLMC_OK);
  EXPECT_EQ(llmc_tokenizer_encode(tokenizer, "a a", 3, LLMC_ENCODE_PREFIX | LLMC_ENCODE_SUFFIX, ids,
                                  4, &count),
            LLMC_OK);
  EXPECT_THAT(ids, testing::ElementsAre(1, 5, 5, testing::_));
  llmc_tokenizer_free(tokenizer);
  EXPECT_EQ(llmc_tokenizer_from_tables(tables.data(), 100, &tokenizer, message, sizeof message),
            LLMC_ERROR_FORMAT);
  EXPECT_STREQ(message, "the tokenizer: is cut short");
  EXPECT_EQ(llmc_tokenizer_from_tables(tables.data() + 1, 100, &tokenizer, message, 100),
            LLMC_ERROR_ARGUMENT);

  EXPECT_EQ(llmc_tokenizer_load("/nonexistent", &tokenizer, message, 13), LLMC_ERROR_FILE);
  EXPECT_STREQ(message, "/nonexistent");
  EXPECT_EQ(tokenizer, nullptr);
  EXPECT_EQ(llmc_tokenizer_load(nullptr, &tokenizer, nullptr, 0), LLMC_ERROR_ARGUMENT);
}

}  // namespace
}  // namespace llmc::hosted
