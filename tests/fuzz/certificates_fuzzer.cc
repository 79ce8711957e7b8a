// Arbitrary bytes as a certificate, and as the message inside one with a correct digest. Certificates that are read can be
// written and read again.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "verifier/certificate.h"

using namespace rewright;
using namespace rewright::proof;

namespace {

void read(const std::string& bytes) {
  Certificate certificate;
  try {
    certificate = read_certificate(bytes, "fuzz.certificate");
  } catch (const rewright::Error&) {
    return;
  }
  // From here on, an Error is a bug.
  read_certificate(write_certificate(certificate), "written.certificate");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  read(bytes);
  read(certificate_file(bytes));
  return 0;
}
