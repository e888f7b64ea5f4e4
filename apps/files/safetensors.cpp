#include "files/safetensors.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

namespace runmax::files {
namespace {

using nlohmann::json;

constexpr std::uint64_t longest_header = 100'000'000;

Status malformed(const std::string& rule) { return {StatusCode::invalid_argument, rule}; }

// Bits of one element of a dtype of the format, or 0.
std::uint64_t dtype_bits(std::string_view name) {
  struct Known {
    std::string_view name;
    std::uint64_t bits;
  };
  constexpr std::array known{
      Known{"BOOL", 8}, Known{"F4", 4},      Known{"F6_E2M3", 6}, Known{"F6_E3M2", 6}, Known{"U8", 8},
      Known{"I8", 8},   Known{"F8_E5M2", 8}, Known{"F8_E4M3", 8}, Known{"F8_E8M0", 8}, Known{"I16", 16},
      Known{"U16", 16}, Known{"F16", 16},    Known{"BF16", 16},   Known{"I32", 32},    Known{"U32", 32},
      Known{"F32", 32}, Known{"C64", 64},    Known{"F64", 64},    Known{"I64", 64},    Known{"U64", 64},
  };
  for (const Known& k : known)
    if (k.name == name) return k.bits;
  return 0;
}

// One member of the header while it is read.
struct Declared {
  std::string name;
  std::string dtype;
  Shape shape;
  std::vector<std::uint64_t> offsets;
  bool have_dtype = false, have_shape = false, have_offsets = false;
};

// Receives the header's JSON as events; keeps no tree, so that nesting costs nothing.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  std::vector<Declared> tensors;
  Status status;

  bool start_object(std::size_t) override {
    if (skipping_) return ++skipping_, true;
    switch (place_) {
      case Place::start:
        place_ = Place::names;
        return true;
      case Place::member:
        place_ = Place::fields;
        return true;
      case Place::metadata:
        place_ = Place::metadata_keys;
        return true;
      case Place::unknown:
        skipping_ = 1;
        return true;
      default:
        return wrong();
    }
  }

  bool end_object() override {
    if (skipping_) return leave_skipped();
    switch (place_) {
      case Place::names:
        place_ = Place::end;
        return true;
      case Place::metadata_keys:
        place_ = Place::names;
        return true;
      default: {
        const Declared& t = tensors.back();
        for (const auto& [have, field] : {std::pair(t.have_dtype, "dtype"), std::pair(t.have_shape, "shape"),
                                          std::pair(t.have_offsets, "data_offsets")})
          if (!have) return fail(tensor() + "'" + field + "' is missing");
        place_ = Place::names;
        return true;
      }
    }
  }

  bool key(std::string& text) override {
    if (skipping_) return true;
    if (place_ == Place::names) {
      if (!names_.insert(text).second) return fail("the name " + in_quotes(text) + " stands twice");
      if (text == "__metadata__") {
        place_ = Place::metadata;
      } else {
        tensors.emplace_back();
        tensors.back().name = text;
        place_ = Place::member;
      }
      return true;
    }
    if (place_ == Place::metadata_keys) {
      place_ = Place::metadata_value;
      return true;
    }
    Declared& t = tensors.back();
    if (text == "dtype") return field(Place::dtype, t.have_dtype, text);
    if (text == "shape") return field(Place::shape, t.have_shape, text);
    if (text == "data_offsets") return field(Place::offsets, t.have_offsets, text);
    place_ = Place::unknown;
    return true;
  }

  bool start_array(std::size_t) override {
    if (skipping_) return ++skipping_, true;
    if (place_ == Place::shape) {
      place_ = Place::lengths;
    } else if (place_ == Place::offsets) {
      place_ = Place::ends;
    } else if (place_ == Place::unknown) {
      skipping_ = 1;
    } else {
      return wrong();
    }
    return true;
  }

