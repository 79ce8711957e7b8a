#include "runtime/training/data/images.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/error.h"
#include "graph/file.h"

namespace rewright::training {

namespace {

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why) {
  throw Error(ErrorCode::kBadInput, why, file.string());
}

Image read_image(const std::filesystem::path& file, std::int64_t channels) {
  const FileBytes content = map_file(file);
  const Image image = decode_image(content.bytes, file.string());
  return channels == 1 ? grey(image) : image;
}

// The pixels that are averaged for one position of a resized axis.
struct Weights {
  std::int64_t first = 0;
  std::vector<float> weights;
};

std::vector<Weights> axis_weights(std::int64_t from, std::int64_t to) {
  const double ratio = static_cast<double>(from) / static_cast<double>(to), reach = std::max(1.0, ratio);
  std::vector<Weights> result;
  for (std::int64_t place = 0; place < to; ++place) {
    const double center = (static_cast<double>(place) + 0.5) * ratio - 0.5;
    const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(center - reach)));
    const auto last = std::min<std::int64_t>(from - 1, static_cast<std::int64_t>(std::floor(center + reach)));
    Weights w{first, {}};
    double sum = 0;
    for (std::int64_t n = first; n <= last; ++n) {
      const double weight = std::max(0.0, 1 - std::abs(static_cast<double>(n) - center) / reach);
      w.weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (float& weight : w.weights) weight = static_cast<float>(weight / sum);
    result.push_back(std::move(w));
  }
  return result;
}

