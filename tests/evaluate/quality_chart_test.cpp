#include "compiler/evaluate/quality_chart.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace llmc::evaluate {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Element {
  std::string tag;
  std::map<std::string, std::string> attributes;
  std::string text;  // with entities
};

/// A reader of the XML that charts use. Adds a failure for anything else, such as an unescaped
/// character in a text.
class Document {
 public:
  explicit Document(std::string_view text) : rest_(text) {
    while (!rest_.empty()) {
      const std::string_view characters = rest_.substr(0, rest_.find('<'));
      rest_.remove_prefix(characters.size());
      check_entities(characters);
      if (!open_.empty()) elements[open_.back()].text += characters;
      if (!rest_.empty()) tag();
    }
    EXPECT_THAT(open_, IsEmpty()) << "elements that do not end";
  }

  std::vector<Element> all(const std::string& tag) const {
    std::vector<Element> found;
    for (const Element& element : elements)
      if (element.tag == tag) found.push_back(element);
    return found;
  }
  std::vector<Element> elements;

 private:
  static void check_entities(std::string_view text) {
    EXPECT_EQ(text.find('>'), text.npos) << text;
    for (std::size_t at = 0; (at = text.find('&', at)) != text.npos; ++at) {
      const std::string_view entity = text.substr(at, text.find(';', at) - at + 1);
      EXPECT_TRUE(entity == "&amp;" || entity == "&lt;" || entity == "&gt;" || entity == "&quot;")
          << text;
    }
    for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= ' ');
  }

  void tag() {
    const std::size_t end = rest_.find('>');
    ASSERT_NE(end, rest_.npos);
    std::string_view inside = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    if (inside.starts_with('/')) {
      ASSERT_FALSE(open_.empty());
      EXPECT_EQ(elements[open_.back()].tag, inside.substr(1));
      open_.pop_back();
      return;
    }
    const bool ends = inside.ends_with('/');
    if (ends) inside.remove_suffix(1);
    Element element{
        .tag = std::string(inside.substr(0, inside.find(' '))), .attributes = {}, .text = {}};
    inside.remove_prefix(element.tag.size());
    while (!inside.empty()) {
      const std::size_t equals = inside.find("=\""), quote = inside.find('"', equals + 2);
      ASSERT_TRUE(inside.front() == ' ' && equals != inside.npos && quote != inside.npos) << inside;
      element.attributes[std::string(inside.substr(1, equals - 1))] =
          std::string(inside.substr(equals + 2, quote - equals - 2));
      inside.remove_prefix(quote + 1);
    }
    elements.push_back(std::move(element));
    if (!ends) open_.push_back(elements.size() - 1);
  }

  std::string_view rest_;
  std::vector<std::size_t> open_;  // indices of elements
};

struct Frame {
  double left = 0, top = 0, right = 0, bottom = 0;
};
Frame frame_of(const Document& document) {
  Frame frame;
  for (const Element& element : document.all("path")) {
    const std::string& d = element.attributes.at("d");
    if (std::sscanf(d.c_str(), "M%lf %lfH%lfV%lf", &frame.left, &frame.top, &frame.right,
                    &frame.bottom) == 4)
      return frame;
  }
  ADD_FAILURE() << "no frame";
  return frame;
}

struct Marker {
  double x = 0, y = 0;
  std::string colour;
};
/// The markers in the plot, in the order of the points.
std::vector<Marker> markers_of(const Document& document) {
  const Frame frame = frame_of(document);
  std::vector<Marker> markers;
  for (const Element& element : document.all("path")) {
    if (!element.attributes.contains("transform")) continue;
    Marker marker{.colour = element.attributes.at("fill")};
    EXPECT_EQ(std::sscanf(element.attributes.at("transform").c_str(), "translate(%lf %lf)",
                          &marker.x, &marker.y),
              2);
    if (marker.y > frame.top) markers.push_back(marker);  // others are of the legend
  }
  return markers;
}

std::vector<std::string> texts_of(const Document& document) {
  std::vector<std::string> texts;
  for (const Element& element : document.all("text")) texts.push_back(element.text);
  return texts;
}

/// Draws and checks what holds for every chart: each point and each tick is inside of the plot, and
/// no number is infinite or NaN.
Document drawn(const std::vector<ChartPoint>& points) {
  const std::string svg = quality_chart("Title", "subtitle", points);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  Document document(svg);
  const Frame frame = frame_of(document);
  const std::vector<Marker> markers = markers_of(document);
  EXPECT_EQ(markers.size(), points.size());
  for (const Marker& marker : markers) {
    EXPECT_GE(marker.x, frame.left);
    EXPECT_LE(marker.x, frame.right);
    EXPECT_GE(marker.y, frame.top);
    EXPECT_LE(marker.y, frame.bottom);
  }
  std::size_t on_x = 0, on_y = 0;
  for (const Element& element : document.all("text")) {
    const double x = std::stod(element.attributes.at("x"));
    const double y = std::stod(element.attributes.at("y"));
    EXPECT_TRUE(x >= 0 && x <= 760 && y >= 0 && y <= frame.bottom + 58) << element.text;
    on_x += y == frame.bottom + 18 ? 1 : 0;
    on_y += x == frame.left - 8 ? 1 : 0;
  }
  EXPECT_TRUE(on_x >= 2 && on_x <= 12) << on_x << " ticks";
  EXPECT_TRUE(on_y >= 2 && on_y <= 12) << on_y << " ticks";
  return document;
}

