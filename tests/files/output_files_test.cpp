// Outputs appear whole or not at all, whatever goes wrong.
#include "files/output_files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>

#include "files/file_bytes.hpp"

namespace runmax::files {
namespace {

namespace fs = std::filesystem;

class OutputFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "runmax-output-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory = name;
  }
  void TearDown() override { fs::remove_all(directory); }

  std::string at(const std::string& name) const { return (directory / name).string(); }

  // Names in the directory, hidden ones included.
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory))
      found.insert(entry.path().filename().string());
    return found;
  }
  std::string content(const std::string& name) const {
    std::ifstream file(at(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void put(const std::string& name, const std::string& text) const {
    std::ofstream(at(name), std::ios::binary) << text;
  }

  fs::path directory;
};

// Runs `body` in a child process and returns how it ended, as waitpid says it.
int in_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int ended = 0;
  ::waitpid(child, &ended, 0);
  return ended;
}

TEST_F(OutputFilesTest, NothingIsVisibleBeforeTheCommit) {
  put("o", "old");
  OutputFiles out;
  ASSERT_TRUE(out.add(at("o"), {bytes_of("new "), bytes_of("content")}).ok());
  ASSERT_TRUE(out.add(at("lse"), {bytes_of("more")}).ok());
  EXPECT_EQ(content("o"), "old");
  EXPECT_FALSE(fs::exists(at("lse")));
  ASSERT_TRUE(out.commit().ok());
  EXPECT_EQ(content("o"), "new content");
  EXPECT_EQ(content("lse"), "more");
  EXPECT_EQ(names(), (std::set<std::string>{"lse", "o"}));
}

TEST_F(OutputFilesTest, WithoutACommitNothingIsLeft) {
  put("o", "old");
  {
    OutputFiles out;
    ASSERT_TRUE(out.add(at("o"), {bytes_of("new")}).ok());
    ASSERT_TRUE(out.add(at("lse"), {bytes_of("new")}).ok());
    EXPECT_EQ(names().size(), 3u);
  }
  EXPECT_EQ(names(), std::set<std::string>{"o"});
  EXPECT_EQ(content("o"), "old");
}

TEST_F(OutputFilesTest, IfTheSecondCannotBePlacedTheFirstIsAsItWas) {
  for (const bool old_first : {true, false}) {
    if (old_first) put("o", "old");
    OutputFiles out;
    ASSERT_TRUE(out.add(at("o"), {bytes_of("new")}).ok());
    ASSERT_TRUE(out.add(at("lse"), {bytes_of("new")}).ok());
    // Something takes the second name meanwhile.
    fs::create_directory(at("lse"));
    const Status status = out.commit();
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.message().rfind(at("lse") + ": cannot be", 0), 0u) << status.message();
    if (old_first) {
      EXPECT_EQ(names(), (std::set<std::string>{"lse", "o"}));
      EXPECT_EQ(content("o"), "old");
    } else {
      EXPECT_EQ(names(), std::set<std::string>{"lse"});
    }
    EXPECT_TRUE(fs::is_directory(at("lse")));
    fs::remove(at("lse"));
    fs::remove(at("o"));
  }
}

TEST_F(OutputFilesTest, AFileSizeLimitFailsTheWriteAndLeavesNothing) {
  put("o", "old");
  const int ended = in_child([&] {
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    OutputFiles out;
    const std::string big(5000, 'x');
    if (!out.add(at("lse"), {bytes_of("small")}).ok()) ::_exit(10);
    const Status status = out.add(at("o"), {bytes_of(big)});
    if (status.message() != at("o") + ": cannot be written: File too large") ::_exit(11);
    if (out.commit().ok()) ::_exit(12);
  });
  ASSERT_TRUE(WIFEXITED(ended)) << "killed by signal " << WTERMSIG(ended);
  EXPECT_EQ(WEXITSTATUS(ended), 0);
  EXPECT_EQ(names(), std::set<std::string>{"o"});
  EXPECT_EQ(content("o"), "old");
}

