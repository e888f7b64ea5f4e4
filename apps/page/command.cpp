// `runmax page`: the page as one file.
#include <fmt/core.h>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "files/input_file.hpp"
#include "files/output_files.hpp"
#include "page/page.hpp"

namespace runmax::cli {

ExitCode page_command(const PageArguments& arguments) {
  // A page with more would be slow to load, and nobody compares so many by eye.
  constexpr std::size_t most_records = 12;
  if (arguments.records.size() > most_records)
    return complain(ExitCode::bad_input, fmt::format("--record: must be at most {} files, got {}",
                                                     most_records, arguments.records.size()));
  if (Status status = files::check_destination(arguments.output); !status.ok()) return complain(status);
  std::vector<page::Record> records;
  for (const std::string& path : arguments.records) {
    Result<files::FileBytes> file = files::read_file(path);
    if (!file.ok()) return complain(exit_code(file.status()), path + ": " + file.status().message());
    const files::Bytes bytes = file.value().bytes();
    Result<page::Record> record =
        page::read_record({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (!record.ok()) return complain(exit_code(record.status()), path + ": " + record.status().message());
    records.push_back(std::move(record.value()));
  }
  if (arguments.records.empty()) {
    Result<std::vector<page::Record>> shipped = page::shipped_records();
    if (!shipped.ok()) return complain(shipped.status());
    records = std::move(shipped.value());
  }
  const std::string html =
      page::page_html(page::View::page, "runmax: attention that carries a maximum, not a matrix", records);
  if (Status status = page::write_page(arguments.output, html); !status.ok())
    return complain_unwritten(status);
  print_result(fmt::format("{}: {} kB, {} record{}; open it in a browser\n", arguments.output,
                           (html.size() + 999) / 1000, records.size(), records.size() == 1 ? "" : "s"));
  return ExitCode::done;
}

}  // namespace runmax::cli