class ImageColumn final : public Column {
 public:
  ImageColumn(std::vector<std::filesystem::path> files, Sizes example, std::vector<double> mean, std::vector<double> deviation)
      : files_(std::move(files)), example_(std::move(example)), mean_(std::move(mean)), deviation_(std::move(deviation)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  Tensor rows(std::span<const std::int64_t> which) const override {
    Tensor result(DataType::kFloat, {static_cast<std::int64_t>(which.size()), example_[0], example_[1], example_[2]});
    float* to = result.mutable_data<float>().data();
    const auto plane = static_cast<std::size_t>(example_[1] * example_[2]);
    for (const std::int64_t n : which) {
      const std::vector<float> numbers =
          resized(read_image(files_[static_cast<std::size_t>(n)], example_[0]), example_[1], example_[2]);
      for (std::size_t k = 0; k < numbers.size(); ++k)
        *to++ = static_cast<float>((numbers[k] / 255.0 - mean_[k / plane]) / deviation_[k / plane]);
    }
    return result;
  }
  std::string place(std::int64_t example) const override { return files_[static_cast<std::size_t>(example)].string(); }

 private:
  std::vector<std::filesystem::path> files_;
  Sizes example_;
  std::vector<double> mean_, deviation_;
};

// Extends a list to one number for each channel.
std::vector<double> for_channels(std::vector<double> given, std::int64_t channels, double otherwise, const char* what) {
  if (given.empty()) given.push_back(otherwise);
  if (given.size() == 1) given.resize(static_cast<std::size_t>(channels), given[0]);
  if (static_cast<std::int64_t>(given.size()) != channels)
    throw Error(ErrorCode::kUsage, "there are " + std::to_string(given.size()) + " numbers as " + what + " of " +
                                       std::to_string(channels) + " channels");
  return given;
}

std::vector<std::filesystem::path> sorted_entries(const std::filesystem::path& folder, bool folders) {
  std::vector<std::filesystem::path> result;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    std::string extension = entry.path().extension().string();
    std::transform(extension.begin(), extension.end(), extension.begin(),
                   [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    constexpr std::string_view kImages[] = {".jpg", ".jpeg", ".png", ".bmp",  ".pbm", ".pgm", ".ppm",
                                            ".pnm", ".webp", ".tif", ".tiff", ".jp2", ".j2k"};
    const bool image = std::ranges::find(kImages, extension) != std::end(kImages);
    if (!name.starts_with('.') && (folders ? entry.is_directory() : entry.is_regular_file() && image))
      result.push_back(entry.path());
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace

std::vector<float> resized(const Image& image, std::int64_t height, std::int64_t width) {
  const std::vector<Weights> rows = axis_weights(image.height, height), columns = axis_weights(image.width, width);
  const std::int64_t channels = image.channels;
  // First along rows, which reduces the data that is read with large strides.
  std::vector<float> narrow(static_cast<std::size_t>(image.height * width * channels));
  for (std::int64_t y = 0; y < image.height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (std::int64_t c = 0; c < channels; ++c) {
        const Weights& w = columns[static_cast<std::size_t>(x)];
        const std::uint8_t* from = image.pixels.data() + (y * image.width + w.first) * channels + c;
        float sum = 0;
        for (const float weight : w.weights) sum += weight * static_cast<float>(*std::exchange(from, from + channels));
        narrow[static_cast<std::size_t>((c * image.height + y) * width + x)] = sum;
      }
  std::vector<float> result(static_cast<std::size_t>(channels * height * width));
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t y = 0; y < height; ++y) {
      const Weights& w = rows[static_cast<std::size_t>(y)];
      float* to = result.data() + (c * height + y) * width;
      const float* from = narrow.data() + (c * image.height + w.first) * width;
      for (std::size_t k = 0; k < w.weights.size(); ++k)
        for (std::int64_t x = 0; x < width; ++x) to[x] += w.weights[k] * from[static_cast<std::int64_t>(k) * width + x];
    }
  return result;
}

bool holds_class_folders(const std::filesystem::path& folder) {
  bool folders = false;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".npy") return false;
    folders = folders || entry.is_directory();
  }
  return folders;
}

Dataset read_images(const std::filesystem::path& folder, const WantedData& wanted) {
  if (wanted.inputs.size() != 1) refuse(folder, "holds images, for a model with one input");
  const auto& [name, type] = wanted.inputs[0];
  const bool fits = type.type == DataType::kFloat && type.rank() == 4 &&
                    std::all_of(type.shape.begin() + 1, type.shape.end(), [](const Index& i) { return i.is_constant(); }) &&
                    (type.shape[1].value() == 1 || type.shape[1].value() == 3);
  if (!fits)
    refuse(folder, "holds images, and input '" + name + "' is " + to_string(type) + ", not [N, 1 or 3, height, width]");
  const Sizes example{type.shape[1].value(), type.shape[2].value(), type.shape[3].value()};
  if (wanted.targets.type != DataType::kInt64 || wanted.targets.rank() != 1)
    refuse(folder, "holds classes, and the loss needs targets that are " + to_string(wanted.targets));
  const std::vector<double> mean = for_channels(wanted.mean, example[0], 0, "the mean"),
                            deviation = for_channels(wanted.deviation, example[0], 1, "the deviation");
  if (!std::all_of(deviation.begin(), deviation.end(), [](double d) { return d > 0; }))
    throw Error(ErrorCode::kUsage, "a deviation must be positive");
  std::vector<std::filesystem::path> files;
  std::vector<std::int64_t> classes;
  const std::vector<std::filesystem::path> folders = sorted_entries(folder, true);
  for (std::size_t n = 0; n < folders.size(); ++n) {
    const std::vector<std::filesystem::path> inside = sorted_entries(folders[n], false);
    if (inside.empty()) refuse(folders[n], "holds no images");
    files.insert(files.end(), inside.begin(), inside.end());
    classes.resize(files.size(), static_cast<std::int64_t>(n));
  }
  const auto images = std::make_shared<ImageColumn>(std::move(files), example, mean, deviation);
  Tensor targets = Tensor::from_integers(DataType::kInt64, {images->size()}, classes);
  Dataset::Columns columns;
  columns.emplace(name, images);
  columns.emplace("targets",
                  make_column(std::move(targets), folder.string(), [images](std::int64_t n) { return images->place(n); }));
  return Dataset(std::move(columns));
}

}  // namespace rewright::training
