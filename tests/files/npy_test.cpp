// The .npy reader and writer against bytes made by hand.
#include "files/npy.hpp"

#include <gtest/gtest.h>

#include "files/file_bytes.hpp"

namespace runmax::files {
namespace {

const std::vector<float> six{0, 1, 2, 3, 4, 5};

std::string plain_file() { return npy_file(1, 0, npy_dictionary("<f4", "False", "(2, 3)"), raw(six)); }

Result<FloatArray> converted(const std::string& file) {
  Result<NpyView> view = parse_npy(bytes_of(file));
  if (!view.ok()) return view.status();
  const NpyView& v = view.value();
  return to_f32(v.data, v.element, v.shape, v.order);
}

std::string error_of(const std::string& file) {
  Result<NpyView> view = parse_npy(bytes_of(file));
  return view.ok() ? "accepted" : view.status().message();
}

std::string error_of_header(const std::string& header) { return error_of(npy_file(1, 0, header, raw(six))); }

class NpyVersion : public testing::TestWithParam<int> {};

// O-096
TEST_P(NpyVersion, EachPublishedVersionGivesTheSameArray) {
  Result<FloatArray> array =
      converted(npy_file(GetParam(), 0, npy_dictionary("<f4", "False", "(2, 3)"), raw(six)));
  ASSERT_TRUE(array.ok()) << array.status().message();
  EXPECT_EQ(array.value().shape, (Shape{2, 3}));
  EXPECT_EQ(array.value().values, six);
  EXPECT_EQ(array.value().stored, Element::f32);
}
INSTANTIATE_TEST_SUITE_P(All, NpyVersion, testing::Values(1, 2, 3));

// O-096
TEST(Npy, UnknownVersionsAreRefused) {
  const std::string header = npy_dictionary("<f4", "False", "(2, 3)");
  EXPECT_EQ(error_of(npy_file(9, 0, header, raw(six))), "version 9.0 is not one of 1.0, 2.0, 3.0");
  EXPECT_EQ(error_of(npy_file(1, 1, header, raw(six))), "version 1.1 is not one of 1.0, 2.0, 3.0");
  EXPECT_EQ(error_of(npy_file(0, 0, header, raw(six))), "version 0.0 is not one of 1.0, 2.0, 3.0");
}

// O-097
TEST(Npy, FortranOrderIsHonoured) {
  Result<FloatArray> array = converted(npy_file(1, 0, npy_dictionary("<f4", "True", "(2, 3)"), raw(six)));
  ASSERT_TRUE(array.ok());
  EXPECT_EQ(array.value().values[0 * 3 + 1], 2.0f);
  EXPECT_EQ(array.value().values[1 * 3 + 0], 1.0f);
  EXPECT_EQ(array.value().values, (std::vector<float>{0, 2, 4, 1, 3, 5}));
}

// O-098
TEST(Npy, HalvesAndDoublesAreConverted) {
  Result<FloatArray> doubles =
      converted(npy_file(1, 0, npy_dictionary("<f8", "False", "(2,)"), raw(std::vector<double>{0.5, -3})));
  ASSERT_TRUE(doubles.ok());
  EXPECT_EQ(doubles.value().values, (std::vector<float>{0.5f, -3.0f}));
  EXPECT_EQ(doubles.value().stored, Element::f64);
  Result<FloatArray> halves = converted(npy_file(1, 0, npy_dictionary("<f2", "False", "(2,)"),
                                                 raw(std::vector<std::uint16_t>{0x3800, 0xc200})));
  ASSERT_TRUE(halves.ok());
  EXPECT_EQ(halves.value().values, (std::vector<float>{0.5f, -3.0f}));
  EXPECT_EQ(halves.value().stored, Element::f16);
}

class NpyRefusedType : public testing::TestWithParam<const char*> {};

// O-098
TEST_P(NpyRefusedType, IsNamedBesideTheAllowedTypes) {
  const std::string descr = GetParam();
  const std::string error = error_of_header(npy_dictionary(descr, "False", "(2, 3)"));
  EXPECT_EQ(error.rfind("dtype is '" + descr + "'", 0), 0u) << error;
  EXPECT_NE(error.find("allowed are '<f4', '<f2' and '<f8'"), std::string::npos) << error;
}
INSTANTIATE_TEST_SUITE_P(All, NpyRefusedType,
                         testing::Values(">f4", ">f8", "<i8", "|b1", "<c8", "|O", "=f4", "|f4", "f4", "<f16",
                                         "<U3", "float32", "", "<M8"));

TEST(Npy, BigEndianAndObjectsAreCalledSo) {
  EXPECT_EQ(error_of_header(npy_dictionary(">f4", "False", "(2, 3)")),
            "dtype is '>f4' (big-endian); allowed are '<f4', '<f2' and '<f8'");
  EXPECT_EQ(error_of_header(npy_dictionary("|O", "False", "(2, 3)")),
            "dtype is '|O' (Python objects); allowed are '<f4', '<f2' and '<f8'");
  EXPECT_EQ(error_of_header("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2, 3)}"),
            "dtype is structured; allowed are '<f4', '<f2' and '<f8'");
}

TEST(Npy, ScalarsAndEmptyArraysAreLegal) {
  Result<FloatArray> scalar =
      converted(npy_file(1, 0, npy_dictionary("<f4", "False", "()"), raw(std::vector<float>{7})));
  ASSERT_TRUE(scalar.ok()) << scalar.status().message();
  EXPECT_EQ(scalar.value().shape, Shape{});
  EXPECT_EQ(scalar.value().values, std::vector<float>{7});
  Result<FloatArray> empty = converted(npy_file(1, 0, npy_dictionary("<f8", "True", "(0, 4)"), ""));
  ASSERT_TRUE(empty.ok()) << empty.status().message();
  EXPECT_EQ(empty.value().shape, (Shape{0, 4}));
  EXPECT_TRUE(empty.value().values.empty());
}

TEST(Npy, KeysMayStandInAnyOrderQuotesAndSpacing) {
  EXPECT_EQ(error_of_header("{\"shape\":(2,3),'fortran_order' :False\n,\t\"descr\" : \"<f4\"}   \n"),
            "accepted");
  EXPECT_EQ(error_of_header("{'shape': (2L, 3L), 'fortran_order': False, 'descr': '<f4'}"), "accepted");
}

TEST(Npy, EveryTruncationIsAnError) {
  const std::string file = plain_file();
  for (std::size_t bytes = 0; bytes < file.size(); ++bytes) {
    Result<NpyView> view = parse_npy(bytes_of(file.substr(0, bytes)));
    EXPECT_FALSE(view.ok()) << "the first " << bytes << " of " << file.size() << " bytes were accepted";
  }
  EXPECT_EQ(error_of(""), "is truncated: the version needs 8 bytes, the file has 0");
  EXPECT_EQ(error_of(file.substr(0, file.size() - 1)),
            "shape (2, 3) of f32 needs 24 bytes after the header, the file has 23");
}

TEST(Npy, TrailingGarbageIsAnError) {
  EXPECT_EQ(error_of(plain_file() + "x"),
            "shape (2, 3) of f32 needs 24 bytes after the header, the file has 25");
}

TEST(Npy, AHeaderLongerThanTheFileIsRefusedByItsClaim) {
  const std::string huge = std::string("\x93NUMPY\x02\x00", 8) + "\xff\xff\xff\xff" + "{}";
  EXPECT_EQ(error_of(huge), "is truncated: the header needs 4294967307 bytes, the file has 14");
}

struct BrokenHeader {
  const char* name;
  const char* header;
  const char* error;
};
void PrintTo(const BrokenHeader& broken, std::ostream* out) { *out << broken.name; }
class NpyBrokenHeader : public testing::TestWithParam<BrokenHeader> {};

TEST_P(NpyBrokenHeader, SaysWhatIsWrong) { EXPECT_EQ(error_of_header(GetParam().header), GetParam().error); }

INSTANTIATE_TEST_SUITE_P(
    All, NpyBrokenHeader,
    testing::Values(
        BrokenHeader{"Empty", "", "header: expected '{' at byte 0, got the end"},
        BrokenHeader{"List", "[]", "header: expected '{' at byte 0, got '['"},
        BrokenHeader{"OnlyABrace", "{", "header: expected a key in quotes or '}' at byte 1, got the end"},
        BrokenHeader{"NoKeys", "{}", "header: the key 'descr' is missing"},
        BrokenHeader{"NoFortranOrder", "{'descr': '<f4', 'shape': (2, 3)}",
                     "header: the key 'fortran_order' is missing"},
        BrokenHeader{"NoShape", "{'descr': '<f4', 'fortran_order': False}",
                     "header: the key 'shape' is missing"},
        BrokenHeader{"DescrTwice",
                     "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
                     "header: the key 'descr' stands twice"},
        BrokenHeader{"UnknownKey", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}",
                     "header key 'more' is not one of 'descr', 'fortran_order', 'shape'"},
        BrokenHeader{"NumberForOrder", "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 3)}",
                     "header: expected True or False for 'fortran_order' at byte 34, got '0'"},
        BrokenHeader{"ListForShape", "{'descr': '<f4', 'fortran_order': False, 'shape': [2, 3]}",
                     "header: expected a tuple for 'shape' at byte 50, got '['"},
        BrokenHeader{"NoCommaInShape", "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
                     "header: expected ',' or ')' in 'shape' at byte 53, got '3'"},
        BrokenHeader{"ShapeIsAnInteger", "{'descr': '<f4', 'fortran_order': False, 'shape': (6)}",
                     "shape: one length needs a comma, as in (3,)"},
        BrokenHeader{"FloatInShape", "{'descr': '<f4', 'fortran_order': False, 'shape': (2.0, 3)}",
                     "header: expected ',' or ')' in 'shape' at byte 52, got '.'"},
        BrokenHeader{"CommaFirstInShape", "{'descr': '<f4', 'fortran_order': False, 'shape': (, 3)}",
                     "header: expected an integer or ')' in 'shape' at byte 51, got ','"},
        BrokenHeader{"LeadingZero", "{'descr': '<f4', 'fortran_order': False, 'shape': (02, 3)}",
                     "header: expected an integer without leading zeros in 'shape' at byte 51, got '0'"},
        BrokenHeader{"NegativeLength", "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3)}",
                     "shape: lengths must be at least 0, got -2 for dimension 0"},
        BrokenHeader{"LengthBeyond64Bits",
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 99999999999999999999)}",
                     "shape: a length exceeds 2^63 - 1"},
        BrokenHeader{"ProductOverflows",
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
                     "shape (4294967296, 4294967296) of f32 exceeds 2^63 bytes"},
        BrokenHeader{"ProductOverflowsBesideZero",
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9223372036854775807)}",
                     "shape (0, 9223372036854775807) of f32 exceeds 2^63 bytes"},
        BrokenHeader{
            "ClaimsTerabytes", "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000)}",
            "shape (1000000, 1000000) of f32 needs 4000000000000 bytes after the header, the file has "
            "24"},
        BrokenHeader{"TextAfterTheEnd", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} x",
                     "header: expected nothing but spaces after '}' at byte 58, got 'x'"},
        BrokenHeader{"UnclosedQuote", "{'descr': '<f4 'fortran_order': False, 'shape': (2, 3)}",
                     "dtype is '<f4 '; allowed are '<f4', '<f2' and '<f8'"},
        BrokenHeader{"UnclosedShape", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3",
                     "header: expected ',' or ')' in 'shape' at byte 55, got the end"},
        BrokenHeader{"UnprintableType", "{'descr': '\n\x01\xff', 'fortran_order': False, 'shape': (2, 3)}",
                     "dtype is '?\?\?'; allowed are '<f4', '<f2' and '<f8'"}));