TEST_F(OutputFilesTest, AFullDiskFailsTheWriteAndLeavesNothing) {
  if (::mount("tmpfs", directory.c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "cannot mount a small tmpfs here: " << std::strerror(errno);
  put("o", "old");
  {
    OutputFiles out;
    const std::string big(1 << 20, 'x');
    EXPECT_TRUE(out.add(at("lse"), {bytes_of("small")}).ok());
    const Status status = out.add(at("o"), {bytes_of(big)});
    EXPECT_EQ(status.message(), at("o") + ": cannot be written: No space left on device");
    EXPECT_FALSE(out.commit().ok());
    EXPECT_EQ(names(), std::set<std::string>{"o"});
    EXPECT_EQ(content("o"), "old");
  }
  ::umount(directory.c_str());
}

class OutputFilesSignal : public OutputFilesTest, public testing::WithParamInterface<int> {};

TEST_P(OutputFilesSignal, EndsTheProgramAndLeavesNothing) {
  const int ended = in_child([&] {
    OutputFiles out;
    if (!out.add(at("o"), {bytes_of("new")}).ok()) ::_exit(10);
    if (!out.add(at("lse"), {bytes_of("new")}).ok()) ::_exit(11);
    ::kill(::getpid(), GetParam());
  });
  ASSERT_TRUE(WIFSIGNALED(ended));
  EXPECT_EQ(WTERMSIG(ended), GetParam());
  EXPECT_TRUE(names().empty()) << *names().begin();
}
INSTANTIATE_TEST_SUITE_P(All, OutputFilesSignal, testing::Values(SIGINT, SIGTERM, SIGHUP));

TEST_F(OutputFilesTest, AnIgnoredSignalStaysIgnored) {
  const int ended = in_child([&] {
    std::signal(SIGHUP, SIG_IGN);
    OutputFiles out;
    if (!out.add(at("o"), {bytes_of("new")}).ok()) ::_exit(10);
    ::kill(::getpid(), SIGHUP);
    if (!out.commit().ok()) ::_exit(11);
  });
  ASSERT_TRUE(WIFEXITED(ended));
  EXPECT_EQ(WEXITSTATUS(ended), 0);
  EXPECT_EQ(content("o"), "new");
}

TEST_F(OutputFilesTest, TheHandlersOfTheProgramAreRestored) {
  static volatile std::sig_atomic_t seen = 0;
  const auto previous = std::signal(SIGTERM, [](int) { seen = 1; });
  {
    OutputFiles out;
    ASSERT_TRUE(out.add(at("o"), {bytes_of("new")}).ok());
    ASSERT_TRUE(out.commit().ok());
  }
  std::raise(SIGTERM);
  EXPECT_EQ(seen, 1);
  std::signal(SIGTERM, previous);
}

TEST_F(OutputFilesTest, AReplacedFileKeepsItsPermissionsANewOneFollowsTheUmask) {
  put("old", "old");
  fs::permissions(at("old"), fs::perms::owner_read | fs::perms::owner_write);
  const mode_t umask = ::umask(027);
  OutputFiles out;
  ASSERT_TRUE(out.add(at("old"), {bytes_of("x")}).ok());
  ASSERT_TRUE(out.add(at("new"), {bytes_of("x")}).ok());
  ASSERT_TRUE(out.commit().ok());
  ::umask(umask);
  EXPECT_EQ(fs::status(at("old")).permissions(), fs::perms(0600));
  EXPECT_EQ(fs::status(at("new")).permissions(), fs::perms(0640));
}

TEST_F(OutputFilesTest, ASymbolicLinkIsFollowedNotReplaced) {
  fs::create_directory(at("there"));
  put("there/real", "old");
  fs::create_symlink("there/real", at("link"));
  OutputFiles out;
  ASSERT_TRUE(out.add(at("link"), {bytes_of("new")}).ok());
  ASSERT_TRUE(out.commit().ok());
  EXPECT_TRUE(fs::is_symlink(at("link")));
  EXPECT_EQ(content("there/real"), "new");
}

TEST_F(OutputFilesTest, DestinationsThatCannotBeAreRefusedByName) {
  const auto error = [](const std::string& path) { return check_destination(path).message(); };
  EXPECT_EQ(error(at("no/such/o")),
            at("no/such/o") + ": the directory cannot be used: No such file or directory");
  EXPECT_EQ(error("/dev/null"), "/dev/null: exists and is not a regular file");
  EXPECT_EQ(error(directory.string()), directory.string() + ": exists and is not a regular file");
  put("file", "x");
  EXPECT_EQ(error(at("file/o")), at("file/o") + ": the directory cannot be used: Not a directory");
  EXPECT_EQ(error(at("o")), "");
  EXPECT_EQ(error(at("file")), "");
}

TEST_F(OutputFilesTest, ADirectoryWithoutWritePermissionIsRefused) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  fs::permissions(directory, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(check_destination(at("o")).message(),
            at("o") + ": the directory cannot be written to: Permission denied");
  fs::permissions(directory, fs::perms::owner_all);
}

}  // namespace
}  // namespace runmax::files
