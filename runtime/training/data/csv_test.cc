#include "runtime/training/data/csv.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <limits>
#include <random>

#include "base/temporary_folder.h"
#include "graph/file.h"
#include "runtime/training/data/data_files.h"

namespace rewright::training {
namespace {

const Index kExamples = Index::symbol("N");

WantedData wanted(std::int64_t columns, TensorType targets = {DataType::kInt64, {kExamples}}) {
  WantedData result;
  result.inputs = {{"x", {DataType::kFloat, {kExamples, columns}}}};
  result.targets = std::move(targets);
  return result;
}

struct Csv {
  TemporaryFolder folder;
  Dataset read(const std::string& text, const WantedData& what) const {
    write_file(folder / "data.csv", text);
    return read_dataset(folder / "data.csv", what);
  }
  std::string refused(const std::string& text, const WantedData& what) const {
    try {
      read(text, what);
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::kBadInput);
      const std::string line = e.what();
      CHECK(line.find('\n') == std::string::npos);
      return line.substr(folder.path().string().size() + 1);
    }
    return "it was read";
  }
};

TEST_CASE("numbers of a table are read as they were written, however cells are quoted and lines end") {
  const Csv csv;
  std::mt19937 random(1);
  for (int n = 0; n < 50; ++n) {
    const std::size_t columns = 1 + random() % 5, rows = 1 + random() % 6, target = random() % (columns + 1);
    const std::string end = random() % 2 ? "\n" : "\r\n";
    std::string text = random() % 2 ? "\xef\xbb\xbf" : "";
    std::vector<float> numbers;
    std::vector<std::int64_t> classes;
    const auto cell = [&](const std::string& content, bool last) {
      text += (random() % 3 == 0 ? '"' + content + '"' : content) + (last ? end : ",");
    };
    for (std::size_t c = 0; c <= columns; ++c) cell(c == target ? "target" : "c" + std::to_string(c), c == columns);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c <= columns; ++c) {
        char number[40];
        if (c == target) {
          classes.push_back(static_cast<std::int64_t>(random() % 10));
          std::snprintf(number, sizeof number, "%s%d", random() % 2 ? " " : "", static_cast<int>(classes.back()));
        } else {
          numbers.push_back(std::ldexp(static_cast<float>(random()), static_cast<int>(random() % 60) - 60));
          std::snprintf(number, sizeof number, "%s%.9g", random() % 2 ? "+" : "", numbers.back());
        }
        cell(number, c == columns);
      }
    if (random() % 2) text += end;                            // an empty line
    if (random() % 2) text.resize(text.size() - end.size());  // no end of the last line
    const Dataset data = csv.read(text, wanted(static_cast<std::int64_t>(columns)));
    REQUIRE(data.size() == static_cast<std::int64_t>(rows));
    const auto x = data.column("x").tensor()->data<float>();
    CHECK(std::vector<float>(x.begin(), x.end()) == numbers);
    CHECK(data.column("targets").tensor()->integers() == classes);
  }
}

TEST_CASE("quoted names may hold commas, quotes and lines") {
  const Csv csv;
  WantedData what = wanted(1);
  what.target_column = "the \"class\",\nof it";
  const Dataset data = csv.read("\"the \"\"class\"\",\nof it\",a\n1,0.5\n\n0,2\n", what);
  CHECK(data.column("targets").tensor()->integers() == std::vector<std::int64_t>{1, 0});
  CHECK(data.column("targets").place(0).ends_with("data.csv:3"));
  CHECK(data.column("x").place(1).ends_with("data.csv:5"));
}

TEST_CASE("several inputs take columns by their names") {
  const Csv csv;
  WantedData what = wanted(1, {DataType::kFloat, {kExamples, 1}});
  what.inputs = {{"b", {DataType::kInt64, {kExamples}}}, {"a", {DataType::kFloat, {kExamples, 1}}}};
  const Dataset data = csv.read("a,unused,target,b\n0.5,9,1.5,3\n", what);
  CHECK(data.column("a").tensor()->reals() == std::vector<double>{0.5});
  CHECK(data.column("b").tensor()->integers() == std::vector<std::int64_t>{3});
  CHECK(data.column("targets").tensor()->sizes() == Sizes{1, 1});
  CHECK(csv.refused("a,target,b\n1,2,0.5\n", what) == "data.csv:2: column 'b' holds 0.5, must be a whole number");
}

TEST_CASE("what is no table of numbers is refused by its line") {
  const Csv csv;
  const WantedData one = wanted(1);
  CHECK(csv.refused("", one) == "data.csv: is empty");
  CHECK(csv.refused("a,b\n1,2\n", one) == "data.csv:1: there is no column 'target'");
  CHECK(csv.refused("target,target\n1,2\n", one) == "data.csv:1: there are two columns 'target'");
  CHECK(csv.refused("a,target\n1,2\n,2\n", one) == "data.csv:3: column 'a' is empty");
  CHECK(csv.refused("a,target\n1,2\n  ,2\n", one) == "data.csv:3: column 'a' is empty");
  CHECK(csv.refused("a,target\n1,2\nx,2\n", one) == "data.csv:3: column 'a' holds 'x', which is not a finite number");
  CHECK(csv.refused("a,target\nnan,2\n", one) == "data.csv:2: column 'a' holds 'nan', which is not a finite number");
  CHECK(csv.refused("a,target\n1e999,2\n", one) == "data.csv:2: column 'a' holds '1e999', which is not a finite number");
  CHECK(csv.refused("a,target\n1 2,2\n", one) == "data.csv:2: column 'a' holds '1 2', which is not a finite number");
  CHECK(csv.refused("a,target\n1,0.5\n", one) == "data.csv:2: column 'target' holds 0.5, must be a whole number");
  CHECK(csv.refused("a,target\n1\n", one) == "data.csv:2: has 1 cells, the first row names 2");
  CHECK(csv.refused("a,target\n1,2,3\n", one) == "data.csv:2: has 3 cells, the first row names 2");
  CHECK(csv.refused("a,target\n\"1,2\n\n", one) == "data.csv:2: a quoted cell does not end");
  CHECK(csv.refused("a,target\n\"1\"x,2\n", one) == "data.csv:2: a quoted cell is followed by more than a comma");
  CHECK(csv.refused("a,b,target\n1,2,0\n", one).starts_with("data.csv: has 2 columns for 'x', which is "));
  CHECK_THROWS_AS(csv.read("a,target\n", one), Error);
  CHECK_THROWS_AS(read_dataset(csv.folder / "none.csv", one), Error);
}

TEST_CASE("damaged tables are read or refused") {
  const Csv csv;
  std::mt19937 random(3);
  const std::string text = "a,\"b\",target\n1,2,0\n\"3\",4,1\n";
  for (int n = 0; n < 500; ++n) {
    std::string damaged = text;
    for (int k = 0; k < 3; ++k)
      damaged[random() % damaged.size()] = static_cast<char>(random() % 2 ? random() : "\",\n\r1"[random() % 5]);
    csv.refused(damaged.substr(0, random() % 2 ? random() % damaged.size() : damaged.size()), wanted(2));
  }
}

}  // namespace
}  // namespace rewright::training