  bool end_array() override {
    if (skipping_) return leave_skipped();
    if (place_ == Place::ends && tensors.back().offsets.size() != 2) return wrong_offsets();
    place_ = Place::fields;
    return true;
  }

  bool string(std::string& text) override {
    if (place_ == Place::dtype && !skipping_) {
      tensors.back().dtype = text;
      place_ = Place::fields;
      return true;
    }
    if (place_ == Place::metadata_value && !skipping_) {
      place_ = Place::metadata_keys;
      return true;
    }
    return scalar();
  }

  bool number_unsigned(json::number_unsigned_t number) override {
    if (skipping_) return true;
    if (place_ == Place::lengths) {
      if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        return fail(tensor() + "a length of the shape exceeds 2^63 - 1");
      tensors.back().shape.push_back(static_cast<std::int64_t>(number));
      return true;
    }
    if (place_ == Place::ends) {
      std::vector<std::uint64_t>& offsets = tensors.back().offsets;
      if (offsets.size() == 2) return wrong_offsets();
      offsets.push_back(number);
      return true;
    }
    return scalar();
  }

  bool null() override {
    if (place_ != Place::metadata || skipping_) return scalar();
    place_ = Place::names;
    return true;
  }
  bool boolean(bool) override { return scalar(); }
  bool number_integer(json::number_integer_t) override { return scalar(); }
  bool number_float(json::number_float_t, const std::string&) override { return scalar(); }
  bool binary(json::binary_t&) override { return scalar(); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail("is not valid JSON at byte " + std::to_string(position) + " of the header");
  }

 private:
  enum class Place {
    start,           // before the object
    names,           // in it: names of tensors
    member,          // after a tensor's name
    fields,          // in a tensor's object
    dtype,           // after "dtype"
    shape,           // after "shape"
    lengths,         // in the array of the shape
    offsets,         // after "data_offsets"
    ends,            // in the array of the offsets
    unknown,         // after a field that the format does not know
    metadata,        // after "__metadata__"
    metadata_keys,   // in its object
    metadata_value,  // after a key of it
    end,
  };

  std::string tensor() const {
    return tensors.empty() ? "" : "tensor " + in_quotes(tensors.back().name) + ": ";
  }

  bool fail(const std::string& rule) {
    if (status.ok()) status = malformed("header: " + rule);
    return false;
  }

  bool wrong_offsets() { return fail(tensor() + "'data_offsets' must be two integers, [begin, end]"); }

  // A value of the wrong kind at this place.
  bool wrong() {
    switch (place_) {
      case Place::start:
        return fail("must be an object");
      case Place::member:
        return fail(tensor() + "must be an object");
      case Place::dtype:
        return fail(tensor() + "'dtype' must be a string");
      case Place::shape:
      case Place::lengths:
        return fail(tensor() + "'shape' must be an array of integers of at least 0");
      case Place::offsets:
      case Place::ends:
        return wrong_offsets();
      default:
        return fail("'__metadata__' must be an object of strings");
    }
  }

  bool field(Place next, bool& have, const std::string& name) {
    if (have) return fail(tensor() + "'" + name + "' stands twice");
    have = true;
    place_ = next;
    return true;
  }

  // A scalar where the format wants something else, unless it belongs to an unknown field.
  bool scalar() {
    if (skipping_) return true;
    if (place_ != Place::unknown) return wrong();
    place_ = Place::fields;
    return true;
  }

  bool leave_skipped() {
    if (--skipping_ == 0) place_ = Place::fields;
    return true;
  }

