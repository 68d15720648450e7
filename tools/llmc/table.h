#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tools/llmc/cli.h"

/// Tables of the commands' results.
namespace llmc::cli {

/// kText: columns aligned by blanks. kJson is not a table: the command prints its own JSON.
enum class TableFormat : std::uint8_t { kText, kMarkdown, kCsv, kJson };

/// Adds -o,--output FORMAT: text, md, csv or json, as llama-bench has it.
CLI::Option* add_table_format(CLI::App& app, TableFormat& format);

struct Column {
  std::string title;
  enum class Align : std::uint8_t { kLeft, kRight } align = Align::kRight;
  std::size_t width = 0;  // at least; for tables that are printed row by row
  /// Of all cells: follows each cell that is not empty, in CSV the title instead.
  std::string unit = {};
  /// In CSV, where titles are unique and name units; empty: `title`.
  std::string csv_title = {};
};

class Table {
 public:
  Table(TableFormat format, std::vector<Column> columns);

  /// Adds a row with a cell for each column.
  void add(std::vector<std::string> cells);
  /// Title and all rows, a line each.
  std::string text() const;

  /// The same line by line, for rows that take long to compute: columns are as wide as their title
  /// and Column::width ask for, and a longer cell shifts its own line only.
  std::string head() const;
  std::string row(const std::vector<std::string>& cells) const;

 private:
  using Widths = std::vector<std::size_t>;
  std::string shown(const std::vector<std::string>& cells, std::size_t column) const;
  Widths own_widths() const;
  std::string head(const Widths& widths) const;
  /// `cells`: as shown() returns them.
  std::string line(const std::vector<std::string>& cells, const Widths& widths) const;
  std::string body_line(const std::vector<std::string>& cells, const Widths& widths) const;

  const TableFormat format_;
  const std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Prints what belongs to a command's tables but to no cell: below text tables on stdout, else as a
/// note, so that stdout holds the table alone.
void print_beside_table(TableFormat format, const Globals& globals, std::string_view text);

}  // namespace llmc::cli
