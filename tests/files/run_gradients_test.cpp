// `runmax run --dout`: gradients of arrays in files.
#include <cmath>
#include <nlohmann/json.hpp>

#include "files/input_file.hpp"
#include "files/run_case.hpp"
#include "files/safetensors.hpp"
#include "problem/format16.hpp"
#include "runmax/tensor.hpp"

namespace runmax::cli {
namespace {

class RunGradients : public Run {
 protected:
  void put_values(const std::string& name, const Shape& shape, const std::vector<float>& values) const {
    put(name, files::npy_header(shape) + files::raw(values));
  }
  // Case O-002 without its mask: two rows, two keys, one channel.
  void put_hand() {
    put_values("q.npy", {2, 1}, {1, 1});
    put_values("k.npy", {2, 1}, {0, 0});
    put_values("v.npy", {2, 1}, {2, 6});
    put_values("dout.npy", {2, 1}, {1, 1});
    arguments.dout = at("dout.npy");
    arguments.dq = at("dq.npy");
    arguments.dk = at("dk.npy");
    arguments.dv = at("dv.npy");
  }
};

TEST_F(RunGradients, OfAHandMadeHeadAreWrittenBesideTheOutput) {
  put_hand();
  const Outcome outcome = run();
  ASSERT_EQ(outcome.code, ExitCode::done) << outcome.error;
  EXPECT_NE(outcome.out.find("dq.npy: dq (2, 1)"), std::string::npos) << outcome.out;
  EXPECT_EQ(read("o.npy").values, (std::vector<float>{4, 4}));
  EXPECT_EQ(read("dq.npy").values, (std::vector<float>{0, 0}));
  EXPECT_EQ(read("dk.npy").values, (std::vector<float>{-2, 2}));
  EXPECT_EQ(read("dv.npy").values, (std::vector<float>{1, 1}));
}

TEST_F(RunGradients, HaveTheTypeOfTheInputs) {
  put_hand();
  const auto put_as = [&](files::Element element, auto convert) {
    for (const char* name : {"q.npy", "k.npy", "v.npy", "dout.npy"}) {
      std::vector<decltype(convert(0.0f))> values;
      for (const float value : std::vector<float>(read(name).values)) values.push_back(convert(value));
      put(name, files::npy_header({2, 1}, element) + files::raw(values));
    }
  };
  const auto expect_gradients = [&](files::Element element) {
    const Outcome outcome = run();
    ASSERT_EQ(outcome.code, ExitCode::done) << outcome.error;
    for (const auto& [name, want] :
         {std::pair{"dq.npy", std::vector<float>{0, 0}}, std::pair{"dk.npy", std::vector<float>{-2, 2}},
          std::pair{"dv.npy", std::vector<float>{1, 1}}}) {
      EXPECT_EQ(read(name).values, want) << name;
      EXPECT_EQ(read(name).stored, element) << name;
    }
  };
  put_as(files::Element::f16, [](float x) { return encode16(format_f16, static_cast<double>(x)); });
  expect_gradients(files::Element::f16);
  put_as(files::Element::f64, [](float x) { return static_cast<double>(x); });
  expect_gradients(files::Element::f64);
  // dout is one of the arrays, and must have their type.
  put_values("dout.npy", {2, 1}, {1, 1});
  EXPECT_EQ(
      refusal(),
      "--dout dout.npy: must have the type of q, got f32 and f64; --dtype f32 computes all of them in FP32");
  arguments.dtype = "f32";
  expect_gradients(files::Element::f32);
}

TEST_F(RunGradients, OfPackedSequencesLieAsTheyDo) {
  // Two sequences of one row and one key: each key gets its row's dO, whatever the other's.
  put_hand();
  std::string header = files::npy_header({3});
  header.replace(header.find("<f4"), 3, "<i4");
  put("cu.npy", header + files::raw(std::vector<std::int32_t>{0, 1, 2}));
  put_values("dout.npy", {2, 1, 1}, {3, 5});
  put_values("q.npy", {2, 1, 1}, {1, 1});
  put_values("k.npy", {2, 1, 1}, {0, 0});
  put_values("v.npy", {2, 1, 1}, {2, 6});
  arguments.cu_seqlens_q = arguments.cu_seqlens_k = at("cu.npy");
  const Outcome outcome = run();
  ASSERT_EQ(outcome.code, ExitCode::done) << outcome.error;
  EXPECT_EQ(read("dv.npy").values, (std::vector<float>{3, 5}));
  EXPECT_EQ(read("dv.npy").shape, (Shape{2, 1, 1}));
  EXPECT_EQ(read("dk.npy").values, (std::vector<float>{0, 0}));
}

TEST_F(RunGradients, FollowTheLayoutOfTheInputsAndSumOverTheGroup) {
  // (length, heads, dim) and (heads, length, dim) hold the same numbers in other places.
  const std::int64_t length = 5, heads = 4, kv_heads = 2, dim = 3;
  const auto fill = [&](const std::string& name, std::int64_t h_count, Layout layout, float offset) {
    std::vector<float> values(static_cast<std::size_t>(length * h_count * dim));
    for (std::int64_t i = 0; i < length; ++i)
      for (std::int64_t h = 0; h < h_count; ++h)
        for (std::int64_t c = 0; c < dim; ++c)
          values[static_cast<std::size_t>(layout == Layout::bshd ? (i * h_count + h) * dim + c
                                                                 : (h * length + i) * dim + c)] =
              std::sin(offset + static_cast<float>(i * 17 + h * 5 + c));
    put_values(name, layout == Layout::bshd ? Shape{length, h_count, dim} : Shape{h_count, length, dim},
               values);
  };
  put_hand();
  arguments.causal = true;
  std::vector<float> dk[2];
  for (const Layout layout : {Layout::bshd, Layout::bhsd}) {
    arguments.layout = layout == Layout::bshd ? "bshd" : "bhsd";
    fill("q.npy", heads, layout, 0);
    fill("k.npy", kv_heads, layout, 1);
    fill("v.npy", kv_heads, layout, 2);
    fill("dout.npy", heads, layout, 3);
    const Outcome outcome = run();
    ASSERT_EQ(outcome.code, ExitCode::done) << outcome.error;
    const files::FloatArray got = read("dk.npy");
    EXPECT_EQ(got.shape,
              (layout == Layout::bshd ? Shape{length, kv_heads, dim} : Shape{kv_heads, length, dim}));
    for (std::int64_t h = 0; h < kv_heads; ++h)
      for (std::int64_t i = 0; i < length; ++i)
        for (std::int64_t c = 0; c < dim; ++c)
          dk[layout == Layout::bhsd].push_back(got.values[static_cast<std::size_t>(
              layout == Layout::bshd ? (i * kv_heads + h) * dim + c : (h * length + i) * dim + c)]);
  }
  EXPECT_EQ(dk[0], dk[1]);
  EXPECT_TRUE(std::any_of(dk[0].begin(), dk[0].end(), [](float x) { return x != 0; }));
}

TEST_F(RunGradients, OfABiasAndASink) {
  put_values("q.npy", {1, 1}, {0});
  put_values("k.npy", {2, 1}, {0, 0});
  put_values("v.npy", {2, 1}, {0, 1});
  put_values("dout.npy", {1, 1}, {1});
  put_values("bias.npy", {1, 2}, {0, 0});
  put_values("sink.npy", {1}, {0});
  arguments.dout = at("dout.npy");
  arguments.bias = at("bias.npy");
  arguments.dbias = at("dbias.npy");
  ASSERT_EQ(run().code, ExitCode::done);
  EXPECT_EQ(read("dbias.npy").values, (std::vector<float>{-0.25f, 0.25f}));
  EXPECT_EQ(names().count("dq.npy"), 0u) << "what is not asked for is not written";
  // Three equal scores: weights of a third, O = delta = 1/3.
  arguments.sink = at("sink.npy");
  arguments.dsink = at("dsink.npy");
  ASSERT_EQ(run().code, ExitCode::done);
  EXPECT_NEAR(read("dsink.npy").values[0], -1.0 / 9, 1e-7);
  EXPECT_NEAR(read("dbias.npy").values[1], 2.0 / 9, 1e-7);
}

TEST_F(RunGradients, OfSafetensorsStandInTheOneOutput) {
  const std::string header =
      files::safetensors_header({{"q", {2, 1}}, {"k", {2, 1}}, {"v", {2, 1}}, {"dout", {2, 1}}});
  put("in.safetensors", header + files::raw(std::vector<float>{1, 1, 0, 0, 2, 6, 1, 1}));
  arguments.q = arguments.k = arguments.v = "";
  arguments.in = at("in.safetensors");
  arguments.out = at("out.safetensors");
  const Outcome outcome = run();
  ASSERT_EQ(outcome.code, ExitCode::done) << outcome.error;
  const files::FileBytes file = files::read_file(at("out.safetensors")).value();
  const auto tensors = files::parse_safetensors(file.bytes()).value();
  EXPECT_EQ(files::tensor_to_f32(tensors, "dk").value().values, (std::vector<float>{-2, 2}));
  EXPECT_EQ(files::tensor_to_f32(tensors, "dv").value().values, (std::vector<float>{1, 1}));
  EXPECT_EQ(files::tensor_to_f32(tensors, "dq").value().values, (std::vector<float>{0, 0}));
}

TEST_F(RunGradients, AreRefusedByNameBeforeAnythingIsWritten) {
  put_hand();
  arguments.dout = "";
  EXPECT_EQ(refusal(), "--dq: needs --dout, the gradient of the output");
  put_hand();
  arguments.dq = arguments.dk = arguments.dv = "";
  EXPECT_EQ(refusal(), "--dout: needs a gradient to write; give --dq, --dk, --dv, --dbias or --dsink");
  put_hand();
  arguments.dbias = at("dbias.npy");
  EXPECT_EQ(refusal(), "--dbias: needs --bias");
  put_hand();
  arguments.dbias = "";
  arguments.dk = arguments.dq;
  EXPECT_EQ(refusal(), "--dk: dq.npy is also the output --dq");
  put_hand();
  arguments.dv = at("dout.npy");
  EXPECT_EQ(refusal(), "--dv: dout.npy is also the input --dout");
  put_hand();
  put_values("dout.npy", {1, 2}, {1, 1});
  EXPECT_EQ(refusal(), "--dout dout.npy: the shape of dout must be that of the output, (2, 1), got (1, 2)");
  put_hand();
  arguments.check = true;
  EXPECT_NE(refusal().find("runmax check PROBLEM --backward"), std::string::npos);
}

TEST_F(RunGradients, AreReportedInJson) {
  put_hand();
  arguments.json = true;
  const Outcome outcome = run();
  ASSERT_EQ(outcome.code, ExitCode::done) << outcome.error;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["backward"]["kernel"], "cpu_backward");
  EXPECT_EQ(json["outputs"].size(), 4u);
  EXPECT_EQ(json["outputs"][2]["name"], "dk");
}

}  // namespace
}  // namespace runmax::cli
