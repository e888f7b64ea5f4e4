#include "judge/candidate/manifest.hpp"

#include <algorithm>
#include <charconv>
#include <set>

namespace runmax::judge {
namespace {

constexpr std::int64_t longest_length = 1 << 20;

std::string_view trimmed(std::string_view text) {
  const auto space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

// The line without what makes it a comment.
std::string_view uncommented(std::string_view line) {
  line = trimmed(line);
  while (!line.empty() && (line.front() == '/' || line.front() == '*' || line.front() == '#'))
    line.remove_prefix(1);
  if (line.ends_with("*/")) line.remove_suffix(2);
  return trimmed(line);
}

bool read_whole(std::string_view text, std::int64_t& value) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size();
}

// Sets fields by key. Each returns what the value must be, or "" if it is that.
class Fields {
 public:
  explicit Fields(Manifest& manifest) : m_(manifest) {}

  // `known` becomes false for a key that there is not.
  std::string set(std::string_view key, std::string_view value, bool& known) {
    known = true;
    if (key == "tier") {
      if (value != "host" && value != "device") return "host or device";
      m_.tier = value == "host" ? Tier::host : Tier::device;
      return "";
    }
    if (key == "lengths") return lengths(value);
    if (key == "multiple_of") return whole(value, 1, 4096, m_.multiple_of) ? "" : "an integer in [1, 4096]";
    if (key == "head_dim") return dims(value);
    if (key == "heads") {
      if (value != "one" && value != "any" && value != "grouped") return "one, any or grouped";
      m_.heads = value == "one" ? Heads::one : value == "any" ? Heads::any : Heads::grouped;
      return "";
    }
    if (key == "unequal") return yes_or_no(value, m_.unequal);
    if (key == "causal") return yes_or_no(value, m_.causal);
    if (key == "lse") return yes_or_no(value, m_.lse);
    if (key == "key_tile") return whole(value, 1, 1024, m_.key_tile) ? "" : "an integer in [1, 1024]";
    if (key == "align") {
      const bool power = whole(value, 4, 256, m_.align) && (m_.align & (m_.align - 1)) == 0;
      return power ? "" : "a power of two in [4, 256]";
    }
    if (key == "workspace") return expression(value, m_.workspace);
    if (key == "blocks") return expression(value, m_.blocks);
    if (key == "threads") return expression(value, m_.threads);
    if (key == "shared_bytes") return expression(value, m_.shared_bytes);
    known = false;
    return "";
  }

 private:
  static bool whole(std::string_view text, std::int64_t low, std::int64_t high, std::int64_t& field) {
    std::int64_t value = 0;
    if (!read_whole(text, value) || value < low || value > high) return false;
    field = value;
    return true;
  }
  static std::string yes_or_no(std::string_view value, bool& field) {
    if (value != "yes" && value != "no") return "yes or no";
    field = value == "yes";
    return "";
  }
  std::string lengths(std::string_view value) {
    static constexpr const char* rule = "A..B with 1 <= A <= B <= 1048576";
    const std::size_t dots = value.find("..");
    if (dots == std::string_view::npos) return rule;
    std::int64_t low = 0, high = 0;
    if (!whole(trimmed(value.substr(0, dots)), 1, longest_length, low) ||
        !whole(trimmed(value.substr(dots + 2)), low, longest_length, high))
      return rule;
    m_.shortest = low;
    m_.longest = high;
    return "";
  }
  std::string dims(std::string_view value) {
    static constexpr const char* rule = "1 to 8 sizes in [1, 1024] between commas";
    m_.head_dims.clear();
    while (true) {
      const std::size_t comma = value.find(',');
      std::int64_t dim = 0;
      if (!whole(trimmed(value.substr(0, comma)), 1, 1024, dim) || m_.head_dims.size() == 8) return rule;
      m_.head_dims.push_back(dim);
      if (comma == std::string_view::npos) return "";
      value.remove_prefix(comma + 1);
    }
  }
  // Tried on one problem, so that a wrong name is found now.
  std::string expression(std::string_view value, std::string& field) {
    Problem problem;
    problem.query_len = problem.kv_len = 1024;
    problem.head_dim = problem.value_dim = 64;
    const Result<std::int64_t> tried = evaluate(value, variables_of(problem));
    if (!tried.ok()) return "an expression: " + tried.status().message();
    field = std::string(value);
    return "";
  }

