#include "runtime/training/pictures.h"

#include <png.h>
#include <turbojpeg.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "graph/file.h"
#include "graph/temporary_folder.h"

namespace rewright {
namespace {

const Index kExamples = Index::symbol("N");

WantedData wanted(std::int64_t channels, std::int64_t height, std::int64_t width) {
  WantedData result;
  result.inputs = {{"x", {DataType::kFloat, {kExamples, channels, height, width}}}};
  result.targets = {DataType::kInt64, {kExamples}};
  return result;
}

Picture random_picture(std::int64_t height, std::int64_t width, std::int64_t channels, std::mt19937& random) {
  Picture p{height, width, channels, {}};
  for (std::int64_t n = 0; n < height * width * channels; ++n) p.pixels.push_back(static_cast<std::uint8_t>(random()));
  return p;
}

void write_png(const Picture& picture, const std::filesystem::path& file) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width), image.height = static_cast<png_uint_32>(picture.height);
  image.format = picture.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  REQUIRE(png_image_write_to_file(&image, file.c_str(), 0, picture.pixels.data(), 0, nullptr) != 0);
}

void write_jpeg(const Picture& picture, const std::filesystem::path& file) {
  tjhandle encoder = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  REQUIRE(tjCompress2(encoder, picture.pixels.data(), static_cast<int>(picture.width), 0, static_cast<int>(picture.height),
                      picture.channels == 1 ? TJPF_GRAY : TJPF_RGB, &bytes, &size,
                      picture.channels == 1 ? TJSAMP_GRAY : TJSAMP_444, 95, 0) == 0);
  write_file(file, std::string_view(reinterpret_cast<const char*>(bytes), size));
  tjFree(bytes);
  tjDestroy(encoder);
}

TEST_CASE("PNG files are read as they were written, JPEG files nearly so") {
  const TemporaryFolder folder;
  std::mt19937 random(1);
  for (int n = 0; n < 20; ++n) {
    const std::int64_t channels = n % 2 ? 1 : 3;
    const Picture picture = random_picture(1 + random() % 20, 1 + random() % 20, channels, random);
    write_png(picture, folder / "p.png");
    const Picture read = read_picture(folder / "p.png", channels);
    CHECK((read.height == picture.height && read.width == picture.width && read.pixels == picture.pixels));
  }
  Picture smooth{16, 24, 3, {}};
  for (std::int64_t y = 0; y < 16; ++y)
    for (std::int64_t x = 0; x < 24; ++x)
      for (const std::int64_t value : {8 * y, 10 * x, 100 + y}) smooth.pixels.push_back(static_cast<std::uint8_t>(value));
  write_jpeg(smooth, folder / "p.jpg");
  const Picture read = read_picture(folder / "p.jpg", 3);
  REQUIRE((read.height == 16 && read.width == 24));
  for (std::size_t k = 0; k < smooth.pixels.size(); ++k) CHECK(std::abs(read.pixels[k] - smooth.pixels[k]) < 12);
}

TEST_CASE("resizing keeps a plane, and what has the right size already") {
  std::mt19937 random(2);
  const Picture same = random_picture(5, 7, 3, random);
  const std::vector<float> kept = resized(same, 5, 7);
  for (std::int64_t c = 0; c < 3; ++c)
    for (std::int64_t n = 0; n < 35; ++n)
      CHECK(kept[static_cast<std::size_t>(c * 35 + n)] == same.pixels[static_cast<std::size_t>(n * 3 + c)]);
  for (int n = 0; n < 30; ++n) {
    const std::int64_t height = 1 + random() % 40, width = 1 + random() % 40, to_height = 1 + random() % 30,
                       to_width = 1 + random() % 30;
    Picture plane{height, width, 1, {}};
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x) plane.pixels.push_back(static_cast<std::uint8_t>(40 + 2 * y + 3 * x));
    const std::vector<float> r = resized(plane, to_height, to_width);
    // Away from the edges a mean with weights that are as large on both sides is the value of the plane itself.
    const double ratio_y = static_cast<double>(height) / to_height, ratio_x = static_cast<double>(width) / to_width;
    for (std::int64_t y = 0; y < to_height; ++y)
      for (std::int64_t x = 0; x < to_width; ++x) {
        const double cy = (y + 0.5) * ratio_y - 0.5, cx = (x + 0.5) * ratio_x - 0.5;
        const auto inside = [](double c, double ratio, std::int64_t size) {
          return c - std::max(1.0, ratio) >= 0 && c + std::max(1.0, ratio) <= size - 1;
        };
        if (!inside(cy, ratio_y, height) || !inside(cx, ratio_x, width)) continue;
        // Weights at whole places only: the mean of a plane is off by what the sampling of the triangle leaves.
        CHECK(r[static_cast<std::size_t>(y * to_width + x)] == Approx(40 + 2 * cy + 3 * cx).margin(1.0));
      }
  }
}

