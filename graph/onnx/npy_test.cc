#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "base/temporary_folder.h"
#include "graph/file.h"
#include "graph/onnx/onnx.h"
#include "operators/texts.h"

namespace rewright::graph {

TEST_CASE("tensors go through .npy files unchanged") {
  const TemporaryFolder folder;
  const auto file = folder / "t.npy";
  for (DataType type :
       {DataType::kFloat, DataType::kDouble, DataType::kHalf, DataType::kInt8, DataType::kInt64, DataType::kBool})
    for (Sizes sizes : {Sizes{}, Sizes{3}, Sizes{2, 3}, Sizes{0, 4}}) {
      const std::vector<double> values(static_cast<std::size_t>(element_count(sizes)), 1);
      const Tensor tensor = Tensor::from_reals(type, sizes, values);
      write_npy(tensor, file);
      CHECK(read_npy(file) == tensor);
      CHECK((map_file(file).bytes.size() - tensor.byte_count()) % 64 == 0);
    }
}

TEST_CASE("column-major .npy files are put in order") {
  const TemporaryFolder folder;
  const auto file = folder / "t.npy";
  write_npy(Tensor::from_integers(DataType::kInt32, {2, 3}, std::vector<std::int64_t>{1, 4, 2, 5, 3, 6}), file);
  std::string bytes(map_file(file).text());
  bytes.replace(bytes.find("False"), 5, "True ");
  write_file(file, bytes);
  CHECK(read_npy(file).integers() == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("strings go through .npy files unchanged") {
  const TemporaryFolder folder;
  const auto file = folder / "t.npy";
  for (const Sizes& sizes : {Sizes{}, Sizes{40}, Sizes{3, 5}, Sizes{0, 4}}) {
    const Tensor texts = random_texts(sizes, 7);
    write_npy(texts, file);
    CHECK(read_npy(file) == texts);
  }
  const Tensor odd = Tensor::from_strings({4}, {"\xff\xc3", std::string("a\0b", 3), "\xf0\x9f\x99\x82", "\xe2\x82"});
  write_npy(odd, file);
  CHECK(read_npy(file) == odd);
  CHECK_THROWS_WITH(write_npy(Tensor::from_strings({1}, {std::string("a\0", 2)}), file), Catch::Contains("end with a zero"));
}

TEST_CASE("NumPy's bytes are strings, its objects are not read") {
  const TemporaryFolder folder;
  const auto file = folder / "t.npy";
  write_npy(Tensor::from_integers(DataType::kInt32, {2}, std::vector<std::int64_t>{0x00636261, 0x64}), file);
  std::string bytes(map_file(file).text());
  bytes.replace(bytes.find("<i4"), 3, "|S4");
  write_file(file, bytes);
  CHECK(read_npy(file) == Tensor::from_strings({2}, {"abc", "d"}));
  bytes.replace(bytes.find("|S4"), 3, "|O8");
  write_file(file, bytes);
  CHECK_THROWS_WITH(read_npy(file), Catch::Contains("'|O8'"));
  bytes.replace(bytes.find("|O8"), 3, "<U9");
  write_file(file, bytes);
  CHECK_THROWS_WITH(read_npy(file), Catch::Contains("ends too early"));
}

TEST_CASE("broken .npy files are refused") {
  const TemporaryFolder folder;
  const auto file = folder / "t.npy";
  write_npy(Tensor::from_integers(DataType::kInt32, {2}, std::vector<std::int64_t>{1, 2}), file);
  const std::string bytes(map_file(file).text());
  write_file(file, bytes.substr(0, bytes.size() - 1));
  CHECK_THROWS_WITH(read_npy(file), Catch::Contains("ends too early"));
  write_file(file, bytes.substr(0, 40));
  CHECK_THROWS_WITH(read_npy(file), Catch::Contains("ends within its header"));
  write_file(file, "hello");
  CHECK_THROWS_WITH(read_npy(file), Catch::Contains("is not an .npy file"));
  CHECK_THROWS_WITH(read_npy(folder / "none.npy"), Catch::Contains("cannot be read"));
}

}  // namespace rewright::graph
