#include "tools/llmc/table.h"

#include <algorithm>
#include <map>

#include "compiler/support/check.h"

namespace llmc::cli {
namespace {

/// Returns the approximate width on a terminal: the number of code points.
std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

/// Returns a CSV field, quoted if necessary (RFC 4180).
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

/// Returns the title of a CSV column without commas: "KL, nats" becomes "KL nats".
std::string csv_title(const Column& column) {
  std::string title = column.csv_title.empty() ? column.title : column.csv_title;
  if (!column.unit.empty()) title += " " + column.unit;
  for (std::size_t at = 0; (at = title.find(", ")) != title.npos;) title.erase(at, 1);
  return title;
}

std::string markdown_cell(const std::string& text) {
  std::string cell;
  for (const char c : text) cell += c == '|' ? "\\|" : std::string(1, c);
  return cell;
}

}  // namespace

CLI::Option* add_table_format(CLI::App& app, TableFormat& format) {
  static const std::map<std::string, TableFormat> names{{"text", TableFormat::kText},
                                                        {"md", TableFormat::kMarkdown},
                                                        {"csv", TableFormat::kCsv},
                                                        {"json", TableFormat::kJson}};
  const auto take = [&format, json = app.get_option("--json")](const std::string& name) {
    format = names.at(name);
    if (json->count() > 0 && format != TableFormat::kJson)
      throw CLI::ValidationError("--json cannot be combined with --output " + name);
  };
  return app
      .add_option_function<std::string>(
          "-o,--output", take,
          "Output format: text (aligned columns), md, csv or json (default: text)")
      ->check(CLI::IsMember({"text", "md", "csv", "json"}))
      ->type_name("FORMAT");
}

Table::Table(TableFormat format, std::vector<Column> columns)
    : format_(format), columns_(std::move(columns)) {}

void Table::add(std::vector<std::string> cells) {
  LLMC_CHECK(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

Table::Widths Table::own_widths() const {
  Widths widths;
  for (const Column& column : columns_)
    widths.push_back(std::max(column.width, display_width(column.title)));
  return widths;
}

std::string Table::text() const {
  Widths widths = own_widths();
  for (const auto& cells : rows_)
    for (std::size_t i = 0; i < cells.size(); ++i)
      widths[i] = std::max(widths[i], display_width(shown(cells, i)));
  std::string text = head(widths);
  for (const auto& cells : rows_) text += body_line(cells, widths);
  return text;
}

std::string Table::head() const {
  return head(own_widths());
}

std::string Table::row(const std::vector<std::string>& cells) const {
  LLMC_CHECK(cells.size() == columns_.size());
  return body_line(cells, own_widths());
}

std::string Table::shown(const std::vector<std::string>& cells, std::size_t column) const {
  const std::string& unit = columns_[column].unit;
  const bool plain = format_ == TableFormat::kCsv || unit.empty() || cells[column].empty();
  return plain ? cells[column] : cells[column] + " " + unit;
}

std::string Table::body_line(const std::vector<std::string>& cells, const Widths& widths) const {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < cells.size(); ++i) texts.push_back(shown(cells, i));
  return line(texts, widths);
}

std::string Table::head(const Widths& widths) const {
  std::vector<std::string> titles;
  for (const Column& column : columns_)
    titles.push_back(format_ == TableFormat::kCsv ? csv_title(column) : column.title);
  std::string text = line(titles, widths);
  if (format_ != TableFormat::kMarkdown) return text;
  text += "|";
  for (const Column& column : columns_)
    text += column.align == Column::Align::kRight ? "---:|" : "---|";
  return text + "\n";
}

std::string Table::line(const std::vector<std::string>& cells, const Widths& widths) const {
  std::string text;
  if (format_ == TableFormat::kMarkdown) {
    text = "|";
    for (const std::string& cell : cells) text += " " + markdown_cell(cell) + " |";
    return text + "\n";
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (format_ == TableFormat::kCsv) {
      text += (i == 0 ? "" : ",") + csv_field(cells[i]);
      continue;
    }
    const std::size_t used = display_width(cells[i]);
    const std::string pad(widths[i] > used ? widths[i] - used : 0, ' ');
    if (i > 0) text += "  ";
    text += columns_[i].align == Column::Align::kRight ? pad + cells[i] : cells[i] + pad;
  }
  if (format_ == TableFormat::kText) text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

void print_beside_table(TableFormat format, const Globals& globals, std::string_view text) {
  if (format == TableFormat::kText) {
    print(text);
    return;
  }
  while (text.ends_with('\n')) text.remove_suffix(1);
  if (!text.empty()) note(globals, text);
}

}  // namespace llmc::cli
