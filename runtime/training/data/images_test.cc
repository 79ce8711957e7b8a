#include "runtime/training/data/images.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "base/temporary_folder.h"
#include "graph/file.h"
#include "runtime/training/data/data_files.h"

namespace rewright::training {
namespace {

const Index kImages = Index::symbol("N");

WantedData wanted_images(std::int64_t channels, std::int64_t height, std::int64_t width) {
  WantedData result;
  result.inputs = {{"x", {DataType::kFloat, {kImages, channels, height, width}}}};
  result.targets = {DataType::kInt64, {kImages}};
  return result;
}

Image random_image(std::int64_t height, std::int64_t width, std::int64_t channels, std::mt19937& random) {
  Image p{height, width, channels, {}};
  for (std::int64_t n = 0; n < height * width * channels; ++n) p.pixels.push_back(static_cast<std::uint8_t>(random()));
  return p;
}

void write_pnm(const Image& image, const std::filesystem::path& file) {
  write_file(file, (image.channels == 1 ? "P5 " : "P6 ") + std::to_string(image.width) + " " + std::to_string(image.height) +
                       " 255\n" + std::string(image.pixels.begin(), image.pixels.end()));
}

TEST_CASE("resizing keeps a plane, and what has the right size already") {
  std::mt19937 random(2);
  const Image same = random_image(5, 7, 3, random);
  const std::vector<float> kept = resized(same, 5, 7);
  for (std::int64_t c = 0; c < 3; ++c)
    for (std::int64_t n = 0; n < 35; ++n)
      CHECK(kept[static_cast<std::size_t>(c * 35 + n)] == same.pixels[static_cast<std::size_t>(n * 3 + c)]);
  for (int n = 0; n < 30; ++n) {
    const std::int64_t height = 1 + random() % 40, width = 1 + random() % 40, to_height = 1 + random() % 30,
                       to_width = 1 + random() % 30;
    Image plane{height, width, 1, {}};
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x) plane.pixels.push_back(static_cast<std::uint8_t>(40 + 2 * y + 3 * x));
    const std::vector<float> r = resized(plane, to_height, to_width);
    // Away from the edges, a mean with symmetric weights equals the plane's value.
    const double ratio_y = static_cast<double>(height) / to_height, ratio_x = static_cast<double>(width) / to_width;
    for (std::int64_t y = 0; y < to_height; ++y)
      for (std::int64_t x = 0; x < to_width; ++x) {
        const double cy = (y + 0.5) * ratio_y - 0.5, cx = (x + 0.5) * ratio_x - 0.5;
        const auto inside = [](double c, double ratio, std::int64_t size) {
          return c - std::max(1.0, ratio) >= 0 && c + std::max(1.0, ratio) <= size - 1;
        };
        if (!inside(cy, ratio_y, height) || !inside(cx, ratio_x, width)) continue;
        // Weights are sampled at whole positions, so the mean is off by the error of that sampling.
        CHECK(r[static_cast<std::size_t>(y * to_width + x)] == Approx(40 + 2 * cy + 3 * cx).margin(1.0));
      }
  }
}

TEST_CASE("a folder for each class is a data set") {
  const TemporaryFolder folder;
  std::mt19937 random(3);
  for (const char* name : {"dog", "cat"}) std::filesystem::create_directories(folder / "data" / name);
  const Image image = random_image(4, 6, 3, random);
  write_pnm(image, folder / "data/cat/b.PPM");
  write_pnm(random_image(9, 9, 3, random), folder / "data/cat/a.ppm");
  write_pnm(random_image(8, 2, 1, random), folder / "data/dog/c.pgm");
  write_file(folder / "data/dog/notes.txt", "not an image");
  WantedData what = wanted_images(3, 4, 6);
  what.mean = {0.5, 0.25, 0}, what.deviation = {2};
  const Dataset data = read_dataset(folder / "data", what);
  CHECK(data.size() == 3);
  CHECK(data.column("targets").tensor()->integers() == std::vector<std::int64_t>{0, 0, 1});
  const std::vector<std::int64_t> which{1, 2};
  const Tensor rows = data.rows("x", which);
  REQUIRE(rows.sizes() == Sizes{2, 3, 4, 6});
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t n = 0; n < 24; ++n)
      CHECK(rows.data<float>()[c * 24 + n] == Approx((image.pixels[n * 3 + c] / 255.0 - what.mean[c]) / 2).margin(1e-6));
  CHECK(data.column("x").place(2).ends_with("data/dog/c.pgm"));
  CHECK(data.column("targets").place(2).ends_with("data/dog/c.pgm"));

  // The extension tells that a file is an image, its bytes the format.
  for (const char* extension : {".jpg", ".jpeg", ".png", ".bmp", ".pnm", ".WebP", ".tif", ".tiff", ".jp2", ".j2k"})
    write_pnm(image, folder / ("data/dog/d" + std::string(extension)));
  CHECK(read_dataset(folder / "data", what).size() == 13);

  what.mean = {1, 2};
  CHECK_THROWS_WITH(read_dataset(folder / "data", what), Catch::Contains("2 numbers as the mean of 3 channels"));
  what.mean.clear(), what.deviation = {0};
  CHECK_THROWS_WITH(read_dataset(folder / "data", what), Catch::Contains("positive"));
  CHECK_THROWS_WITH(read_dataset(folder / "data", wanted_images(2, 4, 4)), Catch::Contains("not [N, 1 or 3, height, width]"));
  WantedData of_reals = wanted_images(3, 4, 4);
  of_reals.targets = {DataType::kFloat, {kImages, 1}};
  CHECK_THROWS_WITH(read_dataset(folder / "data", of_reals), Catch::Contains("holds classes"));
  std::filesystem::create_directory(folder / "data/empty");
  CHECK_THROWS_WITH(read_dataset(folder / "data", wanted_images(3, 4, 4)), Catch::Contains("holds no images"));
}

}  // namespace
}  // namespace rewright::training
