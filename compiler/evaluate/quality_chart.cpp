#include "compiler/evaluate/quality_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "compiler/support/check.h"
#include "compiler/support/diagnostic.h"

namespace llmc::evaluate {
namespace {

// Pixels. A legend row and the title are above the plot; the labels of the axes are around it.
constexpr double kWidth = 760, kPlotHeight = 330;
constexpr double kLeft = 84, kRight = 28, kLegendRow = 20, kTop = 62, kBottom = 58;
constexpr double kFont = 12, kCharacter = 6.6;  // size and approximate width of a character
constexpr std::size_t kMaxTicks = 10;
constexpr double kMinDrawnKl = 1e-30, kMaxDrawnKl = 1e30;  // nats; others are drawn at the edge

constexpr std::string_view kInk = "#76808c";  // readable on white and on black

struct Style {
  std::string_view colour;
  /// Path of a marker of about 10 x 10 around the origin.
  std::string_view marker;
};
constexpr std::array<Style, 6> kStyles{{
    {"#2f81f7", "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z"},  // circle
    {"#d9730d", "M-4.5 -4.5h9v9h-9z"},                     // square
    {"#2f9e60", "M0 -6L6 5H-6z"},                          // triangle
    {"#a061e8", "M0 -6L6 0L0 6L-6 0z"},                    // diamond
    {"#d6457a", "M0 6L6 -5H-6z"},                          // triangle, point down
    {"#978019", "M-5 -2h3v-3h4v3h3v4h-3v3h-4v-3h-3z"},     // cross
}};

/// Escapes text for XML. Characters that XML does not allow become "?" or \xNN.
std::string escaped(std::string_view text) {
  std::string out;
  const std::string safe = printable(text);
  for (std::size_t i = 0; i < safe.size(); ++i) {
    const std::string_view rest = std::string_view(safe).substr(i);
    if (rest.starts_with("\xEF\xBF\xBE") || rest.starts_with("\xEF\xBF\xBF")) {  // U+FFFE, U+FFFF
      out += "?";
      i += 2;
      continue;
    }
    switch (safe[i]) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += safe[i];
    }
  }
  return out;
}

double width_of(std::string_view text) {
  return kCharacter * static_cast<double>(std::ranges::count_if(text, [](char c) {
           return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
         }));
}

struct Tick {
  double value = 0;
  std::string label;
};

struct Axis {
  double low = 0, high = 1;
  bool logarithmic = false;
  std::vector<Tick> ticks;

  /// Returns the position of a value, from 0 (low) to 1 (high).
  double at(double value) const {
    if (logarithmic) return std::log(value / low) / std::log(high / low);
    return (value - low) / (high - low);
  }
};

/// Removes ticks evenly until there are at most kMaxTicks.
void thin_out(std::vector<Tick>& ticks) {
  const std::size_t step = (ticks.size() + kMaxTicks - 1) / kMaxTicks;
  if (step < 2) return;
  std::vector<Tick> kept;
  for (std::size_t i = 0; i < ticks.size(); i += step) kept.push_back(std::move(ticks[i]));
  ticks = std::move(kept);
}

/// Returns 1, 2 or 5 times powers of ten: the last that is below `low`, up to the first that is
/// above `high`.
std::vector<double> round_numbers(double low, double high) {
  const int first = static_cast<int>(std::floor(std::log10(low))) - 1;
  const int last = static_cast<int>(std::ceil(std::log10(high))) + 1;
  std::vector<double> numbers;
  for (int power = first; power <= last; ++power) {
    for (const int digit : {1, 2, 5}) {
      const double number = digit * std::pow(10, power);
      if (number < low) numbers.clear();
      numbers.push_back(number);
      if (number > high) return numbers;
    }
  }
  return numbers;
}

/// Returns a logarithmic axis. Its ticks are 1, 2 and 5 times powers of ten, or only powers of ten
/// if there would be more than kMaxTicks.
Axis kl_axis(double low, double high) {
  const std::vector<double> numbers = round_numbers(low, high);
  Axis axis{.low = numbers.front(), .high = numbers.back(), .logarithmic = true, .ticks = {}};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const bool power = std::abs(std::remainder(std::log10(numbers[i]), 1)) < 1e-6;
    if (power || numbers.size() <= kMaxTicks)
      axis.ticks.push_back({numbers[i], fmt::format("{:.3g}", numbers[i])});
  }
  thin_out(axis.ticks);
  return axis;
}

