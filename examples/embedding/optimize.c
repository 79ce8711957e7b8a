/* Optimizes a model from C and tells how far the work is: optimize MODEL.onnx FASTER.onnx */
#include "example.h"

static int told;

static int progress(const char* stage, double fraction, double predicted_gain, void* user) {
  (void)user;
  if (!told++) printf("%s, %.0f%%, predicted gain %.2f\n", stage, 100 * fraction, predicted_gain);
  return 0; /* anything else ends the search */
}

static rewright_status with_progress(rewright_options* options) {
  return rewright_options_set_progress(options, progress, NULL);
}

static void tell(const rewright_result* result) {
  printf("rewright %s: %.2f times as fast\n", rewright_version(), rewright_result_speedup(result));
}

int main(int argc, char** argv) {
  if (argc != 3) return fprintf(stderr, "usage: optimize MODEL.onnx FASTER.onnx\n"), 2;
  const int status = optimize_file(argv[1], argv[2], with_progress, tell);
  return status == 0 && told == 0 ? 1 : status;
}
