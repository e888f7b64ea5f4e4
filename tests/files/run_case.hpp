// `runmax run` in a directory of its own, on files made by hand.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "files/file_bytes.hpp"
#include "files/npy.hpp"

namespace runmax::cli {

namespace fs = std::filesystem;
using files::Shape;

struct Outcome {
  ExitCode code;
  std::string out, error;
};

class Run : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "runmax-run-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory = name;
    arguments.device = "cpu";
    arguments.q = at("q.npy");
    arguments.k = at("k.npy");
    arguments.v = at("v.npy");
    arguments.out = at("o.npy");
  }
  void TearDown() override { fs::remove_all(directory); }

  std::string at(const std::string& name) const { return (directory / name).string(); }

  void put(const std::string& name, const std::string& text) const {
    std::ofstream(at(name), std::ios::binary) << text;
  }
  // An array whose values count up in steps of 1/8.
  void put_npy(const std::string& name, const Shape& shape) const {
    std::uint64_t count = 0;
    ASSERT_TRUE(files::count_elements(shape, 1 << 20, count));
    std::vector<float> values(count);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 16) / 8;
    put(name, files::npy_header(shape) + files::raw(values));
  }
  void put_qkv(const Shape& q, const Shape& k, const Shape& v) const {
    put_npy("q.npy", q);
    put_npy("k.npy", k);
    put_npy("v.npy", v);
  }

  Outcome run() const {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const ExitCode code = run_command(arguments);
    std::fflush(stdout);
    std::string out = testing::internal::GetCapturedStdout();
    return {code, out, testing::internal::GetCapturedStderr()};
  }

  // Runs, and checks the ways in which every refusal is alike: exit code 2, one line, nothing written.
  std::string refusal() const {
    const std::set<std::string> before = names();
    const Outcome outcome = run();
    EXPECT_EQ(outcome.code, ExitCode::bad_input);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(std::count(outcome.error.begin(), outcome.error.end(), '\n'), 1) << outcome.error;
    EXPECT_EQ(names(), before);
    // Messages without the name of this run's directory.
    std::string text = outcome.error;
    for (std::size_t found; (found = text.find(directory.string() + "/")) != std::string::npos;)
      text.erase(found, directory.string().size() + 1);
    EXPECT_EQ(text.rfind("runmax: ", 0), 0u) << text;
    return text.size() > 9 ? text.substr(8, text.size() - 9) : text;
  }

  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory))
      found.insert(entry.path().filename().string());
    return found;
  }

  files::FloatArray read(const std::string& name) const { return files::read_npy(at(name)).value(); }

  fs::path directory;
  RunArguments arguments;
};

}  // namespace runmax::cli
