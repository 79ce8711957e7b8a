/* Optimizes a model from C and tells how far the work is: optimize_and_run_c MODEL.onnx FASTER.onnx */
#include <rewright_c.h>
#include <stdio.h>

static int told;

static int progress(const char* stage, double fraction, double predicted_gain, void* user) {
  (void)user;
  if (!told++) printf("%s, %.0f%%, predicted gain %.2f\n", stage, 100 * fraction, predicted_gain);
  return 0;
}

static int failed(const char* what) {
  fprintf(stderr, "%s: %s: %s\n", what, rewright_error_where(), rewright_error_text());
  return 3;
}

int main(int argc, char** argv) {
  rewright_model* model = NULL;
  rewright_options* options = NULL;
  rewright_result* result = NULL;
  if (argc != 3) return fprintf(stderr, "usage: optimize_and_run_c MODEL.onnx FASTER.onnx\n"), 2;
  if (rewright_abi_version() != REWRIGHT_ABI_VERSION) return 4;
  if (rewright_model_read(argv[1], &model) != REWRIGHT_OK) return failed("read");
  if (rewright_options_create(&options) != REWRIGHT_OK || rewright_options_set(options, "device", "cpu") != REWRIGHT_OK ||
      rewright_options_set(options, "budget", "5s") != REWRIGHT_OK ||
      rewright_options_set_progress(options, progress, NULL) != REWRIGHT_OK)
    return failed("options");
  if (rewright_optimize(model, options, &result) != REWRIGHT_OK) return failed("optimize");
  if (rewright_model_write(rewright_result_model(result), argv[2]) != REWRIGHT_OK) return failed("write");
  printf("rewright %s: %.2f times as fast\n", rewright_version(), rewright_result_speedup(result));
  rewright_result_free(result);
  rewright_options_free(options);
  rewright_model_free(model);
  return told > 0 ? 0 : 1;
}