  Manifest& m_;
};

}  // namespace

std::string_view tier_name(Tier tier) { return tier == Tier::host ? "host" : "device"; }

std::string_view heads_name(Heads heads) {
  return heads == Heads::one ? "one" : heads == Heads::any ? "any" : "grouped";
}

bool Manifest::serves_dim(std::int64_t d) const {
  return std::find(head_dims.begin(), head_dims.end(), d) != head_dims.end();
}

std::string Manifest::outside(const Problem& p) const {
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  for (const std::int64_t n : {p.query_len, p.kv_len})
    if (!serves_length(n)) return "length " + number(n);
  if (!serves_dim(p.head_dim)) return "head_dim " + number(p.head_dim);
  if (heads == Heads::one && (p.batch != 1 || p.query_heads != 1))
    return number(p.batch * p.query_heads) + " heads";
  if (heads != Heads::grouped && p.kv_heads != p.query_heads) return "fewer KV heads than heads";
  if (!unequal && p.query_len != p.kv_len) return "unequal lengths";
  if (!causal && p.causal != Causal::none) return "causal";
  return "";
}

Result<std::int64_t> Manifest::workspace_bytes(const Problem& problem) const {
  return evaluate(workspace, variables_of(problem));
}

Variables variables_of(const Problem& p) {
  return {{"n", std::max(p.query_len, p.kv_len)},
          {"sq", p.query_len},
          {"sk", p.kv_len},
          {"d", p.head_dim},
          {"batch", p.batch},
          {"heads", p.query_heads}};
}

Result<Manifest> read_manifest(std::string_view source, Tier tier) {
  Manifest manifest;
  manifest.tier = tier;
  Fields fields(manifest);
  std::set<std::string, std::less<>> seen;
  int number = 0;
  // The block ends with the comment that it stands in: at a line that is none, or at the closing mark.
  bool of_lines = false, closed = false;
  while (!source.empty() && !closed) {
    ++number;
    const std::size_t end = std::min(source.find('\n'), source.size());
    const std::string_view whole = trimmed(source.substr(0, end)), line = uncommented(whole);
    source.remove_prefix(std::min(end + 1, source.size()));
    if (!manifest.found) {
      manifest.found = line == "runmax-judge";
      of_lines = whole.starts_with("//");
      continue;
    }
    if (of_lines && !whole.starts_with("//")) break;
    closed = whole.find("*/") != std::string_view::npos;
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) break;
    const std::string_view key = trimmed(line.substr(0, colon));
    // A remark may stand behind a value.
    const std::string_view value = trimmed(line.substr(colon + 1, line.find("--", colon) - colon - 1));
    const auto complain = [&](const std::string& what) {
      return Status(StatusCode::invalid_argument, "line " + std::to_string(number) + ": " + what);
    };
    bool known = false;
    const std::string rule = fields.set(key, value, known);
    if (!known)
      return complain(
          "manifest: there is no key '" + std::string(key) +
          "' (tier, lengths, multiple_of, head_dim, heads, unequal, causal, lse, key_tile, align, "
          "workspace, blocks, threads, shared_bytes)");
    if (!rule.empty())
      return complain(std::string(key) + ": must be " + rule + ", got '" + std::string(value) + "'");
    if (!seen.emplace(key).second) return complain(std::string(key) + ": is given twice");
  }
  if (manifest.tier == Tier::device && (manifest.heads != Heads::one || manifest.unequal || manifest.causal ||
                                        manifest.lse || manifest.head_dims != std::vector<std::int64_t>{64}))
    return Status(StatusCode::invalid_argument,
                  "manifest: a device kernel serves one head of width 64, equal lengths, no mask and no LSE; "
                  "claim more in the host tier");
  return manifest;
}

}  // namespace runmax::judge
