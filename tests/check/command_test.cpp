// The program `runmax check` from outside: exit codes, streams and JSON.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "runmax/runmax.hpp"

namespace runmax {
namespace {

struct Outcome {
  int code = -1;
  std::string out;
};

// stdout, or stderr where `arguments` end in "2>&1 >/dev/null".
Outcome check(const std::string& arguments) {
  Outcome outcome;
  FILE* pipe = popen((std::string(RUNMAX_PROGRAM) + " check " + arguments).c_str(), "r");
  if (!pipe) return outcome;
  std::array<char, 4096> buffer;
  for (std::size_t got; (got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    outcome.out.append(buffer.data(), got);
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

TEST(CheckCommand, O122_AcceptedIsExitZero) {
  const Outcome outcome = check("q65:k97:d33:causal --device cpu --kernel all --seed 5 2>/dev/null");
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(outcome.out.substr(outcome.out.size() - 9), "accepted\n");
  EXPECT_NE(outcome.out.find("q65:k97:d33:causal:seed=5: 65 of 65 query rows"), std::string::npos);
  EXPECT_NE(outcome.out.find("lesson gate: passed, gate fraction "), std::string::npos);
  EXPECT_NE(outcome.out.find("rtol max(1e-5, 4*2^-23*sqrt(97)) = 1.000e-05"), std::string::npos);
}

// Scores beyond the range of f32 are beyond the contract, and the gates say so.
constexpr const char* overflowing = "q8:d64:scale=1e38:seed=3 --device cpu --kernel cpu_lesson_online";

TEST(CheckCommand, O122_RejectedIsExitOneAndSaysHowToRepeatIt) {
  const Outcome outcome = check(std::string(overflowing) + " 2>/dev/null");
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_EQ(outcome.out.substr(outcome.out.size() - 9), "REJECTED\n");
  const std::string repeat = "repeat: runmax ";
  const std::size_t at = outcome.out.find(repeat);
  ASSERT_NE(at, std::string::npos) << outcome.out;
  const std::string command =
      outcome.out.substr(at + repeat.size(), outcome.out.find('\n', at) - at - repeat.size());
  ASSERT_EQ(command.find("check "), 0u) << command;
  const Outcome again = check(command.substr(6) + " 2>/dev/null");
  EXPECT_EQ(again.code, 1);
  EXPECT_EQ(again.out, outcome.out);
}

TEST(CheckCommand, O122_BadInputIsExitTwoWithOneLineOnStderr) {
  for (const char* arguments :
       {"q8:nonsense", "q8:d8 --kernel nope --device cpu", "q0:k5:d8 --device cpu", "q8:d8:e4m3 --device cpu",
        "q8:d8 --rows -1 --device cpu", "q8:d8 --seed -1", "q8:d8 --seed 18446744073709551616",
        "q8:d8 --device moon", "q8:d8 --device cuda:-1", "q8:d8 --device cuda:4294967296", "hq3:hk2:q8"}) {
    EXPECT_EQ(check(std::string(arguments) + " 2>/dev/null").out, "") << arguments;
    const Outcome outcome = check(std::string(arguments) + " 2>&1 >/dev/null");
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_EQ(outcome.out.find("runmax: "), 0u) << outcome.out;
    EXPECT_EQ(outcome.out.find('\n'), outcome.out.size() - 1) << outcome.out;
  }
}

TEST(CheckCommand, AResultThatStdoutDidNotTakeIsExitFour) {
  const std::string problem = "q8:d8 --device cpu --kernel all";
  for (const std::string& arguments : {problem, problem + " --json", std::string("--help")})
    for (const char* streams :
         {" >/dev/full 2>/dev/null", " >&- 2>/dev/null", " >&- 2>&-", " >/dev/full 2>/dev/full"})
      EXPECT_EQ(check(arguments + streams).code, 4) << arguments << streams;
}

TEST(CheckCommand, ComplaintsThatStderrDoesNotTakeChangeNoExitCode) {
  for (const char* streams : {" 2>&-", " 2>/dev/full"}) {
    EXPECT_EQ(check(std::string("q8:nonsense") + streams).code, 2) << streams;
    EXPECT_EQ(check(std::string("q8:d8 --device cpu") + streams).code, 0) << streams;
  }
}

TEST(CheckCommand, NoDeviceIsExitFour) {
  if (device_facts({DeviceKind::cuda, 0}).ok()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(check("q64:d64 --device cuda 2>/dev/null").code, 4);
}

TEST(CheckCommand, JsonSaysWhatTheTextSays) {
  const Outcome outcome =
      check("hq4:hk2:q65:d64:in=loud --device cpu --kernel all --rows 20 --json 2>/dev/null");
  ASSERT_EQ(outcome.code, 0);
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["schema"], "runmax.check");
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["problem"], "hq4:hk2:q65:d64:in=loud");
  EXPECT_EQ(json["accepted"], true);
  EXPECT_EQ(json["rows"]["compared"], 20);
  EXPECT_EQ(json["rows"]["sampled"], true);
  EXPECT_EQ(json["lesson_rtol"]["value"], 1e-5);
  bool ran = false;
  for (const auto& kernel : json["kernels"]) {
    if (kernel["status"] == "refused") {
      EXPECT_FALSE(kernel["reason"].get<std::string>().empty());
      continue;
    }
    ran = true;
    EXPECT_EQ(kernel["status"], "accepted");
    EXPECT_EQ(kernel["memory"], "intact");
    for (const auto& gate : kernel["gates"]) {
      EXPECT_EQ(gate["passed"], true);
      EXPECT_EQ(gate["compared"], gate["name"] == "lse gate" ? 4 * 20 : 4 * 20 * 64) << gate["name"];
      EXPECT_TRUE(gate["gate_fraction"].is_number());
    }
  }
  EXPECT_TRUE(ran);
}

TEST(CheckCommand, JsonOfARejectionNamesTheOffender) {
  const Outcome outcome = check(std::string(overflowing) + " --json 2>/dev/null");
  ASSERT_EQ(outcome.code, 1);
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["accepted"], false);
  const auto& kernel = json["kernels"][0];
  EXPECT_EQ(kernel["status"], "rejected");
  EXPECT_EQ(kernel["gates"][0]["name"], "finiteness gate");
  EXPECT_EQ(kernel["gates"][0]["passed"], false);
  EXPECT_EQ(kernel["gates"][0]["offender"]["query_row"], 0);
  EXPECT_EQ(kernel["gates"][0]["offender"]["got"], "nan");
  EXPECT_TRUE(kernel["gates"][0]["offender"]["want"].is_number());
  EXPECT_NE(kernel["repeat"].get<std::string>().find("--kernel cpu_lesson_online"), std::string::npos);
}

}  // namespace
}  // namespace runmax
