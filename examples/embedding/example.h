/* What the examples in C share. */
#include <rewright_c.h>
#include <stdio.h>

static int failed(const char* what) {
  fprintf(stderr, "%s: %s: %s\n", what, rewright_error_where(), rewright_error_text());
  return 3;
}

/* Optimizes one file into another on this CPU within five seconds. `add` puts into the options what an example is about, `tell`
 * says what came out. Returns the exit status. */
static int optimize_file(const char* from, const char* to, rewright_status (*add)(rewright_options*),
                         void (*tell)(const rewright_result*)) {
  rewright_model* model = NULL;
  rewright_options* options = NULL;
  rewright_result* result = NULL;
  if (rewright_abi_version() != REWRIGHT_ABI_VERSION) return 4;
  if (rewright_model_read(from, &model) != REWRIGHT_OK) return failed("read");
  if (rewright_options_create(&options) != REWRIGHT_OK || rewright_options_set(options, "device", "cpu") != REWRIGHT_OK ||
      rewright_options_set(options, "budget", "5s") != REWRIGHT_OK || add(options) != REWRIGHT_OK)
    return failed("options");
  if (rewright_optimize(model, options, &result) != REWRIGHT_OK) return failed("optimize");
  if (rewright_model_write(rewright_result_model(result), to) != REWRIGHT_OK) return failed("write");
  tell(result);
  rewright_result_free(result);
  rewright_options_free(options);
  rewright_model_free(model);
  return 0;
}
