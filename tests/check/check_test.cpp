// `runmax check` itself: right answers are accepted, and each way of being wrong is rejected by name.
#include "check/check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "reference/reference.hpp"

namespace runmax::check {
namespace {

DeviceFacts cpu() { return device_facts({DeviceKind::cpu, 0}).value(); }

Problem problem(const std::string& text) { return parse_problem(text).value(); }

// A right answer of the plain CPU path, to be spoiled, and the way to judge it.
struct Trial {
  Problem p;
  inputs::HostInputs drawn;
  std::vector<Answer> answers;

  explicit Trial(const std::string& text) : p(problem(text)), drawn(inputs::draw(p)) {
    Result<Answer> answer =
        run_kernel(p, cpu(), {.kernel = "cpu_lesson_online"},
                   packed_tensor({p.batch, p.query_heads, p.query_len, p.head_dim}, drawn.q),
                   packed_tensor({p.batch, p.kv_heads, p.kv_len, p.head_dim}, drawn.k),
                   packed_tensor({p.batch, p.kv_heads, p.kv_len, p.value_dim}, drawn.v));
    answers.push_back(answer.value());
  }

  CheckReport judge() const {
    CheckReport report;
    report.problem = p;
    report.facts = cpu();
    report.rows_compared = p.query_len;
    report.kernels.resize(1);
    report.kernels[0].kernel = "cpu_lesson_online";
    report.kernels[0].trespass = answers[0].trespass;
    report.kernels[0].repeat = repeat_command(p, cpu(), {}, "cpu_lesson_online");
    judge_answers(p, drawn, reference::all_rows(p.query_len), 2, answers, report.kernels, {});
    return report;
  }
};

TEST(Check, AcceptsARightAnswer) {
  Result<CheckReport> report =
      check_problem(problem("b2:hq4:hk2:q65:k97:d33:causal"), cpu(), {.kernel = "all"});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report.value().accepted()) << describe(report.value());
}

TEST(Check, RejectsOneWrongElementWithPlaceBoundAndCommand) {
  Trial trial("hq4:hk2:q33:d8:seed=7");
  EXPECT_TRUE(trial.judge().accepted()) << describe(trial.judge());
  trial.answers[0].o.at(0, 3, 17, 5) *= 1.1f;
  const CheckReport report = trial.judge();
  EXPECT_FALSE(report.accepted());
  const std::string text = describe(report);
  EXPECT_NE(text.find("lesson gate: FAILED o[0,3,17,5] got "), std::string::npos) << text;
  EXPECT_NE(text.find("(query row 17, head dimension 5; first of 1"), std::string::npos) << text;
  EXPECT_NE(text.find("repeat: runmax check hq4:hk2:q33:d8:seed=7 --device cpu --kernel cpu_lesson_online\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("rtol max(1e-5, 4*2^-23*sqrt(33)) = 1.000e-05"), std::string::npos) << text;
}

TEST(Check, AGateThatIsNotAppliedIsSaid) {
  const auto text_of = [](const std::string& text) {
    return describe(check_problem(problem(text), cpu(), {.kernel = "cpu_online"}).value());
  };
  EXPECT_NE(text_of("q9:d8").find(
                "not applied: second bar: needs 256 rows where the plain FP32 path is finite, got 9"),
            std::string::npos);
  EXPECT_NE(text_of("q256:d8").find("second bar: passed"), std::string::npos);
  EXPECT_NE(text_of("q256:d8:in=hot").find("not applied: lesson gate: is not meant for in=hot"),
            std::string::npos);
}

TEST(Check, ARejectionOutsideOfTheRangeSaysSo) {
  Result<CheckReport> scores = check_problem(problem("q4:d64:scale=1e38"), cpu(), {});
  ASSERT_TRUE(scores.ok()) << scores.status().message();
  EXPECT_FALSE(scores.value().accepted());
  EXPECT_NE(describe(scores.value()).find("from 2^127 on a score does not fit FP32"), std::string::npos)
      << describe(scores.value());

  Trial values("q4:d8");
  for (float& value : values.drawn.v) value = 3e38f;
  for (float& value : values.answers[0].o.storage) value = std::numeric_limits<float>::infinity();
  EXPECT_NE(describe(values.judge()).find("kv_len * max |v| reaches 2^129"), std::string::npos)
      << describe(values.judge());
}

TEST(Check, RejectsOneNaN) {
  Trial trial("q33:d8");
  trial.answers[0].o.at(0, 0, 32, 7) = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(trial.judge().accepted());
  EXPECT_NE(describe(trial.judge()).find("finiteness gate: FAILED o[0,0,32,7]"), std::string::npos);
}

TEST(Check, RejectsAWrongLse) {
  Trial trial("q33:d8");
  trial.answers[0].lse.at(0, 0, 1) += 1e-3f;
  EXPECT_FALSE(trial.judge().accepted());
  EXPECT_NE(describe(trial.judge()).find("lse gate: FAILED lse[0,0,1]"), std::string::npos);
}

TEST(Check, RejectsAFiniteLseOfAnEmptyRow) {
  Trial trial("q4:k2:d8:causal");
  EXPECT_TRUE(trial.judge().accepted()) << describe(trial.judge());
  trial.answers[0].lse.at(0, 0, 0) = -1e30f;
  EXPECT_FALSE(trial.judge().accepted());
}

TEST(Check, ARefusedOptionIsNamedAndIsNotAPass) {
  Result<CheckReport> report = check_problem(problem("q8:d8:softcap=30:e4m3"), cpu(), {.kernel = "all"});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.status().code(), StatusCode::unsupported);
  EXPECT_NE(report.status().message().find("dtype e4m3 is not served"), std::string::npos)
      << report.status().message();
}

TEST(Check, AProblemWithoutRowsIsNotAPass) {
  Result<CheckReport> report = check_problem(problem("q0:k8:d8"), cpu(), {.kernel = "cpu_lesson_online"});
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.status().message().find("nothing to compare"), std::string::npos);
}

TEST(Check, SampledRowsAreSaid) {
  Result<CheckReport> report =
      check_problem(problem("q300:d8"), cpu(), {.kernel = "cpu_lesson_online", .rows = 20});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report.value().rows_compared, 20);
  EXPECT_NE(describe(report.value()).find("20 of 300 query rows of each head compared (sampled"),
            std::string::npos);
  EXPECT_NE(report.value().kernels[0].repeat.find("--rows 20"), std::string::npos);
}

