// The text form of a problem: one parser and one printer.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <system_error>

#include "runmax/problem.hpp"

namespace runmax {
namespace {

constexpr std::array input_kinds{InputKind::normal, InputKind::loud,    InputKind::onesign,
                                 InputKind::wide,   InputKind::equal,   InputKind::needle,
                                 InputKind::rising, InputKind::falling, InputKind::hot};
constexpr std::array dtypes{DType::f32, DType::f16, DType::bf16, DType::f64, DType::e4m3, DType::i8};

// A piece of the text for a message of one line: what would break the line or the terminal is '?', a long
// piece is cut.
std::string quoted(std::string_view text) {
  constexpr std::size_t longest = 60;
  std::string line = "'";
  for (const char c : text.substr(0, longest)) line += c >= 0x20 && c < 0x7f ? c : '?';
  return line + (text.size() > longest ? "...'" : "'");
}

Status field_error(std::string_view field, const std::string& rule) {
  return {StatusCode::invalid_argument, "problem field " + quoted(field) + ": " + rule};
}

template <class Number>
bool parse_number(std::string_view text, Number& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && !text.empty();
}

std::string number_text(double value) {
  std::array<char, 32> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  (void)error;
  return {buffer.data(), end};
}

// Splits at `separator`; calls visit(piece) until it returns a failure.
template <class Visit>
Status split(std::string_view text, char separator, Visit visit) {
  while (true) {
    const std::size_t cut = text.find(separator);
    if (Status status = visit(text.substr(0, cut)); !status.ok()) return status;
    if (cut == std::string_view::npos) return {};
    text.remove_prefix(cut + 1);
  }
}

struct Parser {
  Problem problem;
  bool kv_len_given = false, kv_heads_given = false, value_dim_given = false, query_len_given = false;
  bool batch_given = false, dtype_given = false;
  std::vector<std::string> seen;

  Status once(std::string_view field, std::string_view key) {
    if (std::find(seen.begin(), seen.end(), key) != seen.end())
      return field_error(field, quoted(key) + " is given twice");
    seen.emplace_back(key);
    return {};
  }

  Status integer(std::string_view field, std::string_view digits, std::int64_t& value) {
    if (!parse_number(digits, value))
      return field_error(field, "needs an integer of 64 bits, got " + quoted(digits));
    return {};
  }

  Status real(std::string_view field, std::string_view digits, double& value) {
    if (!parse_number(digits, value) || !std::isfinite(value))
      return field_error(field, "needs a finite number, got " + quoted(digits));
    return {};
  }

  Status sized(std::string_view field, std::string_view key, std::string_view digits) {
    if (Status status = once(field, key); !status.ok()) return status;
    if (key == "b") {
      batch_given = true;
      return integer(field, digits, problem.batch);
    }
    if (key == "h") {
      Status status = integer(field, digits, problem.query_heads);
      problem.kv_heads = problem.query_heads;
      kv_heads_given = true;
      for (std::string_view clash : {"hq", "hk"})
        if (std::find(seen.begin(), seen.end(), clash) != seen.end())
          return field_error(field, "h sets both head counts and cannot stand beside hq or hk");
      return status;
    }
    if (key == "hq" || key == "hk") {
      if (std::find(seen.begin(), seen.end(), "h") != seen.end())
        return field_error(field, "h sets both head counts and cannot stand beside hq or hk");
      if (key == "hk") kv_heads_given = true;
      return integer(field, digits, key == "hq" ? problem.query_heads : problem.kv_heads);
    }
    if (key == "q") {
      query_len_given = true;
      return integer(field, digits, problem.query_len);
    }
    if (key == "k") {
      kv_len_given = true;
      return integer(field, digits, problem.kv_len);
    }
    if (key == "d") return integer(field, digits, problem.head_dim);
    value_dim_given = true;
    return integer(field, digits, problem.value_dim);
  }

