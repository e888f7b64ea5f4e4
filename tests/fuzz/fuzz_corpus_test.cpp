// Every input that the fuzzers keep, replayed in every build: seeds, and what once broke a parser.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "fuzz/targets.hpp"

namespace runmax::fuzz {
namespace {

namespace fs = std::filesystem;

struct Corpus {
  const char* name;
  void (*target)(Bytes);
};
void PrintTo(const Corpus& corpus, std::ostream* out) { *out << corpus.name; }

class FuzzCorpus : public testing::TestWithParam<Corpus> {};

TEST_P(FuzzCorpus, EveryKeptInputKeepsThePromises) {
  const fs::path directory = fs::path(RUNMAX_CORPUS_DIR) / GetParam().name;
  std::size_t inputs = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
    SCOPED_TRACE(entry.path().string());
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string content(std::istreambuf_iterator<char>(file), {});
    GetParam().target({reinterpret_cast<const std::byte*>(content.data()), content.size()});
    ++inputs;
  }
  EXPECT_GE(inputs, 10u) << directory << " holds next to nothing";
}

INSTANTIATE_TEST_SUITE_P(All, FuzzCorpus,
                         testing::Values(Corpus{"npy", npy_target}, Corpus{"safetensors", safetensors_target},
                                         Corpus{"problem", problem_target}));

}  // namespace
}  // namespace runmax::fuzz
