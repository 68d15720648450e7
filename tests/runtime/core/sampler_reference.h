#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "llmc/llmc.h"

/// The sampler once more, as its authors wrote the formulas down: libm, vectors that are sorted as
/// a whole, maps, logarithms of probabilities. Gives exact distributions to compare draws with.
namespace llmc::reference {

using Ids = std::vector<std::int32_t>;
using Distribution = std::map<std::int32_t, double>;

struct Token {
  std::int32_t id;
  double logit;
  double p = 0;
};
using Tokens = std::vector<Token>;

struct Sampler {
  llmc_sampling parameters{};
  Ids history;
  std::vector<Ids> breakers;
  std::map<std::int32_t, double> bias;
  std::optional<std::vector<bool>> allowed;
  double mu = 0;  // mirostat's

  /// Probability of every token that can be drawn.
  Distribution of(const std::vector<float>& logits) const {
    Distribution all;
    // Of the two things that xtc may do, each as often as it does it.
    const double excluding = std::clamp(double{parameters.xtc_probability}, 0.0, 1.0);
    for (const bool exclude : {false, true}) {
      const double part = exclude ? excluding : 1 - excluding;
      if (part == 0) continue;
      for (const Token& token : chain(logits, exclude)) all[token.id] += part * token.p;
    }
    return all;
  }

 private:
  static void softmax(Tokens& tokens) {
    std::sort(tokens.begin(), tokens.end(), [](const Token& a, const Token& b) {
      return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
    });
    double sum = 0;
    for (Token& token : tokens) sum += token.p = std::exp(token.logit - tokens.front().logit);
    for (Token& token : tokens) token.p /= sum;
  }

  Tokens chain(const std::vector<float>& logits, bool exclude) const {
    Tokens tokens;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const auto id = static_cast<std::int32_t>(i);
      double logit = double{logits[i]};
      if (bias.count(id) != 0) logit += bias.at(id);
      if (allowed && !(*allowed)[i]) continue;
      if (std::isfinite(logit)) tokens.push_back({id, logit});
    }
    std::vector<int> order(std::begin(parameters.samplers), std::end(parameters.samplers));
    if (order[0] == 0) order = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    const bool mirostat = parameters.mirostat != 0;
    for (const int stage : order) {
      if (mirostat && stage > LLMC_SAMPLER_DRY && stage < LLMC_SAMPLER_TEMPERATURE) continue;
      softmax(tokens);
      apply(stage, tokens, exclude);
    }
    softmax(tokens);
    if (mirostat) {
      cut_by_mirostat(tokens, logits.size());
      softmax(tokens);
    }
    return tokens;
  }

  /// Sorted tokens with their probabilities.
  void apply(int stage, Tokens& tokens, bool exclude) const {
    const llmc_sampling& s = parameters;
    switch (stage) {
      case LLMC_SAMPLER_PENALTIES:
        return penalties(tokens);
      case LLMC_SAMPLER_DRY:
        return dry(tokens);
      case LLMC_SAMPLER_TOP_K:
        if (s.top_k > 0) tokens.resize(std::min<std::size_t>(tokens.size(), std::size_t(s.top_k)));
        return;
      case LLMC_SAMPLER_TFS_Z:
        if (s.tfs_z > 0 && s.tfs_z < 1) tail_free(tokens);
        return;
      case LLMC_SAMPLER_TYPICAL_P:
        if (s.typical_p > 0 && s.typical_p < 1) typical(tokens);
        return;
      case LLMC_SAMPLER_TOP_P:
        if (s.top_p > 0 && s.top_p < 1) keep_until(tokens, double{s.top_p});
        return;
      case LLMC_SAMPLER_MIN_P: {
        const double least = double{s.min_p} * tokens.front().p;
        std::erase_if(tokens, [=](const Token& token) { return token.p < least; });
        return;
      }
      case LLMC_SAMPLER_XTC: {
        const auto tops = std::count_if(tokens.begin(), tokens.end(), [&](const Token& token) {
          return token.p >= double{s.xtc_threshold};
        });
        if (exclude && s.xtc_threshold <= 0.5f && tops > 1)
          tokens.erase(tokens.begin(), tokens.begin() + (tops - 1));
        return;
      }
      case LLMC_SAMPLER_TEMPERATURE:
        if (s.temperature <= 0) tokens.resize(1);
        for (Token& token : tokens) token.logit /= double{s.temperature};
        return;
      default:
        return;
    }
  }

  std::vector<std::int32_t> last(std::int32_t n) const {
    const auto count = static_cast<std::int32_t>(history.size());
    return {history.end() - (n < 0 ? count : std::min(n, count)), history.end()};
  }