  Status named(std::string_view field, std::string_view key, std::string_view value) {
    if (Status status = once(field, key); !status.ok()) return status;
    if (key == "causal") {
      if (value == "bottom_right") {
        problem.causal = Causal::bottom_right;
      } else if (value == "top_left") {
        problem.causal = Causal::top_left;
      } else {
        return field_error(field, "causal is bottom_right or top_left, got " + quoted(value));
      }
      return {};
    }
    if (key == "window") {
      const std::size_t comma = value.find(',');
      if (comma == std::string_view::npos) return field_error(field, "needs two integers, window=LEFT,RIGHT");
      if (Status status = integer(field, value.substr(0, comma), problem.window.left); !status.ok())
        return status;
      return integer(field, value.substr(comma + 1), problem.window.right);
    }
    if (key == "softcap") return real(field, value, problem.softcap);
    if (key == "dropout") return real(field, value, problem.dropout);
    if (key == "scale") {
      double scale = 0;
      if (Status status = real(field, value, scale); !status.ok()) return status;
      problem.softmax_scale = scale;
      return {};
    }
    if (key == "paged") {
      if (Status status = integer(field, value, problem.page_size); !status.ok()) return status;
      if (problem.page_size < 1)
        return field_error(field, "page size must be at least 1, got " + std::to_string(problem.page_size));
      return {};
    }
    if (key == "seed") {
      if (!parse_number(value, problem.seed))
        return field_error(field, "needs an unsigned integer of 64 bits, got " + quoted(value));
      return {};
    }
    if (key == "in") {
      for (InputKind kind : input_kinds)
        if (value == input_kind_name(kind)) {
          problem.input = kind;
          return {};
        }
      std::string allowed;
      for (InputKind kind : input_kinds)
        allowed += (allowed.empty() ? "" : ", ") + std::string(input_kind_name(kind));
      return field_error(field, "in is one of " + allowed + "; got " + quoted(value));
    }
    if (key == "varlen") {
      return split(value, ',', [&](std::string_view pair) -> Status {
        const std::size_t slash = pair.find('/');
        SequenceLengths lengths;
        if (Status status = integer(field, pair.substr(0, slash), lengths.query_len); !status.ok())
          return status;
        lengths.kv_len = lengths.query_len;
        if (slash != std::string_view::npos)
          if (Status status = integer(field, pair.substr(slash + 1), lengths.kv_len); !status.ok())
            return status;
        problem.varlen.push_back(lengths);
        return {};
      });
    }
    return field_error(field, "unknown option " + quoted(key));
  }

  Status flag(std::string_view field) {
    for (DType dtype : dtypes)
      if (field == dtype_name(dtype)) {
        if (dtype_given) return field_error(field, "the element type is given twice");
        dtype_given = true;
        problem.dtype = dtype;
        return {};
      }
    if (Status status = once(field, field == "ieee" || field == "tf32" ? "arithmetic" : field); !status.ok())
      return status;
    if (field == "causal") {
      problem.causal = Causal::bottom_right;
    } else if (field == "alibi") {
      problem.alibi = true;
    } else if (field == "sink") {
      problem.sink = true;
    } else if (field == "mask") {
      problem.mask = true;
    } else if (field == "bias") {
      problem.bias = true;
    } else if (field == "seqused") {
      problem.seqused = true;
    } else if (field == "batch_invariant") {
      problem.batch_invariant = true;
    } else if (field == "ieee") {
      problem.arithmetic = Arithmetic::ieee;
    } else if (field == "tf32") {
      problem.arithmetic = Arithmetic::tf32;
    } else {
      return field_error(field, "unknown; fields look like b2:hq32:hk8:q1024:k1024:d128:f32:causal");
    }
    return {};
  }

  Status field(std::string_view text) {
    if (text.empty()) return field_error(text, "empty; write fields separated by single ':'");
    if (const std::size_t equals = text.find('='); equals != std::string_view::npos)
      return named(text, text.substr(0, equals), text.substr(equals + 1));
    const std::size_t digits = text.find_first_of("-0123456789");
    const std::string_view key = text.substr(0, digits);
    if (digits != std::string_view::npos)
      for (std::string_view sized_key : {"b", "h", "hq", "hk", "q", "k", "d", "dv"})
        if (key == sized_key) return sized(text, key, text.substr(digits));
    return flag(text);
  }

