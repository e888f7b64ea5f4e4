#include "measure/table.hpp"

#include <algorithm>

namespace runmax::measure {
namespace {

// Columns on the screen: bytes that do not continue a UTF-8 character.
std::size_t width_of(const std::string& cell) {
  return static_cast<std::size_t>(
      std::count_if(cell.begin(), cell.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string Table::text(std::size_t word_columns) const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (widths[c] == 0) continue;
      const std::string space(widths[c] - width_of(row[c]), ' ');
      line += "  ";
      line += c < word_columns ? row[c] + space : space + row[c];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace runmax::measure
