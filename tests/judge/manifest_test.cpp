// What a candidate says about itself is read strictly, and its file is looked at without running it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "judge/candidate/device_code.hpp"
#include "judge/candidate/exports.hpp"
#include "judge/candidate/manifest.hpp"
#include "judge/candidate/sha256.hpp"
#include "judge/candidate/starter.hpp"
#include "judge/cases/case.hpp"

namespace runmax::judge {
namespace {

std::int64_t value_of(std::string_view expression) {
  const Result<std::int64_t> value = evaluate(expression, {{"n", 100}, {"d", 64}});
  EXPECT_TRUE(value.ok()) << expression << ": " << value.status().message();
  return value.ok() ? value.value() : -1;
}

std::string complaint_of(std::string_view expression) {
  const Result<std::int64_t> value = evaluate(expression, {{"n", 100}, {"d", 64}});
  return value.ok() ? "" : value.status().message();
}

TEST(Expression, FollowsTheRulesOfArithmetic) {
  EXPECT_EQ(value_of("4*n*d + 1024"), 4 * 100 * 64 + 1024);
  EXPECT_EQ(value_of("(n + 63)/64"), 2);
  EXPECT_EQ(value_of("2 + 3*4"), 14);
  EXPECT_EQ(value_of("20 - 3 - 2"), 15);
  EXPECT_EQ(value_of(" 7 / 2 * 2 "), 6);
}

TEST(Expression, RefusesWithThePlace) {
  EXPECT_NE(complaint_of("4*m").find("there is no name 'm' (d, n)"), std::string::npos)
      << complaint_of("4*m");
  EXPECT_NE(complaint_of("4*").find("expected a number or a name at column 3"), std::string::npos)
      << complaint_of("4*");
  EXPECT_NE(complaint_of("n - 200").find("negative"), std::string::npos);
  EXPECT_NE(complaint_of("1/(n-100)").find("divides by 0"), std::string::npos);
  EXPECT_NE(complaint_of("9999999*9999999*9999999").find("2^53"), std::string::npos);
  EXPECT_NE(complaint_of("(1").find("')'"), std::string::npos);
  EXPECT_NE(complaint_of("1 1").find("operator"), std::string::npos);
  EXPECT_NE(complaint_of(std::string(100, '(')).find("brackets"), std::string::npos);
  EXPECT_NE(complaint_of(""), "");
}

Manifest read(const std::string& text, Tier tier = Tier::host) {
  const Result<Manifest> manifest = read_manifest(text, tier);
  EXPECT_TRUE(manifest.ok()) << manifest.status().message();
  return manifest.ok() ? manifest.value() : Manifest();
}

TEST(Manifest, IsTheExerciseWhereThereIsNone) {
  const Manifest m = read("int main() {}\n");
  EXPECT_FALSE(m.found);
  EXPECT_EQ(m.tier, Tier::host);
  EXPECT_TRUE(m.serves_length(1) && m.serves_length(1024) && m.serves_dim(64));
  EXPECT_FALSE(m.causal || m.lse || m.unequal);
  EXPECT_EQ(m.key_tile, 32);
}

TEST(Manifest, IsReadFromEitherKindOfComment) {
  for (const char* text :
       {"// runmax-judge\n// lengths: 64..4096\n// multiple_of: 64 -- a block\n// causal: yes\nint x: 3;\n",
        "/*\n * runmax-judge\n * lengths: 64..4096\n * multiple_of: 64\n * causal: yes\n */\n"}) {
    const Manifest m = read(text);
    EXPECT_TRUE(m.found);
    EXPECT_EQ(m.shortest, 64);
    EXPECT_EQ(m.longest, 4096);
    EXPECT_TRUE(m.serves_length(128) && m.causal);
    EXPECT_FALSE(m.serves_length(100) || m.serves_length(8192));
  }
}

TEST(Manifest, RefusesWithLineKeyRuleAndValue) {
  const auto complaint = [](const std::string& line, Tier tier = Tier::host) {
    const Result<Manifest> manifest = read_manifest("\n// runmax-judge\n// " + line + "\n", tier);
    return manifest.ok() ? std::string() : manifest.status().message();
  };
  EXPECT_EQ(complaint("lengths: 5..2"),
            "line 3: lengths: must be A..B with 1 <= A <= B <= 1048576, got '5..2'");
  EXPECT_EQ(complaint("align: 12"), "line 3: align: must be a power of two in [4, 256], got '12'");
  EXPECT_EQ(complaint("causal: maybe"), "line 3: causal: must be yes or no, got 'maybe'");
  EXPECT_NE(complaint("colour: red").find("there is no key 'colour'"), std::string::npos);
  EXPECT_NE(complaint("workspace: 4*m").find("there is no name 'm'"), std::string::npos);
  EXPECT_NE(complaint("lse: yes\n// lse: no").find("given twice"), std::string::npos);
  EXPECT_NE(complaint("causal: yes", Tier::device).find("device kernel"), std::string::npos);
}

TEST(Manifest, OfBothStartersIsRight) {
  EXPECT_EQ(read(starter(Tier::host)).tier, Tier::host);
  const Manifest device = read(starter(Tier::device), Tier::device);
  EXPECT_TRUE(device.found);
  EXPECT_EQ(device.threads, "64");
}

TEST(Cases, AskNothingInsideThatIsNotClaimed) {
  for (const char* claim :
       {"", "// runmax-judge\n// multiple_of: 64\n", "// runmax-judge\n// lengths: 1..40\n",
        "// runmax-judge\n// heads: grouped\n// unequal: yes\n// causal: yes\n// head_dim: 32, 80\n"}) {
    const Manifest m = read(claim);
    int inside = 0;
    for (const Case& one : cases_for(m)) {
      EXPECT_EQ(m.outside(one.problem).empty(), one.sequence != Sequence::refusal) << claim << one.name;
      EXPECT_FALSE(one.reason.empty()) << one.name;
      inside += one.sequence != Sequence::refusal;
    }
    EXPECT_GT(inside, 20) << claim;
  }
}

TEST(Sha256, IsTheStandards) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Exports, RefuseWhatIsNoLibrary) {
  EXPECT_FALSE(exported_names("hello").ok());
  std::ifstream self("/proc/self/exe", std::ios::binary);
  std::stringstream bytes;
  bytes << self.rdbuf();
  const std::string program = bytes.str();
  // Cut anywhere, it is refused or read, never a crash.
  for (const std::size_t size :
       {std::size_t{10}, std::size_t{64}, std::size_t{1000}, program.size() / 2, program.size() - 1})
    (void)exported_names(std::string_view(program).substr(0, size));
  const Result<std::vector<std::string>> names = exported_names(program);
  ASSERT_TRUE(names.ok()) << names.status().message();
}

TEST(DeviceCode, IsNotWhatAHostRuns) {
  EXPECT_FALSE(read_device_code("hello").ok());
  std::ifstream self("/proc/self/exe", std::ios::binary);
  std::stringstream bytes;
  bytes << self.rdbuf();
  EXPECT_EQ(read_device_code(bytes.str()).status().message(), "holds no device code");
}

TEST(Exports, NameTheSystemsFunctions) {
  EXPECT_EQ(system_name_among({"attention", "memcpy"}), "memcpy");
  EXPECT_EQ(system_name_among({"attention", "my_helper_of_attention"}), "");
}

}  // namespace
}  // namespace runmax::judge
