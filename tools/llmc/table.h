#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tools/llmc/cli.h"

/// Tables of results.
namespace llmc::cli {

/// kText: columns aligned by blanks. kJson: the command prints JSON instead of a table.
enum class TableFormat : std::uint8_t { kText, kMarkdown, kCsv, kJson };

/// Adds -o,--output FORMAT: text, md, csv or json, as in llama-bench.
CLI::Option* add_table_format(CLI::App& app, TableFormat& format);

struct Column {
  std::string title;
  enum class Align : std::uint8_t { kLeft, kRight } align = Align::kRight;
  std::size_t width = 0;  // minimum, for tables that are printed row by row
  /// Unit of all cells: printed after each nonempty cell, in CSV after the title.
  std::string unit = {};
  /// Title in CSV, which is unique and has a unit if `unit` is empty. Empty: `title`.
  std::string csv_title = {};
};

class Table {
 public:
  Table(TableFormat format, std::vector<Column> columns);

  /// Adds a row with a cell for each column.
  void add(std::vector<std::string> cells);
  /// Returns the titles and all rows, a line each.
  std::string text() const;

  /// Return the lines of text() separately, for rows that take long to compute. A column is as wide
  /// as its title or as Column::width, whichever is larger. A longer cell shifts only its own line.
  std::string head() const;
  std::string row(const std::vector<std::string>& cells) const;

 private:
  using Widths = std::vector<std::size_t>;
  std::string shown(const std::vector<std::string>& cells, std::size_t column) const;
  Widths own_widths() const;
  std::string head(const Widths& widths) const;
  /// `cells`: from shown().
  std::string line(const std::vector<std::string>& cells, const Widths& widths) const;
  std::string body_line(const std::vector<std::string>& cells, const Widths& widths) const;

  const TableFormat format_;
  const std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Prints additional text about a table: below text tables on stdout, else as a note, so that
/// stdout has only the table.
void print_beside_table(TableFormat format, const Globals& globals, std::string_view text);

}  // namespace llmc::cli