/// Returns a logarithmic axis with powers of two if `high` is more than 8 times `low`. Otherwise
/// returns a linear axis with round numbers, in the largest unit in which `low` is at least 1/4.
Axis bytes_axis(double low, double high) {
  constexpr std::array<std::string_view, 7> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  double scale = 1;
  while (unit + 1 < kUnits.size() && low >= scale * 256) {
    ++unit;
    scale *= 1024;
  }
  const auto tick = [&](double value) {
    return Tick{value, fmt::format("{:.4g} {}", value / scale, kUnits[unit])};
  };
  if (high / low > 8) {
    Axis axis{.low = std::exp2(std::floor(std::log2(low) - 0.1)),
              .high = std::exp2(std::ceil(std::log2(high) + 0.1)),
              .logarithmic = true,
              .ticks = {}};
    for (double value = axis.low; value <= axis.high; value *= 2) {
      std::size_t own = 0;
      double size = 1;
      for (; own + 1 < kUnits.size() && value >= size * 1024; ++own) size *= 1024;
      axis.ticks.push_back({value, fmt::format("{:.4g} {}", value / size, kUnits[own])});
    }
    thin_out(axis.ticks);
    return axis;
  }
  // Labels are to the right of points, so there is more space at that end.
  const double span = std::max(high - low, high * 0.05);
  const std::vector<double> steps = round_numbers(span / scale / 6, span / scale / 6);
  const double step = steps.back() * scale;
  Axis axis{.low = std::max(0.0, std::floor((low - span * 0.08) / step) * step),
            .high = std::ceil((high + span * 0.16) / step) * step,
            .logarithmic = false,
            .ticks = {}};
  const auto count = static_cast<std::size_t>(std::lround((axis.high - axis.low) / step));
  for (std::size_t i = 0; i <= count; ++i)
    axis.ticks.push_back(tick(axis.low + static_cast<double>(i) * step));
  thin_out(axis.ticks);
  return axis;
}

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
  bool overlaps(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

struct Place {
  double x = 0, y = 0;
};

std::string text_at(Place at, std::string_view anchor, std::string_view more,
                    std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", at.x, at.y,
                     anchor, more, text);
}

class Chart {
 public:
  explicit Chart(std::vector<ChartPoint> points) : points_(std::move(points)) {
    for (const ChartPoint& point : points_) {
      if (std::ranges::count(series_, point.series) == 0) series_.push_back(point.series);
    }
    top_ = kTop + kLegendRow * static_cast<double>(series_.size());
    const auto [least, most] = std::ranges::minmax(points_, {}, &ChartPoint::bytes);
    const auto [best, worst] = std::ranges::minmax(points_, {}, &ChartPoint::kl);
    x_ = bytes_axis(least.bytes, most.bytes);
    y_ = kl_axis(best.kl / 1.1, worst.kl * 1.1);
  }

