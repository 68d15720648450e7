#include "compiler/ir/dim.h"

#include <gtest/gtest.h>

#include <cmath>

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
  EXPECT_EQ(div_exact(Dim(0), Dim(0)), std::nullopt);
  EXPECT_EQ(div_exact(total, total), Dim(1));
  EXPECT_EQ(div_exact(total, seq()), std::nullopt);
  EXPECT_EQ(div_exact(*mul(total, Dim(6)), *mul(total, Dim(2))), Dim(3));
  EXPECT_EQ(div_exact(*mul(total, Dim(3)), *mul(total, Dim(2))), std::nullopt);
  EXPECT_EQ(div_exact(*mul(total, Dim(6)), seq()), std::nullopt);
}

TEST(Dim, QuotientsAreSymbols) {
  const Dim frames = *div_floor(*add(*mul(seq(), Dim(2)), Dim(-127)), 64);
  EXPECT_EQ(frames.to_string(), "\"floor((2*seq + 1)/64)\" - 2");
  EXPECT_EQ(parse_dim(frames.to_string()), frames);
  for (const std::int64_t n : {0, 63, 64, 95, 96, 127, 1000})
    EXPECT_EQ(frames.evaluate({{"seq", n}}), (2 * n + 1) / 64 - 2) << n;
  // Multiples are taken out, and a quotient of a quotient is one quotient.
  EXPECT_EQ(div_floor(*add(*mul(seq(), Dim(64)), Dim(63)), 64), seq());
  EXPECT_EQ(div_floor(*mul(seq(), Dim(-1)), 2)->evaluate({{"seq", 5}}), -3);
  const Dim nested = *div_floor(*add(frames, Dim(-6)), 3);
  EXPECT_EQ(nested, *div_floor(*add(*mul(seq(), Dim(2)), Dim(-127 - 6 * 64)), 192));
  for (const std::int64_t n : {0, 300, 319, 320, 1000})
    EXPECT_EQ(nested.evaluate({{"seq", n}}),
              static_cast<std::int64_t>(std::floor((static_cast<double>(2 * n + 1) / 64 - 8) / 3)))
        << n;
  EXPECT_FALSE(quotient_of("floor((seq)/1)") || quotient_of("floor((seq)/0)") ||
               quotient_of("floor((seq/2)") || quotient_of("floor(()/2)") || quotient_of("seq"));
  const Dim longest = Dim::symbol(std::string(300, 'x'));
  EXPECT_EQ(div_floor(longest, 2), std::nullopt);
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
