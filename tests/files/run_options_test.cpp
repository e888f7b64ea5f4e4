// `runmax run` with masks, biases, slopes, sinks and dropout in files.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "files/input_file.hpp"
#include "files/run_case.hpp"
#include "files/safetensors.hpp"

namespace runmax::cli {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

std::string npy(const char* descr, const std::string& shape, const std::string& data,
                const char* fortran = "False") {
  return files::npy_file(1, 0, files::npy_dictionary(descr, fortran, shape), data);
}

using Bytes = std::vector<std::uint8_t>;

class RunOptions : public Run {
 protected:
  // Equal scores: a row's answer is the mean of what it sees of v_j = j.
  void put_equal(std::int64_t batch, std::int64_t heads, std::int64_t queries, std::int64_t keys) {
    arguments.layout = "bhsd";
    arguments.lse = at("lse.npy");
    const auto zeros = [](std::int64_t count) {
      return files::raw(std::vector<float>(static_cast<std::size_t>(count), 0.0f));
    };
    put("q.npy", files::npy_header({batch, heads, queries, 1}) + zeros(batch * heads * queries));
    put("k.npy", files::npy_header({batch, heads, keys, 1}) + zeros(batch * heads * keys));
    std::vector<float> v;
    for (std::int64_t h = 0; h < batch * heads; ++h)
      for (std::int64_t j = 0; j < keys; ++j) v.push_back(static_cast<float>(j));
    put("v.npy", files::npy_header({batch, heads, keys, 1}) + files::raw(v));
  }
  std::vector<float> o() {
    arguments.check = true;
    const Outcome outcome = run();
    EXPECT_EQ(outcome.code, ExitCode::done) << outcome.error << outcome.out;
    EXPECT_NE(outcome.out.find("check: accepted"), std::string::npos) << outcome.out;
    return outcome.code == ExitCode::done ? read("o.npy").values : std::vector<float>{};
  }
};

// O-106
TEST_F(RunOptions, TrueMeansMayAttend) {
  put_equal(1, 1, 1, 2);
  arguments.mask = at("mask.npy");
  for (const char* type : {"|b1", "|u1"}) {
    put("mask.npy", npy(type, "(1, 2)", files::raw(Bytes{0, 1})));
    EXPECT_EQ(o(), std::vector<float>{1});
    put("mask.npy", npy(type, "(2,)", files::raw(Bytes{1, 0})));
    EXPECT_EQ(o(), std::vector<float>{0});
  }
}

// O-107
TEST_F(RunOptions, SizesOfOneAreBroadcast) {
  put_equal(2, 2, 3, 4);
  arguments.mask = at("mask.npy");
  put("mask.npy", npy("|b1", "(2, 1, 1, 4)", files::raw(Bytes{1, 0, 0, 0, 1, 1, 1, 0})));
  EXPECT_EQ(o(), (std::vector<float>{0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(read("lse.npy").values[11], std::log(3.0f));
  put("mask.npy", npy("|b1", "(2, 4)", files::raw(Bytes(8, 1))));
  EXPECT_EQ(
      refusal(),
      "--mask mask.npy: the mask must be (batch, heads, queries, keys) = (2, 2, 3, 4), with 1 for what is "
      "broadcast and leading dimensions left out at will, got (2, 4)");
}

TEST_F(RunOptions, AFortranMaskIsHonoured) {
  put_equal(1, 1, 2, 3);
  arguments.mask = at("mask.npy");
  // Row 0 sees key 2, row 1 keys 0 and 1; column by column.
  put("mask.npy", npy("|b1", "(2, 3)", files::raw(Bytes{0, 1, 0, 1, 1, 0}), "True"));
  EXPECT_EQ(o(), (std::vector<float>{2, 0.5f}));
}

TEST_F(RunOptions, ABiasOfMinusInfinityHidesAndAFiniteOneDoesNot) {
  put_equal(1, 1, 2, 3);
  arguments.bias = at("bias.npy");
  const float lowest = std::numeric_limits<float>::lowest();
  put("bias.npy",
      npy("<f4", "(2, 3)", files::raw(std::vector<float>{-infinity, 0, -infinity, lowest, lowest, lowest})));
  EXPECT_EQ(o(), (std::vector<float>{1, 1}));
  EXPECT_EQ(read("lse.npy").values, (std::vector<float>{0, lowest}));
}

TEST_F(RunOptions, SlopesAndSinksAreOneANumberAHead) {
  put_equal(1, 2, 1, 2);
  arguments.alibi_slopes = at("slopes.npy");
  arguments.sink = at("sink.npy");
  // Head 0: distances 1 and 0 weigh 1/4 and 1, the sink 3/4. Head 1: no slope, no sink.
  const float ln2 = std::log(2.0f);
  put("slopes.npy", npy("<f4", "(2,)", files::raw(std::vector<float>{2 * ln2, 0})));
  put("sink.npy", npy("<f8", "(2,)", files::raw(std::vector<double>{std::log(0.75), -1e30})));
  const std::vector<float> got = o();
  ASSERT_EQ(got.size(), 2u);
  EXPECT_NEAR(got[0], 0.5, 1e-6);
  EXPECT_EQ(got[1], 0.5f);
  put("slopes.npy", npy("<f4", "(3,)", files::raw(std::vector<float>(3, 0.0f))));
  EXPECT_EQ(refusal(),
            "--alibi-slopes slopes.npy: slopes must be (heads) = (2,) or (batch, heads) = (1, 2), got (3,)");
  put("slopes.npy", npy("<f4", "(1, 2)", files::raw(std::vector<float>(2, 0.0f))));
  put("sink.npy", npy("<f4", "()", files::raw(std::vector<float>{0})));
  EXPECT_EQ(refusal(), "--sink sink.npy: the sink must be (heads) = (2,), got ()");
}

// O-077, O-078
TEST_F(RunOptions, DropoutScalesWhatItKeepsAndIsRepeated) {
  put_equal(1, 1, 64, 2);
  put("v.npy", files::npy_header({1, 1, 2, 1}) + files::raw(std::vector<float>{3, 3}));
  arguments.dropout = "0.25";
  arguments.dropout_seed = "18446744073709551615";
  const std::vector<float> first = o(), again = o();
  EXPECT_EQ(first, again);
  arguments.dropout_offset = "1";
  EXPECT_NE(o(), first);
  int kept[3] = {};
  for (const float value : first) {
    ASSERT_TRUE(value == 0 || value == 2 || value == 4) << value;
    ++kept[static_cast<int>(value / 2)];
  }
  EXPECT_GT(kept[1], 10);
  EXPECT_GT(kept[2], 20);
  arguments.dropout_seed = "-1";
  EXPECT_EQ(refusal(), "--dropout-seed: must be an integer from 0 to 2^64 - 1, got '-1'");
  arguments.dropout_seed = "";
  arguments.dropout = "1";
  EXPECT_EQ(refusal(), "dropout: must be in [0, 1), got 1.000000");
  arguments.dropout = "";
  EXPECT_EQ(refusal(), "--dropout-offset: needs --dropout");
}

TEST_F(RunOptions, FilesOfTheWrongTypeAreNamed) {
  put_equal(1, 1, 1, 2);
  arguments.mask = at("mask.npy");
  put("mask.npy", npy("<f4", "(1, 2)", files::raw(std::vector<float>{1, 1})));
  EXPECT_EQ(refusal(), "--mask mask.npy: dtype is '<f4'; allowed are '|b1' and '|u1'");
  arguments.mask = "";
  arguments.bias = at("bias.npy");
  put("bias.npy", npy("|b1", "(1, 2)", files::raw(Bytes{1, 1})));
  EXPECT_EQ(refusal(), "--bias bias.npy: dtype is '|b1'; allowed are '<f4', '<f2' and '<f8'");
  arguments.bias = at("nowhere.npy");
  EXPECT_EQ(refusal().rfind("--bias nowhere.npy: ", 0), 0u);
}

TEST_F(RunOptions, AnOptionIsNeverOverwritten) {
  put_equal(1, 1, 1, 2);
  put("mask.npy", npy("|b1", "(1, 2)", files::raw(Bytes{0, 1})));
  arguments.mask = arguments.out = at("mask.npy");
  EXPECT_EQ(refusal(), "--out: mask.npy is also the input --mask");
}

TEST_F(RunOptions, SafetensorsHoldThemUnderTheirNames) {
  const std::string header = R"({"q":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},)"
                             R"("k":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]},)"
                             R"("v":{"dtype":"F32","shape":[2,1],"data_offsets":[12,20]},)"
                             R"("bias":{"dtype":"BF16","shape":[2],"data_offsets":[20,24]},)"
                             R"("sink":{"dtype":"F32","shape":[1],"data_offsets":[24,28]},)"
                             R"("mask":{"dtype":"BOOL","shape":[1,2],"data_offsets":[28,30]}})";
  const auto file = [&](const Bytes& mask, const std::string& text) {
    return files::safetensors_file(text, files::raw(std::vector<float>{0, 0, 0, 2, 6}) +
                                             files::raw(std::vector<std::uint16_t>{0, 0}) +
                                             files::raw(std::vector<float>{0}) + files::raw(mask));
  };
  arguments.q = arguments.k = arguments.v = "";
  arguments.in = at("in.safetensors");
  arguments.out = at("out.safetensors");
  arguments.check = arguments.json = true;
  put("in.safetensors", file({0, 1}, header));
  const Outcome outcome = run();
  ASSERT_EQ(outcome.code, ExitCode::done) << outcome.error << outcome.out;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["problem"], "q1:k2:d1:sink:mask:bias");
  EXPECT_TRUE(json["accepted"]);
  EXPECT_EQ(json["inputs"][3]["name"], "mask");
  EXPECT_EQ(json["inputs"].size(), 6u);
  const files::FileBytes written = files::read_file(at("out.safetensors")).value();
  const auto tensors = files::parse_safetensors(written.bytes()).value();
  EXPECT_EQ(files::tensor_to_f32(tensors, "o").value().values, std::vector<float>{3});
  std::string wrong = header;
  wrong.replace(wrong.find("BOOL"), 4, "I8");
  put("in.safetensors", file({0, 1}, wrong));
  EXPECT_EQ(refusal(), "--in in.safetensors: tensor 'mask': dtype is I8; allowed are BOOL and U8");
  arguments.mask = at("mask.npy");
  EXPECT_EQ(
      refusal(),
      "--mask: with --in, masks, biases, slopes and sinks are its tensors 'mask', 'bias', 'alibi_slopes' and "
      "'sink'; leave --mask out");
}

}  // namespace
}  // namespace runmax::cli
