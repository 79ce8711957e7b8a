#include "graph/file.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>

#include <catch2/catch.hpp>

#include "base/temporary_folder.h"

namespace rewright::graph {

namespace {
std::size_t entries(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}
}  // namespace

TEST_CASE("a file is replaced as a whole or not at all") {
  const TemporaryFolder folder;
  const auto file = folder / "a";
  write_file(file, "old");
  {
    FileWriter writer(file);
    writer.write("new");
    writer.finish();
    CHECK(map_file(file).text() == "old");
  }
  CHECK(map_file(file).text() == "old");
  CHECK(entries(folder.path()) == 1);
  const FileBytes mapped = map_file(file);
  FileWriter writer(file);
  writer.write(std::string(3 << 20, 'x'));
  writer.write("end");
  writer.commit();
  CHECK(map_file(file).text().size() == (3 << 20) + 3);
  CHECK(mapped.text() == "old");
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("a file in use is mapped once, and anew where it is another one") {
  const TemporaryFolder folder;
  const auto file = folder / "a";
  write_file(file, "old");
  std::filesystem::create_symlink("a", folder / "link");
  const FileBytes first = map_file(file);
  CHECK(map_file(file).bytes.data() == first.bytes.data());
  CHECK(map_file(folder / "link").bytes.data() == first.bytes.data());
  write_file(folder / "other", "old");
  CHECK(map_file(folder / "other").bytes.data() != first.bytes.data());
  write_file(file, "new");
  const FileBytes second = map_file(file);
  CHECK(second.text() == "new");
  CHECK(first.text() == "old");
  std::filesystem::remove(file);
  CHECK(second.text() == "new");
}

TEST_CASE("a link stays a link") {
  const TemporaryFolder folder;
  write_file(folder / "target", "old");
  std::filesystem::create_symlink("target", folder / "link");
  write_file(folder / "link", "new");
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(map_file(folder / "target").text() == "new");
}

TEST_CASE("files that cannot be read or written are errors with their name") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(map_file(folder / "none"), Catch::Contains("none") && Catch::Contains("No such file"));
  CHECK_THROWS_WITH(map_file(folder.path()), Catch::Contains("directory"));
  CHECK_THROWS_WITH(write_file(folder / "no/such", "x"), Catch::Contains("cannot be written"));
}

TEST_CASE("no space: an error, and the old file") {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{4096, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &tight);
  std::string message;
  try {
    write_file(folder / "a", std::string(1 << 20, 'x'));
  } catch (const Error& error) {
    message = error.what();
    CHECK(error.code() == ErrorCode::kMissing);
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK_THAT(message, Catch::Contains("cannot be written"));
  CHECK(map_file(folder / "a").text() == "old");
  CHECK(entries(folder.path()) == 1);
}

}  // namespace rewright::graph
