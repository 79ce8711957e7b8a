/* Rewright for C, and for every language that can call it: optimize ONNX models, train them and run them.
 *
 * Binary compatibility: within one REWRIGHT_ABI_VERSION functions are added, never changed or removed. Structures that callers
 * fill or read have no fields added. Handles are opaque.
 *
 * Every function that can fail returns a status. What went wrong last in this thread say rewright_error_text(), _where() and
 * _hint(). Texts are UTF-8 and end with a zero. A null handle is REWRIGHT_USAGE; freeing null does nothing.
 *
 * Threads: a handle may be used by several threads at once if none of them changes or frees it; sessions may be run by several.
 */
#ifndef REWRIGHT_C_H
#define REWRIGHT_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REWRIGHT_ABI_VERSION 1

typedef enum rewright_status {
  REWRIGHT_OK = 0,
  REWRIGHT_USAGE = 1,       /* something was asked for that does not exist: a device, an option */
  REWRIGHT_BAD_INPUT = 2,   /* a model, file or tensor is broken or contradicts itself */
  REWRIGHT_UNSUPPORTED = 3, /* the input is sound, but part of it cannot be executed here */
  REWRIGHT_MISSING = 4,     /* a library, a device, memory or space is missing on this machine */
  REWRIGHT_CANCELLED = 5    /* the caller stopped the work */
} rewright_status;

int rewright_abi_version(void);
const char* rewright_version(void);          /* "0.1.0" */
const char* rewright_library_versions(void); /* of all that this build and machine have, a line each: "ONNX 1.23.2" */

/* Of the last call in this thread that failed; "" where there is nothing to say. Valid until the thread's next call. */
const char* rewright_error_text(void);
const char* rewright_error_where(void);
const char* rewright_error_hint(void);

/* ---- Models */

typedef struct rewright_model rewright_model;

/* An input or output of a model, of its sessions, or of a node. Texts and arrays live as long as what was asked. */
typedef struct rewright_value {
  const char* name;
  int32_t type;                  /* of the elements, as ONNX's TensorProto numbers them: 1 is float; 0: not known */
  int32_t rank;                  /* -1: not known */
  const int64_t* sizes;          /* `rank` of them; -1 where a size is open */
  const char* const* size_names; /* `rank` of them: what an open size is called, else "" */
} rewright_value;

rewright_status rewright_model_read(const char* file, rewright_model** model);
/* `bytes` are copied. `name` is what errors call it. */
rewright_status rewright_model_parse(const void* bytes, size_t size, const char* name, rewright_model** model);
/* Under a temporary name first: the file is whole or not there. Weights over 1.9 GB go to a file beside it. */
rewright_status rewright_model_write(const rewright_model* model, const char* file);
/* The model's bytes, to be freed with rewright_bytes_free. */
rewright_status rewright_model_serialize(const rewright_model* model, void** bytes, size_t* size);
void rewright_bytes_free(void* bytes);
void rewright_model_free(rewright_model* model);

size_t rewright_model_input_count(const rewright_model* model);
size_t rewright_model_output_count(const rewright_model* model);
rewright_status rewright_model_input(const rewright_model* model, size_t i, rewright_value* value);
rewright_status rewright_model_output(const rewright_model* model, size_t i, rewright_value* value);

/* ---- Nodes, as callbacks see them */

/* One operator with its attributes and the types of its operands. Valid until the callback returns, with all that it gives. */
typedef struct rewright_node rewright_node;

const char* rewright_node_operator(const rewright_node* node); /* "Conv" */
const char* rewright_node_domain(const rewright_node* node);   /* "" for ONNX's own */
size_t rewright_node_input_count(const rewright_node* node);
size_t rewright_node_output_count(const rewright_node* node);
/* Names are empty. An input that is absent, or of which nothing is known, has the type 0 and the rank -1. */
rewright_status rewright_node_input(const rewright_node* node, size_t i, rewright_value* value);
rewright_status rewright_node_output(const rewright_node* node, size_t i, rewright_value* value);
/* An attribute's numbers, one or several (truth values are 0 and 1), or its text. None, or null, if the node does not say it.
 */
