// `runmax run` on files made by hand: refusals, exit codes, locale, and that a failure writes nothing.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <clocale>
#include <cmath>
#include <iterator>
#include <locale>
#include <nlohmann/json.hpp>
#include <span>

#include "cli/attention_arrays.hpp"
#include "cli/run_check.hpp"
#include "files/input_file.hpp"
#include "files/run_case.hpp"
#include "files/safetensors.hpp"

namespace runmax::cli {
namespace {

TEST_F(Run, WritesOutputAndLseOfTheRankOfQ) {
  const struct {
    Shape q, k, v, o, lse;
    const char* layout;
  } cases[] = {
      {{5, 4}, {7, 4}, {7, 3}, {5, 3}, {5}, "bshd"},
      {{5, 4}, {7, 4}, {7, 3}, {5, 3}, {5}, "bhsd"},
      {{5, 6, 4}, {7, 2, 4}, {7, 2, 3}, {5, 6, 3}, {6, 5}, "bshd"},
      {{6, 5, 4}, {2, 7, 4}, {2, 7, 3}, {6, 5, 3}, {6, 5}, "bhsd"},
      {{2, 5, 6, 4}, {2, 7, 3, 4}, {2, 7, 3, 3}, {2, 5, 6, 3}, {2, 6, 5}, "bshd"},
      {{2, 6, 5, 4}, {2, 3, 7, 4}, {2, 3, 7, 3}, {2, 6, 5, 3}, {2, 6, 5}, "bhsd"},
      {{0, 4}, {7, 4}, {7, 3}, {0, 3}, {0}, "bshd"},
      {{5, 4}, {0, 4}, {0, 3}, {5, 3}, {5}, "bshd"},
  };
  arguments.lse = at("lse.npy");
  for (const auto& c : cases) {
    put_qkv(c.q, c.k, c.v);
    arguments.layout = c.layout;
    const Outcome outcome = run();
    ASSERT_EQ(outcome.code, ExitCode::done) << outcome.error;
    EXPECT_EQ(read("o.npy").shape, c.o);
    EXPECT_EQ(read("lse.npy").shape, c.lse);
    for (const float value : read("o.npy").values) ASSERT_TRUE(std::isfinite(value));
    EXPECT_EQ(outcome.error, "");
  }
}

TEST_F(Run, KnownAnswers) {
  // Equal scores: the mean of the visible values, and the log of their number.
  put("q.npy", files::npy_header({2, 1}) + files::raw(std::vector<float>{0, 0}));
  put("k.npy", files::npy_header({4, 1}) + files::raw(std::vector<float>{1, 2, 3, 4}));
  put("v.npy", files::npy_header({4, 1}) + files::raw(std::vector<float>{0, 1, 2, 3}));
  arguments.lse = at("lse.npy");
  arguments.causal = true;
  ASSERT_EQ(run().code, ExitCode::done);
  EXPECT_EQ(read("o.npy").values, (std::vector<float>{1, 1.5}));
  EXPECT_NEAR(read("lse.npy").values[0], std::log(3.0), 1e-6);
  EXPECT_NEAR(read("lse.npy").values[1], std::log(4.0), 1e-6);
  arguments.causal_align = "top-left";
  ASSERT_EQ(run().code, ExitCode::done);
  EXPECT_EQ(read("o.npy").values, (std::vector<float>{0, 0.5}));
}

TEST_F(Run, AnExistingOutputIsReplacedOnSuccessOnly) {
  put_qkv({5, 4}, {7, 4}, {7, 4});
  put("o.npy", "old");
  ASSERT_EQ(run().code, ExitCode::done);
  EXPECT_EQ(read("o.npy").shape, (Shape{5, 4}));
  put("o.npy", "old");
  put("v.npy", "broken");
  EXPECT_EQ(refusal(), "--v v.npy: is not a .npy file: it does not begin with \\x93NUMPY");
  std::ifstream file(at("o.npy"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "old");
}

TEST_F(Run, AWriteThatFailsLeavesNeitherOutputAndExitsWithFour) {
  put_qkv({5000, 4}, {7, 4}, {7, 4});
  arguments.lse = at("lse.npy");
  const std::set<std::string> before = names();
  const pid_t child = ::fork();
  if (child == 0) {
    // lse.npy would fit, o.npy does not.
    const rlimit limit{30000, 30000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    arguments.threads = 1;
    std::freopen("/dev/null", "w", stderr);
    ::_exit(static_cast<int>(run_command(arguments)));
  }
  int ended = 0;
  ::waitpid(child, &ended, 0);
  ASSERT_TRUE(WIFEXITED(ended)) << "killed by signal " << WTERMSIG(ended);
  EXPECT_EQ(WEXITSTATUS(ended), 4);
  EXPECT_EQ(names(), before);
}

TEST_F(Run, ShapesThatDoNotFitAreRefusedWithFileTensorRuleAndValues) {
  const struct {
    Shape q, k, v;
    const char* error;
  } cases[] = {
      {{4}, {4}, {4}, "--q q.npy: q must have 2, 3 or 4 dimensions, got 1: (4,)"},
      {{1, 1, 1, 4, 4},
       {4, 4},
       {4, 4},
       "--q q.npy: q must have 2, 3 or 4 dimensions, got 5: (1, 1, 1, 4, 4)"},
      {{5, 4}, {7, 1, 4}, {7, 4}, "--k k.npy: k must have as many dimensions as q (q (5, 4), k (7, 1, 4))"},
      {{5, 4}, {7, 4}, {7}, "--v v.npy: v must have as many dimensions as q (q (5, 4), v (7,))"},
      {{5, 4},
       {7, 3},
       {7, 3},
       "--k k.npy: the head dimension of k must equal that of q, got 3 and 4 (q (5, 4), k (7, 3))"},
      {{5, 4},
       {7, 4},
       {6, 4},
       "--v v.npy: the length of v must equal that of k, got 6 and 7 (k (7, 4), v (6, 4))"},
      {{5, 2, 4},
       {7, 2, 4},
       {7, 1, 4},
       "--v v.npy: the number of heads of v must equal that of k, got 1 and 2 (k (7, 2, 4), v (7, 1, 4))"},
      {{5, 3, 4},
       {7, 2, 4},
       {7, 2, 4},
       "--k k.npy: the number of heads of k must divide that of q, got 2 and 3 (q (5, 3, 4), k (7, 2, 4), "
       "bshd)"},
      {{2, 5, 1, 4},
       {1, 7, 1, 4},
       {1, 7, 1, 4},
       "--k k.npy: the batch size of k must equal that of q, got 1 and 2 (q (2, 5, 1, 4), k (1, 7, 1, 4))"},
      {{2, 5, 1, 4},
       {2, 7, 1, 4},
       {1, 7, 1, 4},
       "--v v.npy: the batch size of v must equal that of k, got 1 and 2 (k (2, 7, 1, 4), v (1, 7, 1, 4))"},
  };
  for (const auto& c : cases) {
    put_qkv(c.q, c.k, c.v);
    EXPECT_EQ(refusal(), c.error);
  }
}

// O-098
TEST_F(Run, ATypeThatIsNotReadIsNamedWithFileAndArray) {
  put_qkv({5, 4}, {7, 4}, {7, 4});
  put("k.npy",
      files::npy_file(1, 0, files::npy_dictionary(">f4", "False", "(7, 4)"), std::string(112, '\0')));
  EXPECT_EQ(refusal(), "--k k.npy: dtype is '>f4' (big-endian); allowed are '<f4', '<f2' and '<f8'");
}

TEST_F(Run, ADoubleBeyondFloatIsRefusedWhereF32IsAskedFor) {
  put_qkv({1, 1}, {1, 1}, {1, 1});
  arguments.dtype = "f32";
  put("v.npy", files::npy_file(1, 0, files::npy_dictionary("<f8", "False", "(1, 1)"),
                               files::raw(std::vector<double>{1e300})));
  EXPECT_EQ(refusal(), "--v v.npy: element (0, 0) is 1e+300, beyond the range of f32 (3.4028235e+38)");
}

TEST_F(Run, AClaimWithoutDataNeverAllocates) {
  put_qkv({5, 4}, {7, 4}, {7, 4});
  // No data are needed for head dimension 0, but the output would be terabytes.
  put("q.npy", files::npy_header({std::int64_t{1} << 40, 0}));
  put("k.npy", files::npy_header({1, 0}));
  put("v.npy", files::npy_header({1, 1}) + files::raw(std::vector<float>{1}));
  const std::string error = refusal();
  EXPECT_EQ(error.rfind("--q q.npy: the output (1099511627776, 1) is larger (", 0), 0u) << error;
}

TEST_F(Run, ASparseFileLargerThanMemoryIsRefused) {
  put_qkv({5, 4}, {7, 4}, {7, 4});
  const std::int64_t rows = std::int64_t{1} << 40;
  std::error_code error;
  put("q.npy", files::npy_header({rows, 1}));
  fs::resize_file(at("q.npy"), fs::file_size(at("q.npy")) + 4 * static_cast<std::uintmax_t>(rows), error);
  if (error) GTEST_SKIP() << "the file system has no sparse files: " << error.message();
  const std::string refused = refusal();
  EXPECT_EQ(refused.rfind("--q q.npy: is larger (", 0), 0u) << refused;
}

TEST_F(Run, OptionsOutOfTheirRangeAreRefused) {
  put_qkv({5, 4}, {7, 4}, {7, 4});
  const RunArguments good = arguments;
  const auto error = [&](auto change) {
    arguments = good;
    change(arguments);
    return refusal();
  };
  EXPECT_EQ(error([](auto& a) { a.layout = "sbhd"; }), "--layout: is bshd or bhsd, got 'sbhd'");
  EXPECT_EQ(error([](auto& a) { a.softmax_scale = "half"; }),
            "--softmax-scale: must be a number, got 'half'");
  EXPECT_EQ(error([](auto& a) { a.softmax_scale = "0,5"; }), "--softmax-scale: must be a number, got '0,5'");
  EXPECT_EQ(error([](auto& a) { a.softmax_scale = "nan"; }), "softmax_scale: must be finite, got nan");
  EXPECT_EQ(error([](auto& a) { a.softcap = "-1"; }),
            "softcap: must be finite and at least 0 (0 is off), got -1.000000");
  EXPECT_EQ(error([](auto& a) { a.window = "3"; }), "--window: must be two integers, LEFT,RIGHT, got '3'");
  EXPECT_EQ(error([](auto& a) { a.window = "-2,0"; }),
            "window: distances are at least 0, or -1 for unbounded, got -2,0");
  EXPECT_EQ(error([](auto& a) { a.causal_align = "top-left"; }), "--causal-align: needs --causal");
  EXPECT_EQ(error([](auto& a) {
              a.causal = true;
              a.causal_align = "middle";
            }),
            "--causal-align: is bottom-right or top-left, got 'middle'");
  EXPECT_EQ(error([](auto& a) { a.arithmetic = "fast"; }),
            "--arithmetic: is fp32-grade, ieee or tf32, got 'fast'");
  EXPECT_EQ(error([](auto& a) { a.device = "gpu"; }), "--device: is auto, cpu, cuda or cuda:N, got 'gpu'");
  EXPECT_EQ(error([](auto& a) { a.threads = -1; }), "threads: must be at least 0 (0 is all), got -1");
}

TEST_F(Run, WhatNoKernelServesIsRefusedByNameWithTheReason) {
  put_qkv({5, 4}, {7, 4}, {7, 4});
  arguments.arithmetic = "tf32";
  EXPECT_NE(refusal().find("tf32"), std::string::npos);
}

TEST_F(Run, FilesThatCannotGoTogetherAreRefusedBeforeAnyIsRead) {
  const RunArguments good = arguments;
  const auto error = [&](auto change) {
    arguments = good;
    change(arguments);
    return refusal();
  };
  EXPECT_EQ(error([](auto& a) { a.k = ""; }), "--k: is missing; give --q, --k and --v, or --in");
  EXPECT_EQ(error([&](auto& a) { a.out = at("o.safetensors"); }),
            "--out: o.safetensors: inputs in .npy files give .npy outputs; for .safetensors use --in");
  EXPECT_EQ(error([&](auto& a) { a.in = at("x.safetensors"); }),
            "--in: holds q, k and v; leave --q, --k and --v out");
  const auto only_in = [&](RunArguments& a) {
    a.q = a.k = a.v = "";
    a.in = at("x.safetensors");
    a.out = at("y.safetensors");
  };
  EXPECT_EQ(error([&](auto& a) {
              only_in(a);
              a.lse = at("lse.npy");
            }),
            "--lse: with --in, the LSE is the tensor 'lse' of --out; leave --lse out");
  EXPECT_EQ(error([&](auto& a) {
              only_in(a);
              a.out = at("o.npy");
            }),
            "--out: o.npy: --in gives a .safetensors output; for .npy use --q, --k and --v");
  EXPECT_EQ(error([&](auto& a) {
              only_in(a);
              a.out = a.in;
            }),
            "--out: x.safetensors is also the input --in");
  EXPECT_EQ(error([&](auto& a) { a.out = at("no/o.npy"); }),
            "--out no/o.npy: the directory cannot be used: No such file or directory");
  EXPECT_EQ(error([&](auto& a) { a.out = ""; }), "--out: is empty; it must name a file");
  EXPECT_EQ(error([&](auto& a) { a.lse = a.out; }), "--lse: o.npy is also the output --out");
  // Relative names of a file that is not there yet; one output would silently replace the other.
  EXPECT_EQ(error([](auto& a) {
              a.out = "runmax-run-test-o.npy";
              a.lse = "./runmax-run-test-o.npy";
            }),
            "--lse: ./runmax-run-test-o.npy is also the output --out");
  EXPECT_EQ(error([&](auto&) {}), "--q q.npy: cannot be opened: No such file or directory");
}

TEST_F(Run, AnInputIsNeverOverwrittenByWhateverNameItGoes) {
  put_qkv({5, 4}, {7, 4}, {7, 4});
  arguments.out = at("../" + directory.filename().string() + "/k.npy");
  EXPECT_NE(refusal().find("is also the input --k"), std::string::npos);
  fs::create_symlink("v.npy", at("link"));
  arguments.out = at("link");
  EXPECT_EQ(refusal(), "--out: link is also the input --v");
  fs::create_hard_link(at("v.npy"), at("hard"));
  arguments.out = at("hard");
  EXPECT_EQ(refusal(), "--out: hard is also the input --v");
}

class RunSafetensors : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    arguments.q = arguments.k = arguments.v = "";
    arguments.in = at("x.safetensors");
    arguments.out = at("y.safetensors");
  }
};

TEST_F(RunSafetensors, TensorsInTensorsOut) {
  put("x.safetensors", files::safetensors_header({{"q", {5, 4}}, {"k", {7, 4}}, {"v", {7, 3}}}) +
                           files::raw(std::vector<float>(5 * 4 + 7 * 4 + 7 * 3, 0.5f)));
  const Outcome outcome = run();
  ASSERT_EQ(outcome.code, ExitCode::done) << outcome.error;
  Result<files::FileBytes> file = files::read_file(arguments.out);
  ASSERT_TRUE(file.ok());
  Result<std::vector<files::TensorEntry>> tensors = files::parse_safetensors(file.value().bytes());
  ASSERT_TRUE(tensors.ok()) << tensors.status().message();
  const files::FloatArray o = files::tensor_to_f32(tensors.value(), "o").value();
  EXPECT_EQ(o.shape, (Shape{5, 3}));
  for (const float value : o.values) EXPECT_NEAR(value, 0.5f, 1e-6);
  EXPECT_EQ(files::tensor_to_f32(tensors.value(), "lse").value().shape, Shape{5});
}

TEST_F(RunSafetensors, ErrorsNameFileTensorAndRule) {
  put("x.safetensors", files::safetensors_header({{"q", {5, 4}}, {"v", {7, 3}}}) +
                           files::raw(std::vector<float>(5 * 4 + 7 * 3)));
  EXPECT_EQ(refusal(), "--in x.safetensors: tensor 'k' is missing; the file has 'q', 'v'");
  // O-099
  put("x.safetensors",
      files::safetensors_file(R"({"q":{"dtype":"F32","shape":[500,400],"data_offsets":[0,8]}})", "12345678"));
  EXPECT_EQ(refusal(),
            "--in x.safetensors: tensor 'q': shape (500, 400) of F32 needs 800000 bytes, data_offsets [0, 8] "
            "give 8");
  // O-102
  put("x.safetensors",
      files::safetensors_file(R"({"q":{"dtype":"F64","shape":[3],"data_offsets":[0,8]}})", "12345678"));
  EXPECT_EQ(refusal(),
            "--in x.safetensors: tensor 'q': shape (3,) of F64 needs 24 bytes, data_offsets [0, 8] give 8");
  put("x.safetensors", files::safetensors_header({{"q", {5, 4}}, {"k", {7, 2}}, {"v", {7, 3}}}) +
                           files::raw(std::vector<float>(5 * 4 + 7 * 2 + 7 * 3)));
  EXPECT_EQ(
      refusal(),
      "--in x.safetensors: tensor 'k': the head dimension of k must equal that of q, got 2 and 4 (q (5, "
      "4), k (7, 2))");
}

// O-122: a right answer, a wrong one and an unreadable input.
TEST_F(Run, TheExitCodeOfACheckIsItsVerdict) {
  put_qkv({5, 6, 4}, {7, 2, 4}, {7, 2, 3});
  arguments.check = true;
  const Outcome right = run();
  EXPECT_EQ(right.code, ExitCode::done) << right.error;
  EXPECT_NE(right.out.find("check: accepted, 5 of 5 query rows"), std::string::npos) << right.out;
  EXPECT_NE(right.out.find("not applied: lesson gate: is meant for drawn data"), std::string::npos)
      << right.out;
  EXPECT_TRUE(fs::exists(at("o.npy")));
  fs::remove(at("o.npy"));

  // The mean of values near the largest float exists, their FP32 sum does not.
  put("q.npy", files::npy_header({1, 1}) + files::raw(std::vector<float>{0}));
  put("k.npy", files::npy_header({4, 1}) + files::raw(std::vector<float>(4, 0)));
  put("v.npy", files::npy_header({4, 1}) + files::raw(std::vector<float>(4, 3e38f)));
  arguments.kernel = "cpu_lesson_online";
  const Outcome wrong = run();
  EXPECT_EQ(wrong.code, ExitCode::rejected);
  EXPECT_NE(wrong.out.find("check: REJECTED"), std::string::npos) << wrong.out;
  EXPECT_NE(wrong.out.find("finiteness gate: FAILED o[0,0,0,0] got inf want 3"), std::string::npos)
      << wrong.out;
  EXPECT_NE(wrong.out.find("repeat: runmax run --q "), std::string::npos) << wrong.out;
  EXPECT_EQ(wrong.error, "runmax: the answer is rejected; nothing is written\n");
  EXPECT_FALSE(fs::exists(at("o.npy")));
  arguments.json = true;
  const Outcome json = run();
  EXPECT_EQ(json.code, ExitCode::rejected);
  EXPECT_EQ(nlohmann::json::parse(json.out)["accepted"], false);
  EXPECT_TRUE(nlohmann::json::parse(json.out)["outputs"].empty());

  put("v.npy", "unreadable");
  EXPECT_EQ(run().code, ExitCode::bad_input);
}

class RunCheckLayout : public testing::TestWithParam<Layout> {};

TEST_P(RunCheckLayout, FindsOneWrongElementWhereItIs) {
  // Equal scores, so that the answer is the mean of v: query heads 0 and 1 share the KV head of 1, the others
  // that of 5.
  const bool bshd = GetParam() == Layout::bshd;
  const auto array = [&](std::int64_t heads, std::int64_t length, std::vector<float> values) {
    files::FloatArray a;
    a.shape = bshd ? Shape{length, heads, 1} : Shape{heads, length, 1};
    a.values = std::move(values);
    return NamedArray{"array", a};
  };
  const NamedArray q = array(4, 3, std::vector<float>(12, 0)), k = array(2, 2, std::vector<float>(4, 1));
  const NamedArray v = array(2, 2, bshd ? std::vector<float>{1, 5, 1, 5} : std::vector<float>{1, 1, 5, 5});
  Problem problem;
  ASSERT_TRUE(take_shapes(q, k, v, GetParam(), problem).ok());
  const DeviceFacts facts = device_facts({}).value();
  const Plan planned = plan(problem, facts).value();
  std::vector<float> o(12), lse(12, std::log(2.0f));
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t h = 0; h < 4; ++h) o[bshd ? i * 4 + h : h * 3 + i] = h < 2 ? 1 : 5;
  const auto judge = [&] {
    const auto bytes = [](const std::vector<float>& values) {
      const auto raw = std::as_bytes(std::span(values));
      return std::vector<std::byte>(raw.begin(), raw.end());
    };
    return judge_run(planned, facts, GetParam(), q, k, v, {}, {}, bytes(o), bytes(lse), "again");
  };
  EXPECT_TRUE(judge().accepted());
  o[bshd ? 1 * 4 + 2 : 2 * 3 + 1] = 5.01f;
  const RunVerdict verdict = judge();
  EXPECT_FALSE(verdict.accepted());
  EXPECT_NE(verdict.text().find("hostile gate: FAILED o[0,2,1,0] got 5.01"), std::string::npos)
      << verdict.text();
  EXPECT_NE(verdict.text().find("repeat: again"), std::string::npos);
}
INSTANTIATE_TEST_SUITE_P(All, RunCheckLayout, testing::Values(Layout::bshd, Layout::bhsd),
                         [](const auto& test) { return test.param == Layout::bshd ? "bshd" : "bhsd"; });

TEST_F(Run, ACheckWithoutAQueryRowIsAccepted) {
  put_qkv({0, 4}, {7, 4}, {7, 4});
  arguments.check = true;
  const Outcome outcome = run();
  EXPECT_EQ(outcome.code, ExitCode::done);
  EXPECT_NE(outcome.out.find("check: accepted, there is no query row"), std::string::npos) << outcome.out;
}

// O-121
class RunLocale : public Run {
 protected:
  void SetUp() override {
    Run::SetUp();
    const char* const name = "de_DE.UTF-8";
    if (std::setlocale(LC_ALL, name) == nullptr)
      GTEST_SKIP() << "the locale " << name << " is not installed (apt-get install locales; locale-gen)";
    previous = std::locale::global(std::locale(name));
    char text[16];
    std::snprintf(text, sizeof text, "%.1f", 0.5);
    ASSERT_STREQ(text, "0,5") << "the locale has no effect, so this test would prove nothing";
  }
  void TearDown() override {
    std::locale::global(previous);
    std::setlocale(LC_ALL, "C");
    Run::TearDown();
  }
  std::locale previous;
};

TEST_F(RunLocale, NumbersAreReadAndWrittenWithoutIt) {
  EXPECT_NE(files::npy_header({1234, 5}).find("(1234, 5)"), std::string::npos);
  EXPECT_NE(files::safetensors_header({{"o", {1234, 5}}}).find("[1234,5]"), std::string::npos);
  put_qkv({1234, 5}, {7, 5}, {7, 5});
  arguments.softmax_scale = "0.5";
  arguments.json = true;
  const Outcome outcome = run();
  ASSERT_EQ(outcome.code, ExitCode::done) << outcome.error;
  EXPECT_EQ(read("o.npy").shape, (Shape{1234, 5}));
  const nlohmann::json report = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(report["problem"], "q1234:k7:d5:scale=0.5");
  EXPECT_LT(report["time_ms"].get<double>(), 1e6);
  arguments.softmax_scale = "0,5";
  EXPECT_EQ(refusal(), "--softmax-scale: must be a number, got '0,5'");
}

TEST_F(RunLocale, TheTextFormOfAProblemDoesNotDependOnIt) {
  Result<Problem> problem = parse_problem("q1234:k7:d5:scale=0.5:softcap=2.25");
  ASSERT_TRUE(problem.ok()) << problem.status().message();
  EXPECT_EQ(*problem.value().softmax_scale, 0.5);
  EXPECT_EQ(to_text(problem.value()), "q1234:k7:d5:scale=0.5:softcap=2.25");
}

TEST_F(Run, TheSummaryIsOneLine) {
  put_qkv({5, 4}, {7, 4}, {7, 4});
  const Outcome outcome = run();
  ASSERT_EQ(outcome.code, ExitCode::done);
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1) << outcome.out;
  EXPECT_NE(outcome.out.find("o (5, 4); q5:k7:d4 by "), std::string::npos) << outcome.out;
}

}  // namespace
}  // namespace runmax::cli
