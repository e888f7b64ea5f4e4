// A plain text table: first column left, others right, two spaces between. A column of empty cells takes no
// place.
#pragma once

#include <string>
#include <vector>

namespace runmax::measure {

class Table {
 public:
  explicit Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // Number of leading columns that hold words.
  std::string text(std::size_t word_columns = 1) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace runmax::measure
