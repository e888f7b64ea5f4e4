// One self-contained HTML file from records: the page, or the report of one run.
#pragma once

#include <string>
#include <vector>

#include "page/records.hpp"

namespace runmax::page {

enum class View {
  page,    // stepper, merging, costs and results
  report,  // results alone
};

// The file as text. `title` is plain text.
std::string page_html(View view, const std::string& title, const std::vector<Record>& records);

// The records that ship with the program.
Result<std::vector<Record>> shipped_records();

// The report of one run, from the record that its --json prints: checked, and written whole or not at all.
Status write_report(const std::string& path, const std::string& title, const std::string& record);

// Writes `html` to `path`, whole or not at all. The error begins with the path.
Status write_page(const std::string& path, const std::string& html);

}  // namespace runmax::page