  Place place_ = Place::start;
  std::size_t skipping_ = 0;  // depth inside an unknown field's value
  std::set<std::string> names_;
};

// The byte range of one tensor against its shape and dtype.
Status check_range(const Declared& t) {
  const std::string tensor = "tensor " + in_quotes(t.name) + ": ";
  const std::uint64_t bits = dtype_bits(t.dtype);
  if (bits == 0) return malformed(tensor + "dtype " + in_quotes(t.dtype) + " is unknown");
  const std::uint64_t begin = t.offsets[0], end = t.offsets[1];
  if (begin > end)
    return malformed(tensor + "data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) +
                     "] run backwards");
  std::uint64_t count = 0;
  if (!count_elements(t.shape, std::numeric_limits<std::uint64_t>::max() / bits, count))
    return malformed(tensor + "shape " + shape_text(t.shape) + " of " + t.dtype + " exceeds 2^64 bits");
  if (count * bits % 8 != 0)
    return malformed(tensor + "shape " + shape_text(t.shape) + " of " + t.dtype +
                     " is no whole number of bytes");
  if (count * bits / 8 != end - begin)
    return malformed(tensor + "shape " + shape_text(t.shape) + " of " + t.dtype + " needs " +
                     std::to_string(count * bits / 8) + " bytes, data_offsets [" + std::to_string(begin) +
                     ", " + std::to_string(end) + "] give " + std::to_string(end - begin));
  return {};
}

}  // namespace

Result<std::vector<TensorEntry>> parse_safetensors(Bytes bytes) {
  constexpr std::size_t prefix = 8;
  if (bytes.size() < prefix)
    return malformed("is not a .safetensors file: it has " + std::to_string(bytes.size()) +
                     " bytes, the header's length alone needs 8");
  std::uint64_t header_bytes = 0;
  for (std::size_t i = 0; i < prefix; ++i)
    header_bytes |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  const std::uint64_t room = bytes.size() - prefix;
  if (header_bytes > std::min(room, longest_header))
    return malformed("the header claims " + std::to_string(header_bytes) + " bytes, " +
                     (header_bytes > room ? "but " + std::to_string(room) + " follow"
                                          : "more than the format's " + std::to_string(longest_header)));
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + prefix,
                                static_cast<std::size_t>(header_bytes));
  if (header.empty() || header.front() != '{') return malformed("the header does not begin with '{'");

  // JSON has no NUL outside of strings, nor raw in them; the parser would take it for the end.
  if (const std::size_t nul = header.find('\0'); nul != std::string_view::npos)
    return malformed("header: is not valid JSON at byte " + std::to_string(nul + 1) + " of the header");
  HeaderReader reader;
  if (!json::sax_parse(header.begin(), header.end(), &reader)) return reader.status;

  for (const Declared& t : reader.tensors)
    if (Status status = check_range(t); !status.ok()) return status;
  std::sort(reader.tensors.begin(), reader.tensors.end(),
            [](const Declared& a, const Declared& b) { return a.offsets < b.offsets; });
  const Bytes data = bytes.subspan(prefix + header.size());
  std::vector<TensorEntry> tensors;
  std::uint64_t covered = 0;
  for (Declared& t : reader.tensors) {
    const std::uint64_t begin = t.offsets[0], end = t.offsets[1];
    if (begin != covered)
      return malformed("tensor " + in_quotes(t.name) + ": data_offsets [" + std::to_string(begin) + ", " +
                       std::to_string(end) + "] " + (begin < covered ? "overlap" : "leave a hole after") +
                       " the bytes before " + std::to_string(covered));
    if (end > data.size())
      return malformed("tensor " + in_quotes(t.name) + ": data_offsets [" + std::to_string(begin) + ", " +
                       std::to_string(end) + "] exceed the " + std::to_string(data.size()) +
                       " bytes after the header");
    covered = end;
    tensors.push_back({std::move(t.name), std::move(t.dtype), std::move(t.shape),
                       data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin))});
  }
  if (covered != data.size())
    return malformed("the tensors cover " + std::to_string(covered) + " of the " +
                     std::to_string(data.size()) + " bytes after the header");
  return tensors;
}

