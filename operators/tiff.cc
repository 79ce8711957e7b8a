#include <tiffio.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "operators/error.h"
#include "operators/picture_decoding.h"

namespace rewright {

namespace {

// A file in memory, as TIFFClientOpenExt reads it.
struct File {
  Bytes bytes;
  std::size_t at = 0;
};

tmsize_t read(thandle_t handle, void* to, tmsize_t size) {
  File& file = *static_cast<File*>(handle);
  const std::size_t count = std::min(static_cast<std::size_t>(size), file.bytes.size() - file.at);
  std::memcpy(to, file.bytes.data() + file.at, count);
  file.at += count;
  return static_cast<tmsize_t>(count);
}

tmsize_t write(thandle_t, void*, tmsize_t) { return 0; }

toff_t seek(thandle_t handle, toff_t offset, int from) {
  File& file = *static_cast<File*>(handle);
  const toff_t start = from == SEEK_SET ? 0 : from == SEEK_CUR ? file.at : file.bytes.size();
  file.at = static_cast<std::size_t>(std::min<toff_t>(start + offset, file.bytes.size()));
  return file.at;
}

int close(thandle_t) { return 0; }

toff_t size(thandle_t handle) { return static_cast<File*>(handle)->bytes.size(); }

// The first message of the library is the cause. Its messages are of one line.
int note(TIFF*, void* user, const char*, const char* format, va_list arguments) {
  std::string& message = *static_cast<std::string*>(user);
  if (!message.empty()) return 1;
  char text[200];
  vsnprintf(text, sizeof text, format, arguments);
  message = text;
  std::replace(message.begin(), message.end(), '\n', ' ');
  return 1;
}

int ignore(TIFF*, void*, const char*, const char*, va_list) { return 1; }

}  // namespace

Picture decode_tiff(Bytes bytes, const std::string& name) {
  File file{bytes};
  std::string message;
  const auto refuse = [&] {
    refuse_picture(name, "is a damaged TIFF file: " + (message.empty() ? "it ends too early" : message));
  };
  const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(), TIFFOpenOptionsFree);
  if (!options) throw Error(ErrorCode::kMissing, "no memory for decoding", name);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMostPixels * 4);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), note, &message);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), ignore, nullptr);
  const std::unique_ptr<TIFF, void (*)(TIFF*)> tiff(
      TIFFClientOpenExt("", "rm", &file, read, write, seek, close, size, nullptr, nullptr, options.get()), TIFFClose);
  if (!tiff) refuse();
  std::uint32_t width = 0, height = 0;
  TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height);
  Picture picture = blank_picture(height, width, name);
  // Red in the lowest byte; colours are multiplied by alpha, which is to see them on black.
  std::vector<std::uint32_t> pixels(static_cast<std::size_t>(picture.height * picture.width));
  if (TIFFReadRGBAImageOriented(tiff.get(), width, height, pixels.data(), ORIENTATION_TOPLEFT, 1) == 0) refuse();
  for (std::size_t p = 0; p < pixels.size(); ++p)
    for (std::size_t c = 0; c < kRgb; ++c) picture.pixels[p * kRgb + c] = static_cast<std::uint8_t>(pixels[p] >> (8 * c));
  return picture;
}

}  // namespace rewright
