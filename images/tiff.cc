#include <dlfcn.h>
#include <tiffio.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "images/image_decoding.h"

namespace rewright::images {

namespace {

// LibTIFF's functions, loaded with the first TIFF file and kept until the program ends: few programs read TIFF files, and the
// library loads many others.
struct LibTiff {
  explicit LibTiff(const std::string& name) {
    void* const library = ::dlopen(TIFF_SONAME, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw missing(name);
    const auto find = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, symbol));
      if (function == nullptr) throw missing(name);
    };
    find(new_options, "TIFFOpenOptionsAlloc");
    find(free_options, "TIFFOpenOptionsFree");
    find(limit_allocation, "TIFFOpenOptionsSetMaxSingleMemAlloc");
    find(handle_errors, "TIFFOpenOptionsSetErrorHandlerExtR");
    find(handle_warnings, "TIFFOpenOptionsSetWarningHandlerExtR");
    find(open, "TIFFClientOpenExt");
    find(close, "TIFFClose");
    find(get_field, "TIFFGetField");
    find(read_rgba, "TIFFReadRGBAImageOriented");
  }

  decltype(&TIFFOpenOptionsAlloc) new_options;
  decltype(&TIFFOpenOptionsFree) free_options;
  decltype(&TIFFOpenOptionsSetMaxSingleMemAlloc) limit_allocation;
  decltype(&TIFFOpenOptionsSetErrorHandlerExtR) handle_errors;
  decltype(&TIFFOpenOptionsSetWarningHandlerExtR) handle_warnings;
  decltype(&TIFFClientOpenExt) open;
  decltype(&TIFFClose) close;
  decltype(&TIFFGetField) get_field;
  decltype(&TIFFReadRGBAImageOriented) read_rgba;

 private:
  // After dlopen or dlsym failed. Debian's packages of libraries have the file's name without ".so.".
  static Error missing(const std::string& name) {
    std::string package = TIFF_SONAME;
    if (const std::size_t at = package.find(".so."); at != std::string::npos) package.erase(at, 4);
    return Error(ErrorCode::kMissing, std::string("LibTIFF, which reads TIFF files, does not load: ") + ::dlerror(), name,
                 "install it: Debian's package " + package);
  }
};

// Throws Error(kMissing) at `name`; the next call tries again.
const LibTiff& lib_tiff(const std::string& name) {
  static const LibTiff loaded(name);
  return loaded;
}

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

// The first message of the library is the cause; its messages have one line.
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

Image decode_tiff(Bytes bytes, const std::string& name) {
  const LibTiff& lib = lib_tiff(name);
  File file{bytes};
  std::string message;
  const auto refuse = [&] {
    refuse_image(name, "is a damaged TIFF file: " + (message.empty() ? "it ends too early" : message));
  };
  const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(lib.new_options(), lib.free_options);
  if (!options) throw Error(ErrorCode::kMissing, "no memory for decoding", name);
  lib.limit_allocation(options.get(), kMostPixels * 4);
  lib.handle_errors(options.get(), note, &message);
  lib.handle_warnings(options.get(), ignore, nullptr);
  const std::unique_ptr<TIFF, void (*)(TIFF*)> tiff(
      lib.open("", "rm", &file, read, write, seek, close, size, nullptr, nullptr, options.get()), lib.close);
  if (!tiff) refuse();
  std::uint32_t width = 0, height = 0;
  lib.get_field(tiff.get(), TIFFTAG_IMAGEWIDTH, &width);
  lib.get_field(tiff.get(), TIFFTAG_IMAGELENGTH, &height);
  Image image = blank_image(height, width, name);
  // Red is in the lowest byte. Colours are premultiplied by alpha, which shows them over black.
  std::vector<std::uint32_t> pixels(static_cast<std::size_t>(image.height * image.width));
  if (lib.read_rgba(tiff.get(), width, height, pixels.data(), ORIENTATION_TOPLEFT, 1) == 0) refuse();
  for (std::size_t p = 0; p < pixels.size(); ++p)
    for (std::size_t c = 0; c < kRgb; ++c) image.pixels[p * kRgb + c] = static_cast<std::uint8_t>(pixels[p] >> (8 * c));
  return image;
}

}  // namespace rewright::images