namespace {

Result<const TensorEntry*> find_tensor(const std::vector<TensorEntry>& tensors, std::string_view name) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const TensorEntry& t) { return t.name == name; });
  if (found == tensors.end()) {
    constexpr std::size_t most_named = 8;
    std::string names;
    for (std::size_t i = 0; i < std::min(tensors.size(), most_named); ++i)
      names += (i == 0 ? "" : ", ") + in_quotes(tensors[i].name);
    if (tensors.size() > most_named) names += ", ...";
    return malformed("tensor " + in_quotes(name) + " is missing; the file has " +
                     (names.empty() ? "no tensors" : names));
  }
  return &*found;
}

}  // namespace

bool has_tensor(const std::vector<TensorEntry>& tensors, std::string_view name) {
  return find_tensor(tensors, name).ok();
}

Result<MaskArray> tensor_to_mask(const std::vector<TensorEntry>& tensors, std::string_view name) {
  const Result<const TensorEntry*> found = find_tensor(tensors, name);
  if (!found.ok()) return found.status();
  const TensorEntry& tensor = *found.value();
  if (tensor.dtype != "BOOL" && tensor.dtype != "U8")
    return malformed("tensor " + in_quotes(name) + ": dtype is " + tensor.dtype +
                     "; allowed are BOOL and U8");
  Result<MaskArray> array = to_mask(tensor.data, tensor.shape, Order::c);
  if (!array.ok())
    return Status(array.status().code(), "tensor " + in_quotes(name) + ": " + array.status().message());
  return array;
}

Result<IntegerArray> tensor_to_integers(const std::vector<TensorEntry>& tensors, std::string_view name) {
  const Result<const TensorEntry*> found = find_tensor(tensors, name);
  if (!found.ok()) return found.status();
  const TensorEntry& tensor = *found.value();
  if (tensor.dtype != "I32" && tensor.dtype != "I64")
    return malformed("tensor " + in_quotes(name) + ": dtype is " + tensor.dtype +
                     "; allowed are I32 and I64");
  return to_integers(tensor.data, tensor.dtype == "I32" ? Element::i32 : Element::i64, tensor.shape,
                     Order::c);
}

Result<FloatArray> tensor_to_f32(const std::vector<TensorEntry>& tensors, std::string_view name,
                                 Precision precision) {
  const Result<const TensorEntry*> entry = find_tensor(tensors, name);
  if (!entry.ok()) return entry.status();
  const TensorEntry* const found = entry.value();
  Element element = Element::f32;
  if (found->dtype == "F16") {
    element = Element::f16;
  } else if (found->dtype == "BF16") {
    element = Element::bf16;
  } else if (found->dtype == "F64") {
    element = Element::f64;
  } else if (found->dtype != "F32") {
    return malformed("tensor " + in_quotes(name) + ": dtype is " + found->dtype +
                     "; allowed are F32, F16, BF16 and F64");
  }
  Result<FloatArray> array = to_floats(found->data, element, found->shape, Order::c, precision);
  if (!array.ok())
    return Status(array.status().code(), "tensor " + in_quotes(name) + ": " + array.status().message());
  return array;
}

std::string safetensors_header(const std::vector<TensorHeader>& tensors) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  std::uint64_t begin = 0;
  for (const TensorHeader& t : tensors) {
    std::uint64_t end = begin + element_bytes(t.element);
    for (const std::int64_t length : t.shape)
      end = begin + (end - begin) * static_cast<std::uint64_t>(length);
    const char* const dtype = t.element == Element::f16    ? "F16"
                              : t.element == Element::bf16 ? "BF16"
                              : t.element == Element::f64  ? "F64"
                                                           : "F32";
    object[t.name] = {{"dtype", dtype}, {"shape", t.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string header = object.dump();
  constexpr std::size_t alignment = 8;
  header.append((alignment - header.size() % alignment) % alignment, ' ');
  std::string text;
  for (std::size_t i = 0; i < 8; ++i) text += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return text + header;
}

}  // namespace runmax::files