TEST(Npy, MoreDimensionsThanNumpyHasAreRefused) {
  std::string shape = "(";
  for (int i = 0; i < 65; ++i) shape += "1, ";
  EXPECT_EQ(error_of_header(npy_dictionary("<f4", "False", shape + ")")), "shape: more than 64 dimensions");
}

TEST(Npy, OtherFilesAreNotTakenForOne) {
  EXPECT_EQ(error_of("PK\x03\x04 a zip archive"), "is not a .npy file: it does not begin with \\x93NUMPY");
}

TEST(Npy, ALongHeaderNeedsVersionTwo) {
  std::string header = npy_dictionary("<f4", "False", "(2, 3)");
  header.insert(0, 70000, ' ');
  EXPECT_EQ(error_of(npy_file(2, 0, header, raw(six))), "accepted");
}

TEST(Npy, WhatIsWrittenIsReadBack) {
  for (const Shape& shape : {Shape{}, Shape{6}, Shape{2, 3}, Shape{1, 2, 3, 1}, Shape{0, 7}}) {
    std::uint64_t count = 0;
    ASSERT_TRUE(count_elements(shape, 100, count));
    const std::vector<float> values(six.begin(), six.begin() + static_cast<std::ptrdiff_t>(count));
    const std::string header = npy_header(shape);
    EXPECT_EQ(header.size() % 64, 0u);
    EXPECT_EQ(header.back(), '\n');
    Result<FloatArray> array = converted(header + raw(values));
    ASSERT_TRUE(array.ok()) << array.status().message();
    EXPECT_EQ(array.value().shape, shape);
    EXPECT_EQ(array.value().values, values);
  }
}

TEST(Npy, AMissingFileAndADirectoryAreErrorsWithTheirPath) {
  EXPECT_EQ(read_npy("/no/such/q.npy").status().message(),
            "/no/such/q.npy: cannot be opened: No such file or directory");
  EXPECT_EQ(read_npy("/").status().message(), "/: is not a regular file");
  EXPECT_EQ(read_npy("/dev/zero").status().message(), "/dev/zero: is not a regular file");
}

}  // namespace
}  // namespace runmax::files
