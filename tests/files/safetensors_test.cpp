// The safetensors reader and writer against bytes made by hand.
#include "files/safetensors.hpp"

#include <gtest/gtest.h>

#include "files/file_bytes.hpp"

namespace runmax::files {
namespace {

std::string error_of(const std::string& file) {
  Result<std::vector<TensorEntry>> tensors = parse_safetensors(bytes_of(file));
  return tensors.ok() ? "accepted" : tensors.status().message();
}

std::string error_of(const std::string& header, const std::string& data) {
  return error_of(safetensors_file(header, data));
}

std::string member(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets +
         "}";
}

const std::string eight(8, '\0');

TEST(Safetensors, TensorsOfEveryReadableTypeAreConverted) {
  const std::string header =
      "{" + member("a", "F32", "[2]", "[0,8]") + "," + member("b", "F16", "[1,2]", "[8,12]") + "," +
      member("c", "BF16", "[2]", "[12,16]") + "," + member("d", "F64", "[1]", "[16,24]") + "}";
  const std::string data = raw(std::vector<float>{1, -2}) + raw(std::vector<std::uint16_t>{0x3800, 0xc200}) +
                           raw(std::vector<std::uint16_t>{0x3f80, 0xc020}) + raw(std::vector<double>{0.25});
  const std::string file = safetensors_file(header, data);
  Result<std::vector<TensorEntry>> tensors = parse_safetensors(bytes_of(file));
  ASSERT_TRUE(tensors.ok()) << tensors.status().message();
  const auto values = [&](const char* name) { return tensor_to_f32(tensors.value(), name).value(); };
  EXPECT_EQ(values("a").values, (std::vector<float>{1, -2}));
  EXPECT_EQ(values("b").values, (std::vector<float>{0.5, -3}));
  EXPECT_EQ(values("b").shape, (Shape{1, 2}));
  EXPECT_EQ(values("c").values, (std::vector<float>{1, -2.5}));
  EXPECT_EQ(values("d").values, (std::vector<float>{0.25}));
  EXPECT_EQ(values("a").stored, Element::f32);
  EXPECT_EQ(values("b").stored, Element::f16);
  EXPECT_EQ(values("c").stored, Element::bf16);
  EXPECT_EQ(values("d").stored, Element::f64);
}

// O-099
TEST(Safetensors, ShapeTimesTypeMustBeTheByteRange) {
  EXPECT_EQ(error_of("{" + member("x", "F32", "[500,400]", "[0,8]") + "}", eight),
            "tensor 'x': shape (500, 400) of F32 needs 800000 bytes, data_offsets [0, 8] give 8");
}

// O-102
TEST(Safetensors, AShortRangeIsAnErrorNotAnAssertion) {
  EXPECT_EQ(error_of("{" + member("x", "F64", "[3]", "[0,8]") + "}", eight),
            "tensor 'x': shape (3,) of F64 needs 24 bytes, data_offsets [0, 8] give 8");
}

// O-100
TEST(Safetensors, TheHeaderLengthIsBoundedByTheFile) {
  EXPECT_EQ(error_of(little_endian(0xfffffffffffffffd, 8) + "{}"),
            "the header claims 18446744073709551613 bytes, but 2 follow");
  EXPECT_EQ(error_of(little_endian(11, 8) + "{}"), "the header claims 11 bytes, but 2 follow");
  EXPECT_EQ(error_of(little_endian(0, 8) + "{}"), "the header does not begin with '{'");
  EXPECT_EQ(error_of("12345"),
            "is not a .safetensors file: it has 5 bytes, the header's length alone needs 8");
  EXPECT_EQ(error_of(""), "is not a .safetensors file: it has 0 bytes, the header's length alone needs 8");
}

// O-101
TEST(Safetensors, EmptyAndScalarTensorsAndMetadataAreLegal) {
  const std::string header = "{\"__metadata__\":{\"format\":\"pt\",\"\":\"\"}," +
                             member("empty", "F32", "[0,4]", "[0,0]") + "," +
                             member("scalar", "F32", "[]", "[0,4]") + "}  ";
  const std::string file = safetensors_file(header, raw(std::vector<float>{7}));
  Result<std::vector<TensorEntry>> tensors = parse_safetensors(bytes_of(file));
  ASSERT_TRUE(tensors.ok()) << tensors.status().message();
  ASSERT_EQ(tensors.value().size(), 2u);
  EXPECT_EQ(tensor_to_f32(tensors.value(), "empty").value().shape, (Shape{0, 4}));
  EXPECT_TRUE(tensor_to_f32(tensors.value(), "empty").value().values.empty());
  EXPECT_EQ(tensor_to_f32(tensors.value(), "scalar").value().shape, Shape{});
  EXPECT_EQ(tensor_to_f32(tensors.value(), "scalar").value().values, std::vector<float>{7});
  EXPECT_EQ(error_of("{}", ""), "accepted");
}

TEST(Safetensors, MembersMayStandInAnyOrder) {
  EXPECT_EQ(
      error_of("{" + member("b", "F32", "[1]", "[4,8]") + "," + member("a", "F32", "[1]", "[0,4]") + "}",
               eight),
      "accepted");
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const std::string file = safetensors_file("{" + member("x", "F32", "[2]", "[0,8]") + "}", eight);
  for (std::size_t bytes = 0; bytes < file.size(); ++bytes)
    EXPECT_NE(error_of(file.substr(0, bytes)), "accepted") << "the first " << bytes << " bytes";
  EXPECT_EQ(error_of(file.substr(0, file.size() - 1)),
            "tensor 'x': data_offsets [0, 8] exceed the 7 bytes after the header");
}

TEST(Safetensors, UnknownFieldsOfATensorAreSkippedHoweverDeep) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_EQ(error_of("{\"x\":{\"extra\":{\"a\":[1,{}],\"b\":null},\"more\":" + deep +
                         ",\"dtype\":\"F32\",\"last\":2.5,\"shape\":[2],\"data_offsets\":[0,8]}}",
                     eight),
            "accepted");
}

TEST(Safetensors, OtherTypesMayStandInTheFileButNotBeRead) {
  const std::string file = safetensors_file("{" + member("ids", "I64", "[1]", "[0,8]") + "}", eight);
  Result<std::vector<TensorEntry>> tensors = parse_safetensors(bytes_of(file));
  ASSERT_TRUE(tensors.ok());
  EXPECT_EQ(tensor_to_f32(tensors.value(), "ids").status().message(),
            "tensor 'ids': dtype is I64; allowed are F32, F16, BF16 and F64");
  EXPECT_EQ(tensor_to_f32(tensors.value(), "q").status().message(),
            "tensor 'q' is missing; the file has 'ids'");
}

struct Broken {
  const char* name;
  std::string header;
  std::string error;
};
void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.name; }
class SafetensorsBroken : public testing::TestWithParam<Broken> {};