  std::string draw(const std::string& title, const std::string& subtitle) {
    const double height = bottom() + kBottom;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
        "height=\"{1:g}\" font-family=\"system-ui, sans-serif\" font-size=\"{2:g}\" "
        "fill=\"{3}\">\n",
        kWidth, height, kFont, kInk);
    svg += fmt::format("<title>{}</title>\n", escaped(title));
    svg += text_at({kLeft, 24}, "start", " font-size=\"16\" font-weight=\"600\"", escaped(title));
    svg += text_at({kLeft, 44}, "start", "", escaped(subtitle));
    for (std::size_t i = 0; i < series_.size(); ++i) {
      const double y = kTop + kLegendRow * static_cast<double>(i);
      svg += marker({kLeft + 6, y}, i);
      svg += text_at({kLeft + 20, y + 4}, "start", "", escaped(series_[i]));
    }
    return svg + axes() + markers() + labels() + "</svg>\n";
  }

 private:
  double bottom() const { return top_ + kPlotHeight; }
  double right() const { return kWidth - kRight; }
  Place place(const ChartPoint& point) const { return {x_of(point.bytes), y_of(point.kl)}; }
  double x_of(double bytes) const { return kLeft + x_.at(bytes) * (right() - kLeft); }
  double y_of(double kl) const { return bottom() - y_.at(kl) * kPlotHeight; }

  std::size_t series_of(const ChartPoint& point) const {
    return static_cast<std::size_t>(std::ranges::find(series_, point.series) - series_.begin());
  }

  static std::string marker(Place at, std::size_t series) {
    const Style& style = kStyles[series % kStyles.size()];
    return fmt::format("<path fill=\"{}\" transform=\"translate({:.1f} {:.1f})\" d=\"{}\"/>\n",
                       style.colour, at.x, at.y, style.marker);
  }

  std::string axes() const {
    std::string grid = fmt::format(
        "<g stroke=\"{}\" stroke-opacity=\"0.3\" fill=\"none\">\n<path d=\"M{:g} "
        "{:g}H{:g}V{:g}H{:g}z\"/>\n",
        kInk, kLeft, top_, right(), bottom(), kLeft);
    std::string texts;
    for (const Tick& tick : x_.ticks) {
      const double x = x_of(tick.value);
      grid += fmt::format("<path d=\"M{:.1f} {:g}V{:g}\"/>\n", x, top_, bottom());
      texts += text_at({x, bottom() + 18}, "middle", "", tick.label);
    }
    for (const Tick& tick : y_.ticks) {
      const double y = y_of(tick.value);
      grid += fmt::format("<path d=\"M{:g} {:.1f}H{:g}\"/>\n", kLeft, y, right());
      texts += text_at({kLeft - 8, y + 4}, "end", "", tick.label);
    }
    texts += text_at({(kLeft + right()) / 2, bottom() + 42}, "middle", "",
                     "weights read per token (fewer is faster)");
    const double middle = (top_ + bottom()) / 2;
    texts +=
        text_at({22, middle}, "middle", fmt::format(" transform=\"rotate(-90 22 {:g})\"", middle),
                "KL divergence from f32, nats (lower is better)");
    return grid + "</g>\n" + texts;
  }

  std::string markers() const {
    std::string svg;
    for (const ChartPoint& point : points_) svg += marker(place(point), series_of(point));
    return svg;
  }

  /// Puts each label next to its point, where it covers no other point or label if possible.
  std::string labels() const {
    std::vector<Box> taken;
    for (const ChartPoint& point : points_) {
      const Place at = place(point);
      taken.push_back({at.x - 6, at.y - 6, at.x + 6, at.y + 6});
    }
    std::string svg;
    for (const ChartPoint& point : points_) {
      const Place at = place(point);
      const double width = width_of(point.name);
      struct Choice {
        Place text;
        std::string_view anchor;
        double left;
      };
      const std::array<Choice, 8> choices{{
          {{at.x + 10, at.y + 4}, "start", at.x + 10},
          {{at.x - 10, at.y + 4}, "end", at.x - 10 - width},
          {{at.x, at.y - 10}, "middle", at.x - width / 2},
          {{at.x, at.y + 18}, "middle", at.x - width / 2},
          {{at.x + 8, at.y - 7}, "start", at.x + 8},
          {{at.x + 8, at.y + 15}, "start", at.x + 8},
          {{at.x - 8, at.y - 7}, "end", at.x - 8 - width},
          {{at.x - 8, at.y + 15}, "end", at.x - 8 - width},
      }};
      const auto box = [&](const Choice& choice) {
        return Box{choice.left, choice.text.y - 10, choice.left + width, choice.text.y + 3};
      };
      const auto fits = [&](const Choice& choice) {
        const Box own = box(choice);
        return own.left > kLeft && own.right < right() && own.top > top_ && own.bottom < bottom() &&
               std::ranges::none_of(taken, [&](const Box& other) { return own.overlaps(other); });
      };
      const auto found = std::ranges::find_if(choices, fits);
      // If no label fits, choose one that stays inside of the picture.
      const Choice& choice = found != choices.end()         ? *found
                             : at.x > (kLeft + right()) / 2 ? choices[1]
                                                            : choices[0];
      taken.push_back(box(choice));
      const std::string_view colour = kStyles[series_of(point) % kStyles.size()].colour;
      svg += text_at(choice.text, choice.anchor, fmt::format(" fill=\"{}\"", colour),
                     escaped(point.name));
    }
    return svg;
  }

  const std::vector<ChartPoint> points_;
  std::vector<std::string> series_;  // in the order of the legend
  double top_ = 0;
  Axis x_, y_;
};

}  // namespace

std::string quality_chart(const std::string& title, const std::string& subtitle,
                          const std::vector<ChartPoint>& points) {
  LLMC_CHECK(!points.empty());
  std::vector<ChartPoint> drawn = points;
  for (ChartPoint& point : drawn) {
    LLMC_CHECK(std::isfinite(point.bytes) && point.bytes >= 1);
    LLMC_CHECK(std::isfinite(point.kl) && point.kl > 0);
    point.kl = std::clamp(point.kl, kMinDrawnKl, kMaxDrawnKl);
  }
  return Chart(std::move(drawn)).draw(title, subtitle);
}

}  // namespace llmc::evaluate
