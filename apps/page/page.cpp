#include "page/page.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <string_view>

#include "files/output_files.hpp"
#include "page/assets.hpp"
#include "runmax/version.hpp"

namespace runmax::page {
namespace {

// Scripts share one scope, in this order.
constexpr std::array page_scripts{"page/dom.js",     "page/core.js",    "page/charts.js", "page/bars.js",
                                  "page/stepper.js", "page/merge.js",   "page/costs.js",  "page/bench.js",
                                  "page/judge.js",   "page/results.js", "page/main.js"};

// Text between tags or in an attribute.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char letter : text) switch (letter) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += letter;
    }
  return result;
}

// JSON inside a script element. Only `<` could end that element or open a comment in it, and JSON has it in
// strings alone, where an escape means the same.
std::string json_in_script(const std::vector<Record>& records) {
  std::string result = "[";
  for (const Record& record : records) {
    if (result.size() > 1) result += ",\n";
    for (const char letter : record.json) {
      if (letter == '<')
        result += "\\u003c";
      else
        result += letter;
    }
  }
  return result + "]";
}

std::string base64(std::string_view data) {
  constexpr char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string result;
  for (std::size_t i = 0; i < data.size(); i += 3) {
    const std::size_t have = std::min<std::size_t>(3, data.size() - i);
    unsigned bits = 0;
    for (std::size_t j = 0; j < 3; ++j)
      bits = bits << 8 | (j < have ? static_cast<unsigned char>(data[i + j]) : 0u);
    for (std::size_t j = 0; j < 4; ++j) result += j <= have ? letters[bits >> (18 - 6 * j) & 63] : '=';
  }
  return result;
}

// Keeps what stands between <!--only VIEW--> and <!--end--> for that view alone.
std::string for_view(std::string_view text, View view) {
  constexpr std::string_view open = "<!--only ", close = "<!--end-->";
  const std::string_view mine = view == View::page ? "<!--only page-->" : "<!--only report-->";
  std::string result;
  while (true) {
    const std::size_t from = text.find(open);
    result += text.substr(0, from);
    if (from == std::string_view::npos) return result;
    const std::size_t inside = text.find("-->", from), to = text.find(close, from);
    if (inside == std::string_view::npos || to == std::string_view::npos)
      throw std::logic_error("page/index.html: a mark is not closed");
    if (text.substr(from).starts_with(mine)) result += text.substr(inside + 3, to - inside - 3);
    text.remove_prefix(to + close.size());
  }
}

}  // namespace

std::string_view asset(std::string_view name) {
  for (const Asset& one : all_assets())
    if (one.name == name) return one.text();
  throw std::logic_error("page: there is no asset " + std::string(name));
}

std::string page_html(View view, const std::string& title, const std::vector<Record>& records) {
  const auto value = [&](std::string_view name) -> std::string {
    if (name == "title") return escaped(title);
    if (name == "version") return version();
    if (name == "style") return std::string(asset("page/style.css"));
    if (name == "records") return json_in_script(records);
    if (name == "wasm") return base64(asset("page/runmax.wasm"));
    if (name == "script") {
      std::string script;
      for (const char* file : page_scripts) script += asset(file);
      return script;
    }
    throw std::logic_error("page/index.html: no value for " + std::string(name));
  };
  const std::string skeleton = for_view(asset("page/index.html"), view);
  std::string result;
  std::string_view rest = skeleton;
  // What is put in is not read again, so braces in it mean nothing.
  while (true) {
    const std::size_t from = rest.find("{{");
    result += rest.substr(0, from);
    if (from == std::string_view::npos) return result;
    const std::size_t to = rest.find("}}", from);
    result += value(rest.substr(from + 2, to - from - 2));
    rest.remove_prefix(to + 2);
  }
}

Result<std::vector<Record>> shipped_records() {
  std::vector<Record> records;
  for (const Asset& one : all_assets()) {
    if (!one.name.starts_with("results/")) continue;
    Result<Record> record = read_record(one.text());
    if (!record.ok())
      return Status(StatusCode::internal_error, std::string(one.name) + ": " + record.status().message());
    records.push_back(std::move(record.value()));
  }
  return records;
}

Status write_report(const std::string& path, const std::string& title, const std::string& record) {
  Result<Record> checked = read_record(record);
  if (!checked.ok())
    return {StatusCode::internal_error, "the run's own record: " + checked.status().message()};
  return write_page(path, page_html(View::report, title, {std::move(checked.value())}));
}

Status write_page(const std::string& path, const std::string& html) {
  files::OutputFiles output;
  const std::span<const char> text(html);
  if (Status status = output.add(path, {std::as_bytes(text)}); !status.ok()) return status;
  return output.commit();
}

}  // namespace runmax::page
