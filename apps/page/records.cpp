#include "page/records.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

#include "files/elements.hpp"

namespace runmax::page {
namespace {

using Json = nlohmann::ordered_json;

// A record of the lab is some 20 kB; nothing sensible comes near these.
constexpr std::size_t most_bytes = std::size_t{1} << 20, most_text = 4096, most_entries = 1000;

// measure: a number, or the name of what JSON has no number for.
enum class Kind { text, number, measure, count, boolean, object, list };
enum class May { be_there, be_null, be_absent };

// A field of an object; `fields` are those of an object or of each entry of a list.
struct Field {
  const char* name;
  Kind kind;
  May may = May::be_there;
  std::span<const Field> fields = {};
};

constexpr Field device_fields[] = {
    {"kind", Kind::text},          {"name", Kind::text},   {"why", Kind::text},
    {"memory_bytes", Kind::count}, {"driver", Kind::text},
};
constexpr Field limits_fields[] = {
    {"copy_bytes_per_second", Kind::number},
    {"fma_flops_per_second", Kind::number},
    {"ridge_flops_per_byte", Kind::number},
};
constexpr Field method_fields[] = {
    {"warm", Kind::text}, {"cold", Kind::text}, {"statistic", Kind::text}, {"peak_bytes", Kind::text}};
constexpr Field source_fields[] = {{"folder", Kind::text}, {"sha256", Kind::text}};
constexpr Field resource_fields[] = {
    {"kernel", Kind::text},      {"shared_bytes", Kind::count},
    {"registers", Kind::count},  {"blocks_per_multiprocessor", Kind::count},
    {"occupancy", Kind::number}, {"predicted_occupancy", Kind::number},
    {"limited_by", Kind::text},
};
constexpr Field result_fields[] = {
    {"n", Kind::count},
    {"path", Kind::text},
    {"kernel", Kind::text},
    {"status", Kind::text},
    {"reason", Kind::text},
    {"max_abs_error", Kind::number, May::be_null},
    {"gate_fraction", Kind::number, May::be_null},
    {"gate_fraction_vs_naive", Kind::number, May::be_null},
    {"rtol", Kind::number, May::be_null},
    {"rows_gated", Kind::count},
    {"peak_bytes", Kind::count, May::be_null},
    {"cache", Kind::text},
    {"time_ms", Kind::number, May::be_null},
    {"spread", Kind::number, May::be_null},
    {"samples", Kind::count},
};
constexpr Field prediction_fields[] = {
    {"name", Kind::text},
    {"held", Kind::boolean, May::be_null},
    {"figures", Kind::text},
    {"reason", Kind::text},
};
constexpr Field pitfall_fields[] = {
    {"name", Kind::text},
    {"shown", Kind::boolean, May::be_null},
    {"figures", Kind::text},
    {"meaning", Kind::text},
};
constexpr Field lab_fields[] = {
    {"schema", Kind::text},
    {"version", Kind::count},
    {"runmax", Kind::text},
    {"commit", Kind::text},
    {"compiler", Kind::text},
    {"date", Kind::text},
    {"seed", Kind::count},
    {"device", Kind::object, May::be_there, device_fields},
    {"limits", Kind::object, May::be_there, limits_fields},
    {"method", Kind::object, May::be_there, method_fields},
    {"kernel_sources", Kind::list, May::be_there, source_fields},
    {"resources", Kind::list, May::be_there, resource_fields},
    {"results", Kind::list, May::be_there, result_fields},
    {"predictions", Kind::list, May::be_there, prediction_fields},
    {"pitfalls", Kind::list, May::be_absent, pitfall_fields},
    {"meaning", Kind::text},
    {"passed", Kind::boolean},
};

constexpr Field bench_machine_fields[] = {
    {"name", Kind::text},
    {"simd", Kind::text},
    {"memory_bytes", Kind::count},
};
constexpr Field bench_fma_fields[] = {
    {"threads", Kind::count},
    {"flops_per_s", Kind::number},
    {"scaling", Kind::number},
    {"scales", Kind::boolean},
};
constexpr Field bench_limits_fields[] = {
    {"fma", Kind::list, May::be_there, bench_fma_fields},
    {"fma_flops_per_s", Kind::number, May::be_absent},
    {"tensor_flops_per_s", Kind::number, May::be_absent},
    {"copy_bytes_per_s", Kind::number},
};
constexpr Field bench_result_fields[] = {
    {"problem", Kind::text},
    {"pass", Kind::text},
    {"implementation", Kind::text},
    {"kernel", Kind::text},
    {"threads", Kind::count},
    {"cache", Kind::text},
    {"clock", Kind::text, May::be_absent},
    {"status", Kind::text},
    {"reason", Kind::text},
    {"gate_fraction", Kind::measure},
    {"flops", Kind::number},
    {"time_us", Kind::number, May::be_null},
    {"spread", Kind::number, May::be_null},
    {"bytes_per_s", Kind::number, May::be_null},
    {"limit", Kind::text, May::be_null},
    {"share_of_limit", Kind::number, May::be_null},
    {"time_over_first", Kind::number, May::be_null},
};
constexpr Field bench_fields[] = {
    {"schema", Kind::text},
    {"version", Kind::count},
    {"runmax", Kind::text},
    {"commit", Kind::text},
    {"compiler", Kind::text},
    {"date", Kind::text},
    {"machine", Kind::object, May::be_there, bench_machine_fields},
    {"method", Kind::text},
    {"flops_formula", Kind::text},
    {"bytes_formula", Kind::text},
    {"rounds", Kind::count},
    {"limits", Kind::object, May::be_there, bench_limits_fields},
    {"kernel_sources", Kind::list, May::be_there, source_fields},
    {"results", Kind::list, May::be_there, bench_result_fields},
    {"passed", Kind::boolean},
};

constexpr Field judge_candidate_fields[] = {
    {"file", Kind::text},    {"sha256", Kind::text},       {"tier", Kind::text},
    {"lengths", Kind::text}, {"multiple_of", Kind::count}, {"heads", Kind::text},
};
constexpr Field judge_device_fields[] = {
    {"kind", Kind::text},
    {"name", Kind::text},
    {"threads", Kind::count},
};
constexpr Field judge_case_fields[] = {
    {"name", Kind::text},
    {"reason", Kind::text},
    {"problem", Kind::text},
    {"outcome", Kind::text},
    {"finding", Kind::text, May::be_null},
    {"message", Kind::text},
    {"gate_fraction", Kind::measure, May::be_null},
    {"gate_fraction_vs_naive", Kind::measure, May::be_null},
    {"counts", Kind::boolean},
    {"blind_to", Kind::text},
    {"repeat", Kind::text},
};
constexpr Field judge_map_fields[] = {
    {"case", Kind::text},
    {"rows", Kind::count},
    {"columns", Kind::count},
    {"rows_per_cell", Kind::count},
    {"columns_per_cell", Kind::count},
    {"digits", Kind::text},
};
constexpr Field judge_timing_fields[] = {
    {"n", Kind::count},
    {"candidate_us", Kind::number},
    {"candidate_spread", Kind::number},
    {"naive_us", Kind::number},
    {"naive_spread", Kind::number},
    {"rounds", Kind::count},
    {"naive_over_candidate", Kind::number},
    {"floor_us", Kind::number},
    {"share_of_limit", Kind::number},
    {"outputs_checked", Kind::count},
    {"rows_checked", Kind::count},
};
constexpr Field judge_isolation_fields[] = {
    {"name", Kind::text},
    {"purpose", Kind::text},
    {"enforced", Kind::boolean},
    {"why", Kind::text},
};
constexpr Field judge_fields[] = {
    {"schema", Kind::text},
    {"version", Kind::count},
    {"runmax", Kind::text},
    {"commit", Kind::text},
    {"compiler", Kind::text},
    {"date", Kind::text},
    {"seed", Kind::count},
    {"effort", Kind::text},
    {"device", Kind::object, May::be_there, judge_device_fields},
    {"candidate", Kind::object, May::be_there, judge_candidate_fields},
    {"verdict", Kind::text},
    {"reason", Kind::text},
    {"diagnosis", Kind::text, May::be_null},
    {"explanation", Kind::text},
    {"gate_fraction_vs_naive_1024", Kind::measure, May::be_null},
    {"crossover_n", Kind::count, May::be_null},
    {"largest_n", Kind::count, May::be_null},
    {"cases", Kind::list, May::be_there, judge_case_fields},
    {"error_map", Kind::object, May::be_there, judge_map_fields},
    {"timing", Kind::list, May::be_there, judge_timing_fields},
    {"timing_method", Kind::text},
    {"why_stopped", Kind::text},
    {"fma_flops_per_second", Kind::number},
    {"isolation", Kind::list, May::be_there, judge_isolation_fields},
};

// Every kind of record that a page can show. Its view is in page/results.js.
struct Schema {
  std::string_view name;
  unsigned version;
  std::span<const Field> fields;
};
constexpr Schema schemas[] = {
    {"runmax.lab", 1, lab_fields}, {"runmax.bench", 1, bench_fields}, {"runmax.judge", 1, judge_fields}};

std::string schema_names() {
  std::string names;
  for (const Schema& schema : schemas)
    names += (names.empty() ? "\"" : " or \"") + std::string(schema.name) + "\"";
  return names;
}

// A value fit for a message: short, printable, one line.
std::string shown(const Json& value) {
  if (value.is_string()) return files::in_quotes(value.get_ref<const std::string&>());
  return value.is_structured() ? value.type_name() : value.dump();
}

const char* rule(Kind kind) {
  switch (kind) {
    case Kind::text:
      return "a string of at most 4096 bytes";
    case Kind::number:
      return "a number of at least 0";
    case Kind::measure:
      return "a number of at least 0, \"nan\", \"inf\" or \"-inf\"";
    case Kind::count:
      return "an integer of at least 0";
    case Kind::boolean:
      return "true or false";
    case Kind::object:
      return "an object";
    case Kind::list:
      return "a list of at most 1000 entries";
  }
  return "";
}

bool is_of(Kind kind, const Json& value) {
  switch (kind) {
    case Kind::text:
      return value.is_string() && value.get_ref<const std::string&>().size() <= most_text;
    case Kind::number:
      return value.is_number() && value.get<double>() >= 0;
    case Kind::measure:
      return is_of(Kind::number, value) || value == "nan" || value == "inf" || value == "-inf";
    case Kind::count:
      return value.is_number_unsigned();
    case Kind::boolean:
      return value.is_boolean();
    case Kind::object:
      return value.is_object();
    case Kind::list:
      return value.is_array() && value.size() <= most_entries;
  }
  return false;
}

Status wrong(const std::string& message) { return {StatusCode::invalid_argument, message}; }

// Copies the named fields of `from` into `to`; `where` ends in a dot or is empty.
Status copy_fields(const Json& from, std::span<const Field> fields, const std::string& where, Json& to) {
  to = Json::object();
  for (const Field& field : fields) {
    const std::string name = where + field.name;
    const auto found = from.find(field.name);
    if (found == from.end()) {
      if (field.may == May::be_absent) continue;
      return wrong(name + ": is missing");
    }
    const Json& value = *found;
    if (value.is_null() && field.may == May::be_null) {
      to[field.name] = nullptr;
      continue;
    }
    if (!is_of(field.kind, value))
      return wrong(name + ": must be " + rule(field.kind) + (field.may == May::be_null ? " or null" : "") +
                   ", got " + shown(value));
    Json copy;
    if (field.kind == Kind::object) {
      if (Status status = copy_fields(value, field.fields, name + ".", copy); !status.ok()) return status;
    } else if (field.kind == Kind::list) {
      copy = Json::array();
      for (std::size_t i = 0; i < value.size(); ++i) {
        const std::string entry = name + "[" + std::to_string(i) + "]";
        if (!value[i].is_object()) return wrong(entry + ": must be an object, got " + shown(value[i]));
        Json copied;
        if (Status status = copy_fields(value[i], field.fields, entry + ".", copied); !status.ok())
          return status;
        copy.push_back(std::move(copied));
      }
    } else {
      copy = value;
    }
    to[field.name] = std::move(copy);
  }
  return {};
}

}  // namespace

Result<Record> read_record(std::string_view text) {
  if (text.size() > most_bytes)
    return wrong("must be at most " + std::to_string(most_bytes) + " bytes, got " +
                 std::to_string(text.size()));
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::out_of_range&) {
    return wrong("is not JSON that can be read: a number in it is too large");
  } catch (const Json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 1: ... last read: '<the input>'"
    const std::string message = error.what();
    const std::size_t at = message.find(" at line "), end = message.find(':', at);
    return wrong("is not JSON" + (at == std::string::npos ? "" : message.substr(at, end - at)));
  }
  if (!json.is_object()) return wrong("must be one JSON object, got " + shown(json));
  const auto found = json.find("schema"), version = json.find("version");
  const Schema* const schema = std::find_if(std::begin(schemas), std::end(schemas), [&](const Schema& one) {
    return found != json.end() && *found == one.name;
  });
  if (schema == std::end(schemas))
    return wrong("schema: must be " + schema_names() + ", " +
                 (found == json.end() ? "is missing" : "got " + shown(*found)));
  if (version == json.end() || *version != schema->version)
    return wrong("version: must be " + std::to_string(schema->version) + ", " +
                 (version == json.end() ? "is missing" : "got " + shown(*version)));
  Json checked;
  if (Status status = copy_fields(json, schema->fields, "", checked); !status.ok()) return status;
  return Record{checked.dump()};
}

}  // namespace runmax::page