TEST_CASE("a folder for each class is a data set") {
  const TemporaryFolder folder;
  std::mt19937 random(3);
  for (const char* name : {"dog", "cat"}) std::filesystem::create_directories(folder / "data" / name);
  const Picture picture = random_picture(4, 6, 3, random);
  write_png(picture, folder / "data/cat/b.PNG");
  write_jpeg(random_picture(9, 9, 3, random), folder / "data/cat/a.jpeg");
  write_png(random_picture(8, 2, 1, random), folder / "data/dog/c.png");
  write_file(folder / "data/dog/notes.txt", "not a picture");
  WantedData what = wanted(3, 4, 6);
  what.mean = {0.5, 0.25, 0}, what.deviation = {2};
  const Dataset data = read_dataset(folder / "data", what);
  CHECK(data.size() == 3);
  CHECK(data.column("targets").tensor()->integers() == std::vector<std::int64_t>{0, 0, 1});
  const std::vector<std::int64_t> which{1, 2};
  const Tensor rows = data.rows("x", which);
  REQUIRE(rows.sizes() == Sizes{2, 3, 4, 6});
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t n = 0; n < 24; ++n)
      CHECK(rows.data<float>()[c * 24 + n] == Approx((picture.pixels[n * 3 + c] / 255.0 - what.mean[c]) / 2).margin(1e-6));
  CHECK(data.column("x").place(2).ends_with("data/dog/c.png"));
  CHECK(data.column("targets").place(2).ends_with("data/dog/c.png"));

  what.mean = {1, 2};
  CHECK_THROWS_WITH(read_dataset(folder / "data", what), Catch::Contains("2 numbers as the mean of 3 channels"));
  what.mean.clear(), what.deviation = {0};
  CHECK_THROWS_WITH(read_dataset(folder / "data", what), Catch::Contains("positive"));
  CHECK_THROWS_WITH(read_dataset(folder / "data", wanted(2, 4, 4)), Catch::Contains("not [N, 1 or 3, height, width]"));
  WantedData of_reals = wanted(3, 4, 4);
  of_reals.targets = {DataType::kFloat, {kExamples, 1}};
  CHECK_THROWS_WITH(read_dataset(folder / "data", of_reals), Catch::Contains("holds classes"));
  std::filesystem::create_directory(folder / "data/empty");
  CHECK_THROWS_WITH(read_dataset(folder / "data", wanted(3, 4, 4)), Catch::Contains("holds no JPEG or PNG files"));
}

TEST_CASE("damaged pictures are refused in one line, and take no more memory than they claim") {
  const TemporaryFolder folder;
  std::mt19937 random(4);
  const Picture picture = random_picture(12, 10, 3, random);
  write_png(picture, folder / "good.png");
  write_jpeg(picture, folder / "good.jpg");
  for (const char* name : {"good.png", "good.jpg"}) {
    const std::string bytes(map_file(folder / name).text());
    const auto attempt = [&](const std::string& damaged) {
      write_file(folder / "bad", damaged);
      try {
        read_picture(folder / "bad", 3);
        return true;
      } catch (const Error& e) {
        CHECK(e.code() == ErrorCode::kBadInput);
        CHECK(std::string(e.what()).find('\n') == std::string::npos);
        return false;
      }
    };
    CHECK(attempt(bytes));
    for (std::size_t length = 0; length < bytes.size() / 2; length += 3) CHECK(!attempt(bytes.substr(0, length)));
    for (int n = 0; n < 300; ++n) {
      std::string damaged = bytes;
      damaged[random() % damaged.size()] = static_cast<char>(random());
      attempt(damaged);  // either
    }
  }
  std::string huge(map_file(folder / "good.png").text());
  for (int k = 16; k < 24; k += 4) huge.replace(static_cast<std::size_t>(k), 4, std::string("\x00\x0f\xff\xff", 4));
  write_file(folder / "bad", huge);
  CHECK_THROWS_AS(read_picture(folder / "bad", 3), Error);
  write_file(folder / "bad", "GIF89a");
  CHECK_THROWS_WITH(read_picture(folder / "bad", 3), Catch::Contains("neither"));
}

}  // namespace
}  // namespace rewright