constexpr double kMiB = 1 << 20;

TEST(QualityChart, DrawsEveryPointWithItsLabelAndSeries) {
  const Document document = drawn({{"llmc", "q8", 16 * kMiB, 0.0014},
                                   {"llmc", "q4", 12 * kMiB, 0.0313},
                                   {"other", "Q4_0", 9 * kMiB, 0.05}});
  EXPECT_EQ(document.elements.front().tag, "svg");
  EXPECT_EQ(document.elements.front().attributes.at("xmlns"), "http://www.w3.org/2000/svg");
  EXPECT_THAT(document.all("script"), IsEmpty());
  const std::vector<std::string> texts = texts_of(document);
  for (const char* text :
       {"Title", "subtitle", "llmc", "other", "q8", "q4", "Q4_0", "10 MiB", "0.01"})
    EXPECT_EQ(std::ranges::count(texts, text), 1) << text;
  const std::vector<Marker> markers = markers_of(document);
  EXPECT_GT(markers[0].x, markers[1].x) << "more bytes are to the right";
  EXPECT_GT(markers[0].y, markers[1].y) << "a larger divergence is higher";
  EXPECT_EQ(markers[0].colour, markers[1].colour);
  EXPECT_NE(markers[0].colour, markers[2].colour);
}

TEST(QualityChart, EscapesTexts) {
  const std::string svg =
      quality_chart("<script>alert(\"a & b\")</script>", "\x1b[31m\xff]]>",
                    {{"<i>", "a\"b", kMiB, 0.1}, {"\xEF\xBF\xBF", "&", kMiB, 1}});
  const Document document(svg);
  EXPECT_THAT(document.all("script"), IsEmpty());
  const std::vector<std::string> texts = texts_of(document);
  for (const char* text : {"&lt;script&gt;alert(&quot;a &amp; b&quot;)&lt;/script&gt;",
                           "\\x1b[31m\\xff]]&gt;", "&lt;i&gt;", "a&quot;b", "?", "&amp;"})
    EXPECT_EQ(std::ranges::count(texts, text), 1) << text;
}

TEST(QualityChart, DrawsOnePoint) {
  const std::vector<Marker> markers = markers_of(drawn({{"llmc", "q4", 1000, 0.02}}));
  EXPECT_EQ(markers.size(), 1u);
}

TEST(QualityChart, LabelsOfEqualPointsDoNotCoverEachOther) {
  const Document document = drawn({{"a", "first", 5 * kMiB, 0.02},
                                   {"b", "second", 5 * kMiB, 0.02},
                                   {"c", "third", 5 * kMiB, 0.02}});
  std::vector<std::pair<std::string, std::string>> places;
  for (const Element& element : document.all("text")) {
    if (element.text != "first" && element.text != "second" && element.text != "third") continue;
    places.emplace_back(element.attributes.at("text-anchor"), element.attributes.at("y"));
  }
  ASSERT_EQ(places.size(), 3u);
  EXPECT_NE(places[0], places[1]);
  EXPECT_NE(places[0], places[2]);
  EXPECT_NE(places[1], places[2]);
}

TEST(QualityChart, DrawsExtremeValues) {
  const double most = static_cast<double>(std::numeric_limits<std::uint64_t>::max());
  drawn({{"llmc", "tiny", 1, std::numeric_limits<double>::denorm_min()}});
  drawn({{"llmc", "huge", most, std::numeric_limits<double>::max()}});
  drawn({{"llmc", "tiny", 1, std::numeric_limits<double>::denorm_min()},
         {"llmc", "huge", most, std::numeric_limits<double>::max()}});
  drawn({{"llmc", "a", 1e9, 0.3}, {"llmc", "b", 1e9 + 1, std::nextafter(0.3, 1)}});
  // More series than colours, more points than there are places for labels.
  std::vector<ChartPoint> points;
  for (int i = 0; i < 40; ++i) points.push_back({"series " + std::to_string(i), "name", kMiB, 0.1});
  drawn(points);
}

TEST(QualityChart, AxisOfBytesIsLogarithmicForFarSizes) {
  const auto sizes = [](double low, double high) {
    std::vector<std::string> found;
    for (const std::string& text : texts_of(drawn({{"a", "b", low, 1}, {"a", "c", high, 1}})))
      if (text.ends_with("iB")) found.push_back(text);
    return found;
  };
  EXPECT_THAT(sizes(10 * kMiB, 40 * kMiB),
              ElementsAre("0 MiB", "10 MiB", "20 MiB", "30 MiB", "40 MiB", "50 MiB"));
  EXPECT_THAT(sizes(300 * 1024, 6 * kMiB),
              ElementsAre("256 KiB", "512 KiB", "1 MiB", "2 MiB", "4 MiB", "8 MiB"));
}

}  // namespace
}  // namespace llmc::evaluate