  void penalties(Tokens& tokens) const {
    const Ids window = last(parameters.repeat_last_n);
    std::map<std::int32_t, int> times;
    for (const std::int32_t id : window) ++times[id];
    const double repeat = parameters.repeat_penalty == 0 ? 1.0 : double{parameters.repeat_penalty};
    for (Token& token : tokens) {
      if (times.count(token.id) == 0) continue;
      token.logit = token.logit <= 0 ? token.logit * repeat : token.logit / repeat;
      token.logit -= times[token.id] * double{parameters.frequency_penalty};
      token.logit -= double{parameters.presence_penalty};
    }
  }

  void dry(Tokens& tokens) const {
    const llmc_sampling& s = parameters;
    if (s.dry_multiplier == 0 || s.dry_base < 1) return;
    const Ids window = last(s.dry_penalty_last_n);
    // The longest breaker of those that begin last.
    std::size_t limit = window.size();
    for (std::size_t at = window.size(); at-- > 0 && limit == window.size();) {
      for (const Ids& breaker : breakers) {
        if (at + breaker.size() <= window.size() &&
            std::equal(breaker.begin(), breaker.end(), window.begin() + std::ptrdiff_t(at)))
          limit = std::min(limit, window.size() - at - breaker.size());
      }
    }
    for (Token& token : tokens) {
      if (std::count(breakers.begin(), breakers.end(), Ids{token.id}) != 0) continue;
      // Grow the end of the window as long as some earlier place has it with the token behind.
      std::size_t longest = 0;
      bool any = false;
      for (std::size_t end = 0; end + 1 <= window.size(); ++end) {
        if (window[end] != token.id || end == 0) continue;
        const Ids before(window.begin(), window.begin() + std::ptrdiff_t(end));
        const auto [a, b] = std::mismatch(before.rbegin(), before.rend(), window.rbegin());
        any = true;
        longest = std::max(longest, std::size_t(a - before.rbegin()));
      }
      longest = std::min(longest, limit);
      const auto free = std::size_t(s.dry_allowed_length);
      if (!any || longest < free || window.size() <= free) continue;
      token.logit -= double{s.dry_multiplier} *
                     std::pow(double{s.dry_base}, static_cast<double>(longest - free));
    }
  }

  void tail_free(Tokens& tokens) const {
    if (tokens.size() <= 2) return;
    std::vector<double> first, second;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i)
      first.push_back(tokens[i].p - tokens[i + 1].p);
    for (std::size_t i = 0; i + 1 < first.size(); ++i)
      second.push_back(std::abs(first[i] - first[i + 1]));
    const double sum = std::accumulate(second.begin(), second.end(), 0.0);
    for (double& value : second)
      value = sum > 1e-6 ? value / sum : 1.0 / static_cast<double>(second.size());
    double reached = 0;
    for (std::size_t i = 0; i < second.size(); ++i) {
      reached += second[i];
      if (reached > double{parameters.tfs_z} && i >= 1) return tokens.resize(i);
    }
  }

  void typical(Tokens& tokens) const {
    double entropy = 0;
    for (const Token& token : tokens) entropy -= token.p * std::log(token.p);
    std::sort(tokens.begin(), tokens.end(), [=](const Token& a, const Token& b) {
      const double one = std::abs(-std::log(a.p) - entropy);
      const double other = std::abs(-std::log(b.p) - entropy);
      return one != other ? one < other : a.id < b.id;
    });
    double reached = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      reached += tokens[i].p;
      if (reached > double{parameters.typical_p}) return tokens.resize(i + 1);
    }
  }

  static void keep_until(Tokens& tokens, double p) {
    double reached = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      reached += tokens[i].p;
      if (reached >= p) return tokens.resize(i + 1);
    }
  }

  void cut_by_mirostat(Tokens& tokens, std::size_t vocabulary) const {
    if (parameters.mirostat == 2) {
      const std::size_t kept =
          std::size_t(std::count_if(tokens.begin(), tokens.end(),
                                    [&](const Token& token) { return -std::log2(token.p) <= mu; }));
      return tokens.resize(std::max<std::size_t>(kept, 1));
    }
    double products = 0, squares = 0;
    for (std::size_t i = 0; i < 99 && i + 1 < tokens.size(); ++i) {
      const double t = std::log(double(i + 2) / double(i + 1));
      products += t * std::log(tokens[i].p / tokens[i + 1].p);
      squares += t * t;
    }
    const double s = products / squares, e = s - 1;
    const double k =
        std::pow(e * std::pow(2, mu) / (1 - std::pow(static_cast<double>(vocabulary), -e)), 1 / s);
    if (k < static_cast<double>(tokens.size()))
      tokens.resize(std::max<std::size_t>(std::size_t(k), 1));
  }
};

}  // namespace llmc::reference
