#include "compiler/ir/dim.h"

#include <gtest/gtest.h>

namespace llmc::ir {
namespace {

Dim seq() {
  return Dim::symbol("seq");
}

Dim past() {
  return Dim::symbol("past");
}

TEST(Dim, PrintsAndParses) {
  const struct {
    const char* text;
    const char* printed;
  } cases[] = {{"0", "0"},
               {"-3", "-3"},
               {"seq", "seq"},
               {"past+seq", "past + seq"},
               {"seq + past", "past + seq"},
               {"4*seq + 1", "4*seq + 1"},
               {"1 + 4*seq", "4*seq + 1"},
               {"-seq - 1", "-seq - 1"},
               {"seq - seq", "0"},
               {"2*seq - seq", "seq"},
               {"9223372036854775807", "9223372036854775807"},
               {"-9223372036854775808", "-9223372036854775808"},
               {"seq - 9223372036854775808", "seq - 9223372036854775808"},
               {"\"a b\" + 1", "\"a b\" + 1"}};
  for (const auto& c : cases) {
    const auto dim = parse_dim(c.text);
    ASSERT_TRUE(dim.has_value()) << c.text;
    EXPECT_EQ(dim->to_string(), c.printed);
    EXPECT_EQ(parse_dim(dim->to_string()), dim);
  }
}

TEST(Dim, RejectsWhatIsNoDim) {
  for (const char* text :
       {"", " ", "+", "seq +", "2 seq", "seq*2*3", "2*3", "seq seq", "9223372036854775808", "1.5",
        "\"open", "\"\"", "-", "--1", "9223372036854775807*seq + 9223372036854775807*seq"})
    EXPECT_FALSE(parse_dim(text).has_value()) << text;
  EXPECT_FALSE(parse_dim(std::string(1 << 20, '-')).has_value());
}

TEST(Dim, Arithmetic) {
  const Dim total = *add(past(), seq());
  EXPECT_EQ(sub(total, past()), seq());
  EXPECT_EQ(sub(total, total), Dim(0));
  EXPECT_TRUE(sub(total, total)->is_constant());
  EXPECT_EQ(mul(Dim(4), total)->to_string(), "4*past + 4*seq");
  EXPECT_EQ(mul(seq(), past()), std::nullopt);
  EXPECT_EQ(mul(seq(), Dim(0)), Dim(0));
  EXPECT_EQ(div_exact(*mul(total, Dim(6)), Dim(3)), mul(total, Dim(2)));
  EXPECT_EQ(div_exact(total, Dim(2)), std::nullopt);
  EXPECT_EQ(div_exact(Dim(5), Dim(2)), std::nullopt);
  EXPECT_EQ(div_exact(seq(), Dim(0)), std::nullopt);
  EXPECT_EQ(div_exact(total, total), Dim(1));
  EXPECT_EQ(div_exact(total, seq()), std::nullopt);
}

TEST(Dim, OverflowIsNoResult) {
  EXPECT_EQ(add(Dim(INT64_MAX), Dim(1)), std::nullopt);
  EXPECT_EQ(sub(Dim(INT64_MIN), Dim(1)), std::nullopt);
  EXPECT_EQ(sub(Dim(0), Dim(INT64_MIN)), std::nullopt);
  EXPECT_EQ(mul(Dim(INT64_MAX), Dim(2)), std::nullopt);
  EXPECT_EQ(mul(*mul(seq(), Dim(INT64_MAX)), Dim(2)), std::nullopt);
  EXPECT_EQ(div_exact(Dim(INT64_MIN), Dim(-1)), std::nullopt);
}

TEST(Dim, EvaluatesUnderABinding) {
  const Dim dim = *add(*mul(seq(), Dim(4)), *add(past(), Dim(-1)));
  EXPECT_EQ(dim.evaluate({{"seq", 3}, {"past", 10}}), 21);
  EXPECT_EQ(dim.evaluate({{"seq", 3}}), std::nullopt);
  EXPECT_EQ(dim.evaluate({{"seq", INT64_MAX}, {"past", 0}}), std::nullopt);
}

}  // namespace
}  // namespace llmc::ir