  Status finish() {
    if (!problem.varlen.empty()) {
      const auto count = static_cast<std::int64_t>(problem.varlen.size());
      if (batch_given && problem.batch != count)
        return field_error("varlen", "holds " + std::to_string(count) + " sequences, but b is " +
                                         std::to_string(problem.batch));
      if (query_len_given || kv_len_given)
        return field_error("varlen", "gives the lengths; leave q and k out");
      problem.batch = count;
      for (const SequenceLengths& lengths : problem.varlen) {
        problem.query_len = std::max(problem.query_len, lengths.query_len);
        problem.kv_len = std::max(problem.kv_len, lengths.kv_len);
      }
    } else {
      if (!query_len_given)
        return {StatusCode::invalid_argument, "problem: the query length is missing (q1024)"};
      if (!kv_len_given) problem.kv_len = problem.query_len;
    }
    if (!kv_heads_given) problem.kv_heads = problem.query_heads;
    if (!value_dim_given) problem.value_dim = problem.head_dim;
    return {};
  }
};

}  // namespace

std::string_view input_kind_name(InputKind kind) {
  switch (kind) {
    case InputKind::normal:
      return "normal";
    case InputKind::loud:
      return "loud";
    case InputKind::onesign:
      return "onesign";
    case InputKind::wide:
      return "wide";
    case InputKind::equal:
      return "equal";
    case InputKind::needle:
      return "needle";
    case InputKind::rising:
      return "rising";
    case InputKind::falling:
      return "falling";
    case InputKind::hot:
      return "hot";
  }
  return "invalid";
}

Result<Problem> parse_problem(std::string_view text) {
  Parser parser;
  if (Status status = split(text, ':', [&](std::string_view field) { return parser.field(field); });
      !status.ok())
    return status;
  if (Status status = parser.finish(); !status.ok()) return status;
  if (Status status = validate(parser.problem); !status.ok()) return status;
  return parser.problem;
}

std::string to_text(const Problem& p) {
  std::string text;
  const auto add = [&](const std::string& field) { text += (text.empty() ? "" : ":") + field; };
  if (p.varlen.empty() && p.batch != 1) add("b" + std::to_string(p.batch));
  if (p.query_heads == p.kv_heads) {
    if (p.query_heads != 1) add("h" + std::to_string(p.query_heads));
  } else {
    add("hq" + std::to_string(p.query_heads));
    add("hk" + std::to_string(p.kv_heads));
  }
  if (p.varlen.empty()) {
    add("q" + std::to_string(p.query_len));
    if (p.kv_len != p.query_len) add("k" + std::to_string(p.kv_len));
  } else {
    std::string lengths;
    for (const SequenceLengths& s : p.varlen) {
      lengths += (lengths.empty() ? "" : ",") + std::to_string(s.query_len);
      if (s.kv_len != s.query_len) lengths += "/" + std::to_string(s.kv_len);
    }
    add("varlen=" + lengths);
  }
  add("d" + std::to_string(p.head_dim));
  if (p.value_dim != p.head_dim) add("dv" + std::to_string(p.value_dim));
  if (p.dtype != DType::f32) add(std::string(dtype_name(p.dtype)));
  if (p.arithmetic == Arithmetic::ieee) add("ieee");
  if (p.arithmetic == Arithmetic::tf32) add("tf32");
  if (p.causal == Causal::bottom_right) add("causal");
  if (p.causal == Causal::top_left) add("causal=top_left");
  if (p.window != Window{})
    add("window=" + std::to_string(p.window.left) + "," + std::to_string(p.window.right));
  if (p.softmax_scale) add("scale=" + number_text(*p.softmax_scale));
  if (p.softcap != 0) add("softcap=" + number_text(p.softcap));
  if (p.alibi) add("alibi");
  if (p.sink) add("sink");
  if (p.mask) add("mask");
  if (p.bias) add("bias");
  if (p.dropout != 0) add("dropout=" + number_text(p.dropout));
  if (p.page_size != 0) add("paged=" + std::to_string(p.page_size));
  if (p.seqused) add("seqused");
  if (p.batch_invariant) add("batch_invariant");
  if (p.input != InputKind::normal) add("in=" + std::string(input_kind_name(p.input)));
  if (p.seed != 0) add("seed=" + std::to_string(p.seed));
  return text;
}

}  // namespace runmax