rewright_status rewright_node_integers(const rewright_node* node, const char* attribute, const int64_t** values, size_t* count);
rewright_status rewright_node_reals(const rewright_node* node, const char* attribute, const double** values, size_t* count);
rewright_status rewright_node_text(const rewright_node* node, const char* attribute, const char** text);

/* ---- Operators of your own */

typedef struct rewright_operators rewright_operators;

/* A tensor in row-major order. Elements of less than 8 bits have a byte each. */
typedef struct rewright_tensor {
  int32_t type; /* as in rewright_value; strings (8) are not supported */
  int32_t rank;
  const int64_t* sizes;
  void* data;
  size_t bytes; /* of all elements */
} rewright_tensor;

/* Says the type and the sizes of each output with rewright_node_set_output. It is asked when a model is read, where sizes may
 * be open (-1, and then those that follow from them may be -1, too), and before each execution, where none is. */
typedef int (*rewright_infer)(rewright_node* node, void* user);
rewright_status rewright_node_set_output(rewright_node* node, size_t i, int32_t type, int32_t rank, const int64_t* sizes);
/* Fills the outputs' data, which is there in the size that `infer` said, with the elements that follow from the inputs alone.
 * An absent input has null data. A node of a session is executed by one thread at a time, those of several sessions by several.
 */
typedef int (*rewright_compute)(rewright_node* node, const rewright_tensor* inputs, rewright_tensor* outputs, void* user);
/* Both callbacks return 0; anything else ends what was done with REWRIGHT_BAD_INPUT and this text, if one was given. Returns 1.
 */
int rewright_node_fail(rewright_node* node, const char* text);

rewright_status rewright_operators_create(rewright_operators** operators);
/* An operator that this library does not know: models keep its nodes as they are, with all around them optimized, and sessions
 * on the devices "cpu" and "reference" execute them. `user` must live as long as the models that are read with these operators,
 * their results and sessions. */
rewright_status rewright_operators_add(rewright_operators* operators, const char* domain, const char* type,
                                       rewright_infer infer, rewright_compute compute, void* user);
/* Models that were read with them keep what they need. */
void rewright_operators_free(rewright_operators* operators);

/* As rewright_model_read and rewright_model_parse. `operators` may be null. */
rewright_status rewright_model_read_with(const char* file, const rewright_operators* operators, rewright_model** model);
rewright_status rewright_model_parse_with(const void* bytes, size_t size, const char* name, const rewright_operators* operators,
                                          rewright_model** model);

/* ---- Optimization */

typedef struct rewright_options rewright_options;

rewright_status rewright_options_create(rewright_options** options);
/* As `rewright optimize --NAME VALUE`: "device", "budget", "math", ...; flags are "true" or "false", what can be said several
 * times is added. */
rewright_status rewright_options_set(rewright_options* options, const char* name, const char* value);
/* Called now and then by the thread that optimizes: what it does, how much of that is done (0 to 1), and how many times as fast
 * the best graph so far is predicted to be. Anything but 0 ends the search with the best so far. */
typedef int (*rewright_progress)(const char* stage, double fraction, double predicted_gain, void* user);
rewright_status rewright_options_set_progress(rewright_options* options, rewright_progress progress, void* user);
/* Rules of your own, beside those that the option "rules" names or that are shipped: a file's bytes in any form that
 * `rewright rules` reads (algebra, text, binary). Each that does not come with a proof is proved now, which may take seconds.
 * If one is not: REWRIGHT_BAD_INPUT with the counterexample or the question that stays open, and none of them is added. */
