// What the lab says about made-up figures: ratios, verdict, meaning, JSON and text.
#include "lab/report.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "measure/paragraph.hpp"

namespace runmax::lab {
namespace {

PathResult result(std::int64_t n, const char* path, double warm_ms) {
  PathResult r;
  r.n = n;
  r.path = path;
  r.kernel = std::string("test_") + path;
  r.outcome = Outcome::ok;
  r.against_reference.passed = true;
  r.against_reference.gate_fraction = 0.06;
  r.against_reference.max_abs_error = 1e-9;
  if (r.path != "naive") r.against_naive = r.against_reference;
  r.peak_bytes = 16 * n * 64 + (r.path == "naive" ? 8 * n * n : 0);
  r.warm = Summary{warm_ms, 0.01, warm_ms, 9};
  r.cold = Summary{2 * warm_ms, 0.01, warm_ms, 9};
  return r;
}

// The lesson's times on its T4, at 320 GB/s.
Report lesson_report() {
  Report report;
  report.device.device.kind = DeviceKind::cuda;
  report.device.name = "Tesla T4";
  report.limits.copy_rate.median = 276e9;
  report.limits.fma_rate = 8.1e12;
  report.limits.cache_bytes = 4 << 20;
  report.limits.empty_launch_ms.median = 2.668e-3;
  const double naive[] = {0.0745, 0.8413, 8.3724}, online[] = {0.3540, 1.4604, 5.2910};
  int i = 0;
  for (const std::int64_t n : {256, 1024, 4096}) {
    report.costs.push_back(lesson::attention_costs(n, head_dim));
    report.results.push_back(result(n, "naive", naive[i]));
    report.results.push_back(result(n, "online", online[i]));
    report.results.push_back(result(n, "runmax", 0.02));
    ++i;
  }
  return report;
}

TEST(LabReport, RatiosAreThoseOfTheMedians) {
  const std::vector<Ratio> all = ratios(lesson_report());
  ASSERT_EQ(all.size(), 3u);
  EXPECT_NEAR(*all[2].naive_over_online, 1.582, 5e-4);
  EXPECT_NEAR(*all[0].naive_over_runmax, 3.725, 5e-4);
}

TEST(LabReport, APathThatDidNotRunHasNoRatioAndDoesNotFailTheLab) {
  Report report = lesson_report();
  report.results[6].outcome = Outcome::skipped;
  report.results[6].warm.reset();
  report.results[6].cold.reset();
  EXPECT_FALSE(ratios(report)[2].naive_over_online.has_value());
  EXPECT_TRUE(passed(report));
}

TEST(LabReport, PassesOnlyIfEveryGateDid) {
  Report report = lesson_report();
  EXPECT_TRUE(passed(report));
  report.results[4].against_naive->passed = false;
  EXPECT_FALSE(passed(report));
  report = lesson_report();
  report.results[8].outcome = Outcome::failed;
  EXPECT_FALSE(passed(report));
}

TEST(LabReport, NothingMeasuredIsNoPass) {
  Report report = lesson_report();
  for (PathResult& r : report.results) r.outcome = Outcome::refused;
  EXPECT_FALSE(passed(report));
  report.results.clear();
  EXPECT_FALSE(passed(report));
}

TEST(LabReport, AFailedPredictionDoesNotFailTheLab) {
  Report report = lesson_report();
  report.results[7].warm->median = 100;
  EXPECT_EQ(predictions(report)[4].outcome, lesson::Outcome::failed);
  EXPECT_TRUE(passed(report));
}

TEST(LabReport, SkippedBytesStandAsTimeBesideTheTimeSaved) {
  const Skipped at_4096 = skipped(lesson_report())[2];
  EXPECT_EQ(at_4096.bytes, 320 << 20);
  EXPECT_NEAR(at_4096.at_copy_rate_ms, 335.54432e6 / 276e9 * 1e3, 1e-9);
  EXPECT_NEAR(*at_4096.naive_minus_online_ms, 3.0814, 1e-9);
  EXPECT_FALSE(at_4096.fits_cache);
}

TEST(LabReport, SaysInWordsWhetherTheByteWinIsATimeWin) {
  Report report = lesson_report();
  EXPECT_NE(meaning(report).find("1.58x faster"), std::string::npos) << meaning(report);
  report.results[7].warm->median = 20;
  report.limits.cache_bytes = 300 << 20;
  EXPECT_NE(meaning(report).find("2.39x slower"), std::string::npos) << meaning(report);
  EXPECT_NE(meaning(report).find("fit in this machine's last-level cache"), std::string::npos)
      << meaning(report);
  report.device.multiprocessors = 132;
  EXPECT_NE(meaning(report).find("64 blocks leave 68 of 132 multiprocessors idle"), std::string::npos)
      << meaning(report);
  report.results[6].fma_share = 0.1;
  report.results[7].fma_share = 0.045;
  EXPECT_NE(meaning(report).find("Naive reaches 10.0 % of the FMA rate and online 4.5 %"), std::string::npos)
      << meaning(report);
  report.results[7].outcome = Outcome::failed;
  EXPECT_NE(meaning(report).find("mean nothing"), std::string::npos) << meaning(report);
}

TEST(LabReport, NamesThePathsThatAreTimedAtTheHostsPace) {
  Report report = lesson_report();
  EXPECT_EQ(launch_bound_note(report), "");
  report.limits.empty_launch_ms.median = 4.1e-3;
  report.results[0].launches = 3;
  report.results[0].warm->median = 13.4e-3;
  report.results[3].launches = 3;
  EXPECT_EQ(launch_bound_note(report),
            "The host launches a kernel every 4.1 us, and that is what the warm times of naive at N = 256 "
            "(13.4 us, 3 "
            "launches) show.");
}

TEST(LabReport, AMeaningIsFoundWhateverIsMissing) {
  Report report = lesson_report();
  report.results.erase(report.results.begin() + 6);  // no naive at 4096
  EXPECT_FALSE(meaning(report).empty());
  report.results.clear();
  EXPECT_FALSE(meaning(report).empty());
}

TEST(LabJson, HasOneResultPerLengthPathAndCacheState) {
  const auto json = nlohmann::json::parse(report_json(lesson_report()));
  EXPECT_EQ(json["schema"], "runmax.lab");
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["results"].size(), 18u);
  EXPECT_EQ(json["costs"][2]["ratio"], 81.0);
  EXPECT_EQ(json["predictions"].size(), 5u);
  EXPECT_EQ(json["passed"], true);
  EXPECT_EQ(json["results"][0]["cache"], "warm");
  EXPECT_EQ(json["results"][1]["cache"], "cold");
}

TEST(LabJson, AnInfiniteFractionIsNullAndTheStatusFailed) {
  Report report = lesson_report();
  report.results[1].outcome = Outcome::failed;
  report.results[1].against_reference.gate_fraction = std::numeric_limits<double>::infinity();
  const auto json = nlohmann::json::parse(report_json(report));
  EXPECT_TRUE(json["results"][2]["gate_fraction"].is_null());
  EXPECT_EQ(json["results"][2]["status"], "failed");
  EXPECT_EQ(json["passed"], false);
}

TEST(LabText, FailureNamesTheElementAndTheCommandThatRepeatsIt) {
  Report report = lesson_report();
  report.results[1].outcome = Outcome::failed;
  report.results[1].reason = "against the reference: query row 5, head dimension 17: got 1, want 2, bound 3";
  report.results[1].repeat = "runmax check q256:d64:in=loud";
  const std::string text = results_text(report, {});
  EXPECT_NE(text.find("query row 5, head dimension 17"), std::string::npos) << text;
  EXPECT_NE(text.find("repeat: runmax check q256:d64:in=loud"), std::string::npos) << text;
  EXPECT_NE(conclusions_text(report, {}).find("a gate FAILED"), std::string::npos);
}

TEST(Paragraph, BreaksBetweenWordsAndKeepsThemAll) {
  EXPECT_EQ(paragraph("", 2), "");
  EXPECT_EQ(paragraph("one two", 2), "  one two\n");
  const std::string word(60, 'x'), giant(200, 'y');
  EXPECT_EQ(paragraph(word + " " + word, 5), "     " + word + "\n     " + word + "\n");
  EXPECT_EQ(paragraph("a " + giant + " b", 1), " a\n " + giant + "\n b\n");
}

TEST(LabText, ColorIsOnlyWhereItIsWanted) {
  const Report report = lesson_report();
  EXPECT_EQ(results_text(report, {.color = false}).find('\x1b'), std::string::npos);
  EXPECT_NE(results_text(report, {.color = true}).find('\x1b'), std::string::npos);
}

TEST(LabText, EverySectionFitsIn80Columns) {
  const Report report = lesson_report();
  const std::string text = machine_text(report, {}) + costs_text(report, {}) + gates_text(report, {}) +
                           resources_text(report, {}) + results_text(report, {}) +
                           conclusions_text(report, {});
  std::size_t lines = 0;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    const auto width = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
    EXPECT_LE(width, 80) << line;
    ++lines;
  }
  EXPECT_GT(lines, 60u);
}

TEST(LabText, CostsShowTheLessonsBytes) {
  const std::string text = costs_text(lesson_report(), {});
  for (const char* figure :
       {"324.0 MiB", "64.0 MiB", "81.0x", "130.0 MiB", "12.8", "1024.0", "29.35", "64.0 GiB"})
    EXPECT_NE(text.find(figure), std::string::npos) << figure << " is not in\n" << text;
}

}  // namespace
}  // namespace runmax::lab
