/* Optimizes a model for a device that is only known by a formula: own_costs MODEL.onnx FASTER.onnx
 * Each operator costs the bytes that it reads and writes, at 10 GB/s, and 2 us to start. */
#include "example.h"

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

static rewright_status with_costs(rewright_options* options) { return rewright_options_set_cost(options, cost, NULL); }

static void tell(const rewright_result* result) { printf("%d costs asked for\n%s\n", asked, rewright_result_report(result)); }

int main(int argc, char** argv) {
  if (argc != 3) return fprintf(stderr, "usage: own_costs MODEL.onnx FASTER.onnx\n"), 2;
  const int status = optimize_file(argv[1], argv[2], with_costs, tell);
  return status == 0 && asked == 0 ? 1 : status;
}