rewright_status rewright_options_add_rules(rewright_options* options, const void* bytes, size_t size, const char* name);
/* What operators cost, instead of what the device measures: seconds for a node whose sizes are all known; negative for one that
 * cannot be executed. Nothing is timed then: predictions alone decide, and what is fused, moved or computed once is counted as
 * for measured costs. The same node must always cost the same. Called by one thread at a time. Results are checked on the
 * device. */
typedef double (*rewright_cost)(const rewright_node* node, void* user);
rewright_status rewright_options_set_cost(rewright_options* options, rewright_cost cost, void* user);
/* Not 0: the result has a page to look at, as of `rewright optimize --report`, which takes some more time. */
rewright_status rewright_options_set_page(rewright_options* options, int wanted);
void rewright_options_free(rewright_options* options);

typedef struct rewright_result rewright_result;

/* `options` may be null. The model is left as it was. */
rewright_status rewright_optimize(const rewright_model* model, const rewright_options* options, rewright_result** result);
/* Lives as long as the result. */
const rewright_model* rewright_result_model(const rewright_result* result);
double rewright_result_speedup(const rewright_result* result);          /* measured; 1 where nothing was */
const char* rewright_result_report(const rewright_result* result);      /* JSON, as `rewright optimize --json` */
const char* rewright_result_certificate(const rewright_result* result); /* JSON, for `rewright replay` */
const char* rewright_result_page(const rewright_result* result);        /* HTML; "" if it was not asked for */
void rewright_result_free(rewright_result* result);

/* ---- Training */

/* What is asked of a training. */
typedef struct rewright_training rewright_training;

rewright_status rewright_training_create(rewright_training** training);
/* As `rewright train --NAME VALUE`: "data", "loss", "rate", "epochs", ...; flags are "true" or "false", what can be said
 * several times is added. */
rewright_status rewright_training_set(rewright_training* training, const char* name, const char* value);
/* Instead of files: all examples for an input of the model, or the "targets"; the first axis counts examples. Data to judge by
 * at the end, which is not trained on, is `held_out`. The sizes are copied; the elements are read in place by rewright_train.
 */
rewright_status rewright_training_add_data(rewright_training* training, int held_out, const char* name,
                                           const rewright_tensor* examples);
/* A step that has been made. */
typedef struct rewright_step {
  int64_t step;  /* from 1 */
  int64_t steps; /* of all */
  int64_t epoch; /* passes over the data that were complete before */
  double loss;
  double rate;
  double examples_per_second;
  int32_t skipped; /* not 0: loss or gradients were not finite, and nothing has changed */
} rewright_step;
/* Called after each step by the thread that trains. Anything but 0 ends the training, with what was trained so far. */
typedef int (*rewright_step_told)(const rewright_step* step, void* user);
rewright_status rewright_training_set_progress(rewright_training* training, rewright_step_told told, void* user);
void rewright_training_free(rewright_training* training);

typedef struct rewright_trained rewright_trained;

/* Trains a copy of the model. In a program that mpirun started, every process calls this, each takes its part of every batch,
 * and all have the result; `told` is called in the first, and a process that fails ends all of them, with a line on standard
 * error. Processes are connected by MPI, which this starts unless the program has (with MPI_THREAD_SERIALIZED at least). */
rewright_status rewright_train(const rewright_model* model, const rewright_training* training, rewright_trained** trained);
/* Lives as long as `trained`. */
const rewright_model* rewright_trained_model(const rewright_trained* trained);
double rewright_trained_loss(const rewright_trained* trained);        /* of the last step */
const char* rewright_trained_report(const rewright_trained* trained); /* JSON, as `rewright train --json` */
void rewright_trained_free(rewright_trained* trained);

/* ---- Plans */

/* What is asked of a plan for many processes. */
typedef struct rewright_planning rewright_planning;

rewright_status rewright_planning_create(rewright_planning** planning);
/* As `rewright plan --NAME VALUE`: "machine", "batch", "for", "strategy", "budget", ... */
rewright_status rewright_planning_set(rewright_planning* planning, const char* name, const char* value);
void rewright_planning_free(rewright_planning* planning);

