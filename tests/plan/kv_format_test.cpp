#include "compiler/plan/kv_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace llmc::plan {
namespace {

TEST(KvFormats, NamesComeBack) {
  using enum KvFormat;
  for (const KvFormat keys : {kF32, kF16, kInt8}) {
    for (const KvFormat values : {kF32, kF16, kInt8, kFp8}) {
      const KvFormats formats{keys, values};
      const auto parsed = parse_kv_formats(to_string(formats));
      ASSERT_TRUE(parsed.ok()) << to_string(formats);
      EXPECT_EQ(*parsed, formats);
    }
  }
  EXPECT_EQ(to_string(KvFormats{}), "f32");
  EXPECT_EQ(to_string({KvFormat::kF16, KvFormat::kF32}), "K=f16,V=f32");
}

TEST(KvFormats, PartsMayStandAloneAndInAnyOrder) {
  const auto parsed = [](std::string_view text) { return *parse_kv_formats(text); };
  EXPECT_EQ(parsed("int8"), (KvFormats{KvFormat::kInt8, KvFormat::kInt8}));
  EXPECT_EQ(parsed("V=fp8,K=int8"), (KvFormats{KvFormat::kInt8, KvFormat::kFp8}));
  EXPECT_EQ(parsed("f16"), (KvFormats{KvFormat::kF16, KvFormat::kF16}));
  EXPECT_EQ(parsed("K=f16"), (KvFormats{KvFormat::kF16, KvFormat::kF32}));
  EXPECT_EQ(parsed("V=f16"), (KvFormats{KvFormat::kF32, KvFormat::kF16}));
  EXPECT_EQ(parsed("V=f32,K=f16"), (KvFormats{KvFormat::kF16, KvFormat::kF32}));
}

TEST(KvFormats, AnythingElseIsRefused) {
  for (const char* text :
       {"", "f8", "F16", "K=", "=f16", "K=f16,", ",K=f16", "K=f16,K=f16", "K=f16,V=f16,V=f16",
        "f16,f16", "k=f16", "X=f16", "K=f16;V=f16", "K=f16 ,V=f16", "K==f16", "fp8", "K=fp8"}) {
    const auto parsed = parse_kv_formats(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().first().kind, ErrorKind::kUsage) << text;
    EXPECT_THAT(parsed.error().first().message, ::testing::HasSubstr("--kv")) << text;
  }
}

}  // namespace
}  // namespace llmc::plan
