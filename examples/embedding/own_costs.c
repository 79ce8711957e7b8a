/* Optimizes a model for a device that is only known by a formula: own_costs MODEL.onnx FASTER.onnx
 * Each operator costs the bytes that it reads and writes, at 10 GB/s, and 2 us to start. */
#include <rewright_c.h>
#include <stdio.h>

static int asked;

/* Of a float tensor; 0 for one that is absent. Sizes are all known here. */
static double bytes_of(const rewright_value* value) {
  double bytes = value->rank < 0 ? 0 : 4;
  for (int32_t axis = 0; axis < value->rank; ++axis) bytes *= (double)value->sizes[axis];
  return bytes;
}

static double cost(const rewright_node* node, void* user) {
  double bytes = 0;
  rewright_value value;
  (void)user;
  ++asked;
  for (size_t i = 0; i < rewright_node_input_count(node); ++i)
    if (rewright_node_input(node, i, &value) == REWRIGHT_OK) bytes += bytes_of(&value);
  for (size_t i = 0; i < rewright_node_output_count(node); ++i)
    if (rewright_node_output(node, i, &value) == REWRIGHT_OK) bytes += bytes_of(&value);
  return 2e-6 + bytes / 10e9;
}

static int failed(const char* what) {
  fprintf(stderr, "%s: %s: %s\n", what, rewright_error_where(), rewright_error_text());
  return 3;
}

int main(int argc, char** argv) {
  rewright_model* model = NULL;
  rewright_options* options = NULL;
  rewright_result* result = NULL;
  if (argc != 3) return fprintf(stderr, "usage: own_costs MODEL.onnx FASTER.onnx\n"), 2;
  if (rewright_model_read(argv[1], &model) != REWRIGHT_OK) return failed("read");
  if (rewright_options_create(&options) != REWRIGHT_OK || rewright_options_set(options, "device", "cpu") != REWRIGHT_OK ||
      rewright_options_set(options, "budget", "5s") != REWRIGHT_OK ||
      rewright_options_set_cost(options, cost, NULL) != REWRIGHT_OK)
    return failed("options");
  if (rewright_optimize(model, options, &result) != REWRIGHT_OK) return failed("optimize");
  if (rewright_model_write(rewright_result_model(result), argv[2]) != REWRIGHT_OK) return failed("write");
  printf("%d costs asked for\n%s\n", asked, rewright_result_report(result));
  rewright_result_free(result);
  rewright_options_free(options);
  rewright_model_free(model);
  return asked > 0 ? 0 : 1;
}
