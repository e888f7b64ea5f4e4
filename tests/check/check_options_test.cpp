// A kernel that leaves an option out is rejected on the drawn data, and told which.
#include <gtest/gtest.h>

#include "check/check.hpp"
#include "check/forms.hpp"
#include "reference/reference.hpp"

namespace runmax::check {
namespace {

struct Left {
  const char* option;
  const char* hint;
};

class CheckOptions : public ::testing::TestWithParam<Left> {};

Problem problem_of(const std::string& text) { return parse_problem(text).value(); }

TEST_P(CheckOptions, AnOptionThatIsLeftOutIsNoticedAndNamed) {
  const std::string base = "b2:hq4:hk2:q40:k70:d16:seed=3";
  const Problem asked = problem_of(base + ":" + GetParam().option), done = problem_of(base);
  const DeviceFacts facts = device_facts({}).value();
  Result<Answer> answer =
      run_kernel(done, facts, {}, form_operands(done, inputs::draw(done)), form_o(done), form_lse(done));
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  const inputs::HostInputs drawn = inputs::draw(asked);
  const std::vector<std::int64_t> rows = reference::all_rows(asked.query_len);
  std::vector<KernelReport> reports(1);
  judge_answers(asked, drawn, rows, 1, {answer.value()}, reports, {});
  EXPECT_FALSE(reports[0].accepted());
  EXPECT_EQ(hint_of(asked, drawn, rows, 1, answer.value()), GetParam().hint);

  const Result<CheckReport> right = check_problem(asked, facts, {});
  ASSERT_TRUE(right.ok()) << right.status().message();
  EXPECT_TRUE(right.value().accepted()) << describe(right.value());
}

INSTANTIATE_TEST_SUITE_P(Of, CheckOptions,
                         ::testing::Values(Left{"mask", "matches attention without the mask"},
                                           Left{"bias", "matches attention without the bias"},
                                           Left{"alibi", "matches attention without ALiBi"},
                                           Left{"sink", "matches attention without the sink"},
                                           Left{"dropout=0.1", "matches attention without dropout"},
                                           Left{"softcap=2", "matches attention without the softcap"}),
                         [](const ::testing::TestParamInfo<Left>& test) {
                           const std::string option = test.param.option;
                           return option.substr(0, option.find('='));
                         });

}  // namespace
}  // namespace runmax::check
