#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "graph/file.h"
#include "graph/onnx.h"
#include "graph/temporary_folder.h"

namespace rewright {

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

}  // namespace rewright