TEST_P(SafetensorsBroken, SaysWhatIsWrong) {
  EXPECT_EQ(error_of(GetParam().header, eight), GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(
    All, SafetensorsBroken,
    testing::Values(
        Broken{"Array", "[]", "the header does not begin with '{'"},
        Broken{"SpaceFirst", " {}", "the header does not begin with '{'"},
        Broken{"OnlyABrace", "{", "header: is not valid JSON at byte 2 of the header"},
        Broken{"TextAfterTheEnd", "{}x", "header: is not valid JSON at byte 3 of the header"},
        Broken{"NulAfterTheEnd", std::string("{}\0 ", 4),
               "header: is not valid JSON at byte 3 of the header"},
        Broken{"BadUtf8", "{\"x\xff\":1}", "header: is not valid JSON at byte 4 of the header"},
        Broken{"TensorIsANumber", "{\"x\":1}", "header: tensor 'x': must be an object"},
        Broken{"TensorIsAnArray", "{\"x\":[]}", "header: tensor 'x': must be an object"},
        Broken{"TensorIsNull", "{\"x\":null}", "header: tensor 'x': must be an object"},
        Broken{"NoDtype", "{\"x\":{}}", "header: tensor 'x': 'dtype' is missing"},
        Broken{"NoOffsets", "{\"x\":{\"dtype\":\"F32\",\"shape\":[2]}}",
               "header: tensor 'x': 'data_offsets' is missing"},
        Broken{"DtypeIsANumber", "{\"x\":{\"dtype\":3}}", "header: tensor 'x': 'dtype' must be a string"},
        Broken{"DtypeTwice", "{\"x\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}",
               "header: tensor 'x': 'dtype' stands twice"},
        Broken{"ShapeIsAString", "{\"x\":{\"shape\":\"2\"}}",
               "header: tensor 'x': 'shape' must be an array of integers of at least 0"},
        Broken{"NegativeLength", "{\"x\":{\"shape\":[-2]}}",
               "header: tensor 'x': 'shape' must be an array of integers of at least 0"},
        Broken{"FloatLength", "{\"x\":{\"shape\":[2.0]}}",
               "header: tensor 'x': 'shape' must be an array of integers of at least 0"},
        Broken{"NestedShape", "{\"x\":{\"shape\":[[2]]}}",
               "header: tensor 'x': 'shape' must be an array of integers of at least 0"},
        Broken{"LengthBeyond63Bits", "{\"x\":{\"shape\":[9223372036854775808]}}",
               "header: tensor 'x': a length of the shape exceeds 2^63 - 1"},
        Broken{"OneOffset", "{\"x\":{\"data_offsets\":[0]}}",
               "header: tensor 'x': 'data_offsets' must be two integers, [begin, end]"},
        Broken{"ThreeOffsets", "{\"x\":{\"data_offsets\":[0,4,8]}}",
               "header: tensor 'x': 'data_offsets' must be two integers, [begin, end]"},
        Broken{"OffsetsAreAnObject", "{\"x\":{\"data_offsets\":{}}}",
               "header: tensor 'x': 'data_offsets' must be two integers, [begin, end]"},
        Broken{"MetadataOfNumbers", "{\"__metadata__\":{\"a\":1}}",
               "header: '__metadata__' must be an object of strings"},
        Broken{"MetadataIsAnArray", "{\"__metadata__\":[]}",
               "header: '__metadata__' must be an object of strings"},
        Broken{"NameTwice",
               "{" + member("x", "F32", "[2]", "[0,8]") + "," + member("x", "F32", "[2]", "[0,8]") + "}",
               "header: the name 'x' stands twice"},
        Broken{"UnknownDtype", "{" + member("x", "F99", "[2]", "[0,8]") + "}",
               "tensor 'x': dtype 'F99' is unknown"},
        Broken{"RangeBackwards", "{" + member("x", "F32", "[2]", "[8,0]") + "}",
               "tensor 'x': data_offsets [8, 0] run backwards"},
        Broken{"HoleAtTheStart", "{" + member("x", "F32", "[2]", "[8,16]") + "}",
               "tensor 'x': data_offsets [8, 16] leave a hole after the bytes before 0"},
        Broken{"RangeBeyondTheFile", "{" + member("x", "F32", "[4]", "[0,16]") + "}",
               "tensor 'x': data_offsets [0, 16] exceed the 8 bytes after the header"},
        Broken{"DataNotCovered", "{" + member("x", "F32", "[1]", "[0,4]") + "}",
               "the tensors cover 4 of the 8 bytes after the header"},
        Broken{"Overlap",
               "{" + member("x", "F32", "[2]", "[0,8]") + "," + member("y", "F32", "[1]", "[4,8]") + "}",
               "tensor 'y': data_offsets [4, 8] overlap the bytes before 8"},
        Broken{"HalfBytes", "{" + member("x", "F4", "[3]", "[0,2]") + "}",
               "tensor 'x': shape (3,) of F4 is no whole number of bytes"},
        Broken{"ProductOverflows", "{" + member("x", "F32", "[4294967296,4294967296]", "[0,8]") + "}",
               "tensor 'x': shape (4294967296, 4294967296) of F32 exceeds 2^64 bits"},
        Broken{"HugeOffsets", "{" + member("x", "F32", "[2]", "[18446744073709551608,0]") + "}",
               "tensor 'x': data_offsets [18446744073709551608, 0] run backwards"}));

TEST(Safetensors, WhatIsWrittenIsReadBack) {
  const std::string header = safetensors_header({{"o", {2, 3}}, {"lse", {2}}, {"none", {0, 5}}});
  EXPECT_EQ(header.size() % 8, 0u);
  const std::string file = header + raw(std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7});
  Result<std::vector<TensorEntry>> tensors = parse_safetensors(bytes_of(file));
  ASSERT_TRUE(tensors.ok()) << tensors.status().message();
  EXPECT_EQ(tensor_to_f32(tensors.value(), "o").value().shape, (Shape{2, 3}));
  EXPECT_EQ(tensor_to_f32(tensors.value(), "lse").value().values, (std::vector<float>{6, 7}));
  EXPECT_EQ(tensor_to_f32(tensors.value(), "none").value().shape, (Shape{0, 5}));
}

}  // namespace
}  // namespace runmax::files