typedef struct rewright_plan rewright_plan;

/* Divides the model's work among the processes of a machine, which need not be here. The plan is proved, or none is made. */
rewright_status rewright_make_plan(const rewright_model* model, const rewright_planning* planning, rewright_plan** plan);
const char* rewright_plan_text(const rewright_plan* plan);   /* the content of a file for `--plan` */
const char* rewright_plan_report(const rewright_plan* plan); /* JSON, as `rewright plan --json` */
void rewright_plan_free(rewright_plan* plan);
/* Does the plan in a file compute what the model computes? `reason` is "" if that is proved, else what is wrong; to be freed
 * with rewright_bytes_free. REWRIGHT_BAD_INPUT for a plan of another model. */
rewright_status rewright_check_plan(const rewright_model* model, const char* file, char** reason);

/* ---- Proofs */

/* What is asked of a proof. */
typedef struct rewright_proving rewright_proving;

rewright_status rewright_proving_create(rewright_proving** proving);
/* As `rewright prove --NAME VALUE`: "certificate", "reduce", "map", "tolerance", "runs", "budget", ... */
rewright_status rewright_proving_set(rewright_proving* proving, const char* name, const char* value);
void rewright_proving_free(rewright_proving* proving);

typedef struct rewright_proof rewright_proof;

/* Does the model in the second file compute what the one in the first computes, for all inputs and sizes? Fails with
 * REWRIGHT_BAD_INPUT for models without the same inputs and outputs; a refuted or an open proof is no failure. */
rewright_status rewright_prove(const char* first, const char* second, const rewright_proving* proving, rewright_proof** proof);
const char* rewright_proof_verdict(const rewright_proof* proof); /* "proved", "refuted" or "undecided" */
const char* rewright_proof_report(const rewright_proof* proof);  /* JSON, as `rewright prove --json` */
void rewright_proof_free(rewright_proof* proof);

/* Follows the proof in a folder, without a search: 1 in `accepted` if it proves both models equal, with constants that differ
 * by no more than the default of "tolerance". Fails with REWRIGHT_BAD_INPUT if it is damaged or for other models. */
rewright_status rewright_check_proof(const char* first, const char* second, const char* certificate, int* accepted);

/* ---- Execution */

typedef struct rewright_session rewright_session;

/* `device`: "cpu", "cuda", "cuda:N" or "reference"; null is "cpu". `threads`: 0 for all cores. The model may be freed before
 * the session. */
rewright_status rewright_session_create(const rewright_model* model, const char* device, int threads,
                                        rewright_session** session);
/* `inputs`: one for each input of the model, in its order; their memory must be aligned for their elements, and is read while
 * this runs. `outputs`: room for one for each output of the model; the session allocates their data and sizes. Free each with
 * rewright_tensor_free. */
rewright_status rewright_session_run(rewright_session* session, const rewright_tensor* inputs, size_t input_count,
                                     rewright_tensor* outputs, size_t output_count);
/* The same by names: all inputs of the model in any order, and those outputs that are wanted. Weights that the model lists
 * among its inputs as well (from IR version 4 on) may be given, too; else they are what they are. */
rewright_status rewright_session_run_named(rewright_session* session, const char* const* input_names,
                                           const rewright_tensor* inputs, size_t input_count, const char* const* output_names,
                                           rewright_tensor* outputs, size_t output_count);
void rewright_tensor_free(rewright_tensor* tensor); /* of outputs */
void rewright_session_free(rewright_session* session);

/* A session that compares, in its first run with each set of sizes, elements of each step's result with the operators'
 * definitions, and computes a step whose kernel is wrong in another way, in that run already. On devices cpu and cuda; a
 * session elsewhere compares nothing. */
rewright_status rewright_session_create_checked(const rewright_model* model, const char* device, int threads,
                                                rewright_session** session);
/* How many lines the session has for its user so far, as of wrong kernels; and one of them, which lives as long as the session.
 * Null for a number beyond the last. */
