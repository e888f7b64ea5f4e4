#include "files/npy.hpp"

#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "files/input_file.hpp"

namespace runmax::files {
namespace {

constexpr std::string_view magic("\x93NUMPY", 6);
constexpr std::size_t most_dimensions = 64;  // numpy's own limit

Status malformed(const std::string& rule) { return {StatusCode::invalid_argument, rule}; }

// The header's dictionary: the subset of Python literals that numpy writes, in any order and spacing.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, int major, Elements wanted)
      : text_(text), major_(major), wanted_(wanted) {}

  Status parse(NpyView& view) {
    if (!take('{')) return expected("'{'");
    while (!take('}')) {
      std::string_view key;
      if (!string(key)) return expected("a key in quotes or '}'");
      if (!take(':')) return expected("':'");
      Status status = key == "descr"           ? descr(view)
                      : key == "fortran_order" ? fortran_order(view)
                      : key == "shape"         ? shape(view)
                                               : malformed("header key " + in_quotes(key) +
                                                           " is not one of 'descr', 'fortran_order', 'shape'");
      if (!status.ok()) return status;
      if (!take(',') && peek() != '}') return expected("',' or '}'");
    }
    if (peek() != '\0' || at_ < text_.size()) return expected("nothing but spaces after '}'");
    for (const auto& [seen, name] : {std::pair(have_descr_, "descr"), std::pair(have_order_, "fortran_order"),
                                     std::pair(have_shape_, "shape")})
      if (!seen) return malformed("header: the key '" + std::string(name) + "' is missing");
    return {};
  }

 private:
  // The next character that is no white space; '\0' at the end.
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' ||
                                  text_[at_] == '\r' || text_[at_] == '\f'))
      ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool take(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }

  bool take_word(std::string_view word) {
    peek();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  bool string(std::string_view& value) {
    const char quote = peek();
    if (quote != '\'' && quote != '"') return false;
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return false;
    value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return true;
  }

  Status expected(const std::string& what) {
    const char found = peek();
    const std::string got =
        at_ >= text_.size() ? std::string("the end") : in_quotes(std::string_view(&found, 1));
    return malformed("header: expected " + what + " at byte " + std::to_string(at_) + ", got " + got);
  }

  Status once(bool& have, const char* key) {
    if (have) return malformed("header: the key '" + std::string(key) + "' stands twice");
    have = true;
    return {};
  }

  Status descr(NpyView& view) {
    if (Status status = once(have_descr_, "descr"); !status.ok()) return status;
    const bool numbers = wanted_ == Elements::numbers;
    const bool integers = wanted_ == Elements::integers;
    const std::string allowed = numbers    ? "; allowed are '<f4', '<f2' and '<f8'"
                                : integers ? "; allowed are '<i4' and '<i8'"
                                           : "; allowed are '|b1' and '|u1'";
    if (peek() == '[' || peek() == '(') return malformed("dtype is structured" + allowed);
    std::string_view name;
    if (!string(name)) return expected("a dtype in quotes");
    if (numbers && name == "<f4") {
      view.element = Element::f32;
    } else if (numbers && name == "<f2") {
      view.element = Element::f16;
    } else if (numbers && name == "<f8") {
      view.element = Element::f64;
    } else if (integers && name == "<i4") {
      view.element = Element::i32;
    } else if (integers && name == "<i8") {
      view.element = Element::i64;
    } else if (wanted_ == Elements::booleans && (name == "|b1" || name == "|u1")) {
      view.element = Element::boolean;
    } else {
      std::string reason;
      if (name.substr(0, 1) == ">") reason = " (big-endian)";
      if (name.substr(0, 2) == "|O") reason = " (Python objects)";
      return malformed("dtype is " + in_quotes(name) + reason + allowed);
    }
    return {};
  }

  Status fortran_order(NpyView& view) {
    if (Status status = once(have_order_, "fortran_order"); !status.ok()) return status;
    if (take_word("True")) {
      view.order = Order::fortran;
    } else if (take_word("False")) {
      view.order = Order::c;
    } else {
      return expected("True or False for 'fortran_order'");
    }
    return {};
  }

  Status shape(NpyView& view) {
    if (Status status = once(have_shape_, "shape"); !status.ok()) return status;
    if (!take('(')) return expected("a tuple for 'shape'");
    bool comma = true;
    while (!take(')')) {
      if (!comma) return expected("',' or ')' in 'shape'");
      std::int64_t length = 0;
      peek();
      const char* const begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), length);
      if (error == std::errc::result_out_of_range) return malformed("shape: a length exceeds 2^63 - 1");
      if (error != std::errc()) return expected("an integer or ')' in 'shape'");
      if (*begin == '0' && length != 0) return expected("an integer without leading zeros in 'shape'");
      if (length < 0)
        return malformed("shape: lengths must be at least 0, got " + std::to_string(length) +
                         " for dimension " + std::to_string(view.shape.size()));
      at_ += static_cast<std::size_t>(end - begin);
      // Python 2 wrote long integers as 3L.
      if (major_ < 3 && at_ < text_.size() && text_[at_] == 'L') ++at_;
      if (view.shape.size() == most_dimensions)
        return malformed("shape: more than " + std::to_string(most_dimensions) + " dimensions");
      view.shape.push_back(length);
      comma = take(',');
    }
    // (3) is an integer in Python, (3,) a tuple.
    if (view.shape.size() == 1 && !comma) return malformed("shape: one length needs a comma, as in (3,)");
    return {};
  }

  std::string_view text_;
  int major_;
  Elements wanted_;
  std::size_t at_ = 0;
  bool have_descr_ = false, have_order_ = false, have_shape_ = false;
};

}  // namespace