// The traps of the runner, sprung by launches that misbehave.
class Trap : public ::testing::Test {
 protected:
  std::string trespass_of(const Launch& launch) {
    HostTensor o = packed_tensor({1, 1, 3, 2});
    o.strides = {100, 100, 4, 1};
    o.storage.resize(12);
    const HostTensor in = packed_tensor({1, 1, 3, 2}), lse = packed_tensor({1, 1, 3, 1});
    return run_trapped({}, 128, in, in, in, o, lse, launch).value().trespass;
  }
};

TEST_F(Trap, GoodManners) {
  EXPECT_EQ(trespass_of([](const Tensors& t, Workspace w) {
              static_cast<float*>(t.o.data)[5] = 1;
              static_cast<unsigned char*>(w.data)[127] = 1;
              return Status();
            }),
            "");
}

TEST_F(Trap, AWritePastTheOutputIsSeen) {
  EXPECT_EQ(trespass_of([](const Tensors& t, Workspace) {
              static_cast<float*>(t.lse.data)[3] = 1;
              return Status();
            }),
            "lse: a byte was written 0 past the end of the buffer");
}

TEST_F(Trap, AWriteBeforeTheWorkspaceIsSeen) {
  EXPECT_EQ(trespass_of([](const Tensors&, Workspace w) {
              static_cast<unsigned char*>(w.data)[-1] = 1;
              return Status();
            }),
            "workspace: a byte was written 1 before the start of the buffer");
}

TEST_F(Trap, AWriteBetweenTheOutputsElementsIsSeen) {
  EXPECT_EQ(trespass_of([](const Tensors& t, Workspace) {
              static_cast<float*>(t.o.data)[2] = 1;
              return Status();
            }),
            "o: the padding between its elements was written, at element 2 of its memory");
}

TEST_F(Trap, AChangedInputIsSeen) {
  EXPECT_EQ(trespass_of([](const Tensors& t, Workspace) {
              static_cast<float*>(t.k.data)[1] = 1;
              return Status();
            }),
            "k: the input was changed");
}

TEST_F(Trap, OutputsAndWorkspaceArePoisonedFirst) {
  bool poisoned = true;
  EXPECT_EQ(trespass_of([&](const Tensors& t, Workspace w) {
              const float o = static_cast<float*>(t.o.data)[0];
              poisoned = o != o && static_cast<unsigned char*>(w.data)[0] == 0xFF;
              return Status();
            }),
            "");
  EXPECT_TRUE(poisoned);
}

}  // namespace
}  // namespace runmax::check