size_t rewright_session_warning_count(rewright_session* session);
const char* rewright_session_warning(rewright_session* session, size_t number);
/* How many steps have an element that was compared. */
size_t rewright_session_checked_steps(rewright_session* session);

/* What ends runs from outside of them. Not 0: the runs that it was given to end soon, between two steps, with
 * REWRIGHT_CANCELLED, and so does every later one until it is set to 0 again; their session can be run as before. It may be set
 * by any thread, and in a handler of a signal. */
typedef struct rewright_ending rewright_ending;

rewright_status rewright_ending_create(rewright_ending** ending);
void rewright_ending_set(rewright_ending* ending, int ended);
/* When no run has it any more. */
void rewright_ending_free(rewright_ending* ending);
/* As rewright_session_run. */
rewright_status rewright_session_run_until(rewright_session* session, const rewright_ending* ending,
                                           const rewright_tensor* inputs, size_t input_count, rewright_tensor* outputs,
                                           size_t output_count);

/* ---- Language models */

/* A folder as onnxruntime-genai has it: genai_config.json and a model. Texts are numbers of tokens here; tokenizers are
 * elsewhere.
 */
typedef struct rewright_language_model rewright_language_model;

/* `device` and `threads` as rewright_session_create. */
rewright_status rewright_language_model_open(const char* folder, const char* device, int threads,
                                             rewright_language_model** model);
/* Its generations may live longer. */
void rewright_language_model_free(rewright_language_model* model);

/* Sequences that go on together, a token each at a time. By one thread at a time. */
typedef struct rewright_generation rewright_generation;

rewright_status rewright_generation_create(const rewright_language_model* model, rewright_generation** generation);
/* As `rewright complete --NAME VALUE`: "max-tokens", "temperature", "top-k", "top-p", "seed", ... Before the first token. */
rewright_status rewright_generation_set(rewright_generation* generation, const char* name, const char* value);
/* One more sequence, which begins with these tokens; they are copied. Before the first token. */
rewright_status rewright_generation_add_prompt(rewright_generation* generation, const int64_t* tokens, size_t count);
/* The next token of each of the `count` sequences, -1 for those that have ended. `running` becomes 0 once all have, and 1
 * before. A token that ends its sequence is the sequence's last. */
rewright_status rewright_generation_next(rewright_generation* generation, int64_t* tokens, size_t count, int* running);
void rewright_generation_free(rewright_generation* generation);

/* ---- Memory of GPUs */

/* A session's inputs and outputs, bound to memory on the host or on a GPU, to run again and again. By one thread at a time. It
 * must be freed before its session.
 *
 * `device` is where the memory is: "cpu", or "cuda" or "cuda:N", whatever the session runs on. What is on the session's own GPU
 * never comes to the host. What others have started in a GPU's default stream is waited for; what they have started in other
 * streams must have ended. When a run returns, its outputs are there. */
typedef struct rewright_binding rewright_binding;

rewright_status rewright_binding_create(rewright_session* session, rewright_binding** binding);
/* The sizes are copied; the data are read at every run. */
rewright_status rewright_binding_input(rewright_binding* binding, const char* name, const char* device,
                                       const rewright_tensor* tensor);
/* Each run writes the output to the tensor's data; or, if `tensor` is null, to memory that it allocates there. Outputs that are
 * not bound are not brought anywhere. */
rewright_status rewright_binding_output(rewright_binding* binding, const char* name, const char* device,
                                        const rewright_tensor* tensor);
/* All inputs must be bound. `ending` may be null. */
rewright_status rewright_binding_run(rewright_binding* binding, const rewright_ending* ending);
/* What the last run wrote to an output that is bound. Valid until the next run; not to be freed. */
rewright_status rewright_binding_result(const rewright_binding* binding, const char* name, rewright_tensor* tensor);
void rewright_binding_free(rewright_binding* binding);

#ifdef __cplusplus
}
#endif

#endif