Result<NpyView> parse_npy(Bytes bytes, Elements wanted) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.substr(0, magic.size()) != magic.substr(0, text.size()))
    return malformed("is not a .npy file: it does not begin with \\x93NUMPY");
  const auto truncated = [&](const std::string& part, std::size_t needed) {
    return malformed("is truncated: " + part + " needs " + std::to_string(needed) + " bytes, the file has " +
                     std::to_string(bytes.size()));
  };
  if (bytes.size() < magic.size() + 2) return truncated("the version", magic.size() + 2);
  const auto byte = [&](std::size_t at) { return std::to_integer<std::size_t>(bytes[at]); };
  const std::size_t major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0)
    return malformed("version " + std::to_string(major) + "." + std::to_string(minor) +
                     " is not one of 1.0, 2.0, 3.0");
  const std::size_t header_at = major == 1 ? 10 : 12;
  if (bytes.size() < header_at) return truncated("the header's length", header_at);
  std::size_t header_bytes = byte(8) | byte(9) << 8;
  if (major > 1) header_bytes |= byte(10) << 16 | byte(11) << 24;
  if (header_bytes > bytes.size() - header_at) return truncated("the header", header_at + header_bytes);

  NpyView view;
  if (Status status =
          HeaderParser(text.substr(header_at, header_bytes), static_cast<int>(major), wanted).parse(view);
      !status.ok())
    return status;
  view.data = bytes.subspan(header_at + header_bytes);
  const std::size_t width = element_bytes(view.element);
  std::uint64_t count = 0;
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!count_elements(view.shape, most / width, count))
    return malformed("shape " + shape_text(view.shape) + " of " + element_name(view.element) +
                     " exceeds 2^63 bytes");
  if (count * width != view.data.size())
    return malformed("shape " + shape_text(view.shape) + " of " + element_name(view.element) + " needs " +
                     std::to_string(count * width) + " bytes after the header, the file has " +
                     std::to_string(view.data.size()));
  return view;
}

std::string npy_header(const Shape& shape, Element element) {
  const std::string descr = element == Element::f16 ? "<f2" : element == Element::f64 ? "<f8" : "<f4";
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape_text(shape) + ", }";
  constexpr std::size_t alignment = 64, prefix = 10;
  // The header ends with a newline, and the elements begin at a multiple of 64 bytes.
  header.append((alignment - (prefix + header.size() + 1) % alignment) % alignment, ' ');
  header += '\n';
  std::string text(magic);
  text += '\x01';
  text += '\x00';
  text += static_cast<char>(header.size() & 0xff);
  text += static_cast<char>(header.size() >> 8);
  return text + header;
}

namespace {

// Reads a file and hands what it holds to convert(NpyView).
template <class Convert>
auto read_with(const std::string& path, Elements wanted, Convert convert)
    -> decltype(convert(std::declval<const NpyView&>())) {
  const auto named = [&](const Status& status) {
    return Status(status.code(), path + ": " + status.message());
  };
  Result<FileBytes> file = read_file(path);
  if (!file.ok()) return named(file.status());
  Result<NpyView> view = parse_npy(file.value().bytes(), wanted);
  if (!view.ok()) return named(view.status());
  auto array = convert(static_cast<const NpyView&>(view.value()));
  if (!array.ok()) return named(array.status());
  return array;
}

}  // namespace

Result<FloatArray> read_npy(const std::string& path, Precision precision) {
  return read_with(path, Elements::numbers, [&](const NpyView& v) {
    return to_floats(v.data, v.element, v.shape, v.order, precision);
  });
}

Result<IntegerArray> read_npy_integers(const std::string& path) {
  return read_with(path, Elements::integers,
                   [](const NpyView& v) { return to_integers(v.data, v.element, v.shape, v.order); });
}

Result<MaskArray> read_npy_mask(const std::string& path) {
  return read_with(path, Elements::booleans,
                   [](const NpyView& v) { return to_mask(v.data, v.shape, v.order); });
}

}  // namespace runmax::files
