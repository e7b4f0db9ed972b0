/* c_abi_worker FOLDER: a worker in C11 that goes through all of dlrun/dlrun.h. Two of them run, with two shards, an input
 * "dense" (csv: label, 2 columns) and an input "sparse" (libsvm), each of ROWS rows and 2 passes. Exit code 0: all held. */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dlrun/dlrun.h"

enum { ROWS = 1000, PASSES = 2 };

#define EXPECT(condition)                                                                                 \
  do {                                                                                                    \
    if (!(condition)) {                                                                                   \
      fprintf(stderr, "%s:%d: %s does not hold (%s)\n", __FILE__, __LINE__, #condition, dlrun_last_error()); \
      exit(1);                                                                                            \
    }                                                                                                     \
  } while (0)
#define OK(call) EXPECT((call) == DLRUN_OK)

static void outside_of_a_task(void) {
  dlrun_session* session = NULL;
  dlrun_session_options options = {sizeof options, "/nowhere/socket", "zz", 100};
  char* socket = strdup(getenv("DLRUN_SOCKET"));
  unsetenv("DLRUN_SOCKET");
  EXPECT(dlrun_session_open(NULL, &session) == DLRUN_FAILED_PRECONDITION);
  EXPECT(session == NULL && strstr(dlrun_last_error(), "DLRUN_SOCKET") != NULL);
  setenv("DLRUN_SOCKET", socket, 1);
  free(socket);
  EXPECT(dlrun_session_open(&options, &session) == DLRUN_INVALID_ARGUMENT); /* the token is no hex */
  options.token = "0000000000000000000000000000000000000000000000000000000000000000";
  EXPECT(dlrun_session_open(&options, &session) != DLRUN_OK && session == NULL);
  options.socket = NULL;
  options.timeout_ms = 20000;
  EXPECT(dlrun_session_open(&options, &session) == DLRUN_PERMISSION_DENIED); /* the agent knows another token */
  EXPECT(dlrun_session_open(NULL, NULL) == DLRUN_INVALID_ARGUMENT);
}

static void null_handles(void) {
  float value = 0;
  uint64_t key = 0;
  int stop = 0;
  dlrun_batch batch;
  memset(&batch, 0, sizeof batch);
  batch.struct_size = sizeof batch;
  EXPECT(dlrun_progress(NULL, 0.5, NULL) == DLRUN_INVALID_ARGUMENT);
  EXPECT(dlrun_barrier(NULL, "x", 0) == DLRUN_INVALID_ARGUMENT);
  EXPECT(dlrun_stop_requested(NULL, &stop) == DLRUN_INVALID_ARGUMENT);
  EXPECT(dlrun_leave(NULL, 0) == DLRUN_INVALID_ARGUMENT);
  EXPECT(dlrun_table_pull(NULL, &key, 1, &value, 0) == DLRUN_INVALID_ARGUMENT);
  EXPECT(dlrun_table_push(NULL, &key, 1, &value, 0) == DLRUN_INVALID_ARGUMENT);
  EXPECT(dlrun_table_clock(NULL, 0) == DLRUN_INVALID_ARGUMENT);
  EXPECT(dlrun_table_export(NULL, "x.npy", 0) == DLRUN_INVALID_ARGUMENT);
  EXPECT(dlrun_input_next(NULL, &batch, 0) == DLRUN_INVALID_ARGUMENT);
  EXPECT(dlrun_input_release(NULL, 1) == DLRUN_INVALID_ARGUMENT);
  dlrun_table_close(NULL);
  dlrun_input_close(NULL);
  dlrun_session_close(NULL);
}

static dlrun_table* open_table(dlrun_session* session, const char* name, uint64_t rows, uint32_t dim) {
  dlrun_table* table = NULL;
  dlrun_table_options options;
  dlrun_table_options_init(&options, sizeof options);
  options.name = name;
  options.kind = rows > 0 ? DLRUN_DENSE : DLRUN_SPARSE;
  options.rows = rows;
  options.dim = dim;
  options.learning_rate = 1;
  OK(dlrun_table_open(session, &options, &table));
  options.dim = dim + 1;
  dlrun_table* other = NULL;
  EXPECT(dlrun_table_open(session, &options, &other) == DLRUN_ALREADY_EXISTS && other == NULL);
  options.optimizer = 77;
  EXPECT(dlrun_table_open(session, &options, &other) == DLRUN_INVALID_ARGUMENT);
  options.struct_size = 3;
  EXPECT(dlrun_table_open(session, &options, &other) == DLRUN_INVALID_ARGUMENT);
  return table;
}

/* After tables() has pushed and clocked once: dense is -world * i, key 42 of sparse (-5, -6) * world. */
static void asynchronous(dlrun_table* dense, dlrun_table* sparse, uint32_t world) {
  dlrun_pending *all = NULL, *one = NULL, *push = NULL, *none = NULL;
  const uint64_t key = 42;
  float values[15], row[2];
  const float grads[15] = {0};
  int done = 0;
  OK(dlrun_table_pull_async(dense, NULL, 0, values, 60000, &all));
  OK(dlrun_table_pull_async(sparse, &key, 1, row, 60000, &one));
  OK(dlrun_table_push_async(dense, NULL, 0, grads, 60000, &push));
  while (!done) OK(dlrun_pending_wait(one, 100, &done));
  EXPECT(row[0] == -5 * (float)world && row[1] == -6 * (float)world);
  OK(dlrun_table_clock(dense, 0));
  OK(dlrun_table_clock(sparse, 0));
  OK(dlrun_pending_wait(all, 0, &done));
  EXPECT(done == 1 && values[14] == -14 * (float)world);
  OK(dlrun_pending_wait(push, 0, &done));
  EXPECT(done == 1);
  EXPECT(dlrun_table_pull_async(sparse, NULL, 1, row, 0, &none) == DLRUN_INVALID_ARGUMENT && none == NULL);
  EXPECT(dlrun_table_pull_async(dense, &key, 1, row, 0, NULL) == DLRUN_INVALID_ARGUMENT);
  EXPECT(dlrun_table_push_async(dense, &key, 1, NULL, 0, &none) == DLRUN_INVALID_ARGUMENT);
  EXPECT(dlrun_pending_wait(NULL, 0, &done) == DLRUN_INVALID_ARGUMENT);
  EXPECT(dlrun_pending_wait(all, 0, NULL) == DLRUN_INVALID_ARGUMENT);
  dlrun_pending_close(all);
  dlrun_pending_close(one);
  dlrun_pending_close(push);
  dlrun_pending_close(NULL);
  EXPECT(dlrun_table_set_learning_rate(NULL, 1, 0) == DLRUN_INVALID_ARGUMENT);
  EXPECT(dlrun_table_set_learning_rate(dense, INFINITY, 0) == DLRUN_INVALID_ARGUMENT);
  OK(dlrun_table_set_codecs(dense, DLRUN_CODEC_INT8, 0, DLRUN_CODEC_F16));
  OK(dlrun_table_set_codecs(dense, DLRUN_CODEC_F32, 0, DLRUN_CODEC_F32));
  EXPECT(dlrun_table_set_codecs(dense, DLRUN_CODEC_TOP_K, 4, DLRUN_CODEC_F32) == DLRUN_INVALID_ARGUMENT);
  EXPECT(dlrun_table_set_codecs(dense, 6, 0, DLRUN_CODEC_F32) == DLRUN_INVALID_ARGUMENT);
  EXPECT(dlrun_table_set_codecs(NULL, 0, 0, 0) == DLRUN_INVALID_ARGUMENT);
}

/* A program of version 3 knows the struct up to timeout_ms: the rest is the defaults. */
static void an_older_program(dlrun_session* session) {
  dlrun_table *old = NULL, *table = NULL;
  dlrun_table_options options;
  dlrun_table_options_init(&options, sizeof options);
  EXPECT(options.beta1 > 0.89f && options.momentum > 0.89f && options.admission_n == 1);
  options.name = "adam";
  options.optimizer = DLRUN_ADAM;
  OK(dlrun_table_open(session, &options, &table));
  dlrun_table_options_init(&options, offsetof(dlrun_table_options, dtype));
  options.name = "adam";
  options.optimizer = DLRUN_ADAM;
  memset((char*)&options + offsetof(dlrun_table_options, dtype), 0x7f, sizeof options - offsetof(dlrun_table_options, dtype));
  OK(dlrun_table_open(session, &options, &old)); /* the same schema */
  dlrun_table_close(old);
  dlrun_table_close(table);
}

/* Both workers push the same: plain SGD with rate 1 must show the sum of both. */
static void tables(dlrun_session* session, uint32_t world, const char* folder, uint32_t rank) {
  dlrun_table* dense = open_table(session, "dense", 5, 3);
  float grads[15], values[15];
  for (int i = 0; i < 15; ++i) grads[i] = (float)i;
  OK(dlrun_table_push_dense(dense, grads, 0));
  OK(dlrun_table_clock(dense, 0));
  OK(dlrun_table_pull_dense(dense, values, 0));
  for (int i = 0; i < 15; ++i) EXPECT(values[i] == -(float)world * grads[i]);
  const uint64_t beyond = 5;
  EXPECT(dlrun_table_pull(dense, &beyond, 1, values, 0) == DLRUN_INVALID_ARGUMENT);

  dlrun_table* sparse = open_table(session, "sparse", 0, 2);
  const uint64_t keys[4] = {UINT64_MAX, 0, 42, 0};
  const float pushed[8] = {1, 2, 3, 4, 5, 6, 10, 20};
  const float wanted[8] = {-1, -2, -13, -24, -5, -6, -13, -24}; /* the two gradients of key 0 are summed */
  float pulled[8];
  OK(dlrun_table_push(sparse, keys, 4, pushed, 0));
  OK(dlrun_table_clock(sparse, 0));
  OK(dlrun_table_pull(sparse, keys, 4, pulled, 0));
  for (int i = 0; i < 8; ++i) EXPECT(pulled[i] == (float)world * wanted[i]);
  OK(dlrun_table_pull(sparse, NULL, 0, NULL, 0));
  EXPECT(dlrun_table_pull(sparse, NULL, 1, pulled, 0) == DLRUN_INVALID_ARGUMENT);

  asynchronous(dense, sparse, world);
  char path[4096];
  if (rank == 0) {
    snprintf(path, sizeof path, "%s/dense.npy", folder);
    OK(dlrun_table_export(dense, path, 0));
    snprintf(path, sizeof path, "%s/sparse.npy", folder);
    OK(dlrun_table_export(sparse, path, 0));
    EXPECT(dlrun_table_export(sparse, "/tmp/model.bin", 0) == DLRUN_INVALID_ARGUMENT);
    EXPECT(dlrun_table_export(sparse, "/nowhere/at/all.npy", 0) != DLRUN_OK);
  }
  dlrun_table_close(dense);
  dlrun_table_close(sparse);
}

/* Rows and the sum of the labels that this worker got. */
static void read_input(dlrun_session* session, const char* name, int layout, float* rows, float* labels) {
  dlrun_input* input = NULL;
  uint32_t held_max = 0, marks = 0;
  dlrun_batch batch;
  OK(dlrun_input_open(session, name, 0, &input));
  OK(dlrun_input_held_max(input, &held_max));
  EXPECT(held_max >= 2);
  for (;;) {
    batch.struct_size = sizeof batch;
    const int code = dlrun_input_next(input, &batch, 30000);
    if (code == DLRUN_END_OF_DATA) break;
    OK(code);
    if (batch.layout == DLRUN_PASS_END) {
      EXPECT(batch.pass == marks && batch.lease == 0);
      ++marks;
      continue;
    }
    EXPECT(batch.layout == layout && batch.rows > 0 && batch.pass < PASSES);
    for (uint64_t r = 0; r < batch.rows; ++r) {
      const float label = batch.labels[r];
      *labels += label;
      if (layout == DLRUN_MATRIX) {
        EXPECT(batch.columns == 2 && batch.dense[2 * r] == label * 2 && batch.dense[2 * r + 1] == -label);
      } else {
        EXPECT(batch.offsets[r + 1] - batch.offsets[r] == 2);
        const int64_t at = batch.offsets[r];
        EXPECT(batch.ids[at] == 7 && batch.values[at] == label && batch.ids[at + 1] == 1000000 + (uint64_t)label);
      }
    }
    *rows += (float)batch.rows;
    OK(dlrun_input_release(input, batch.lease));
    EXPECT(dlrun_input_release(input, batch.lease) == DLRUN_INVALID_ARGUMENT);
  }
  EXPECT(marks == PASSES);
  dlrun_input_close(input);
}

/* The workers' parts together are the whole input, each row once a pass. */
static void inputs(dlrun_session* session, uint32_t rank) {
  dlrun_table* sums = open_table(session, "sums", 1, 4);
  dlrun_input* none = NULL;
  float mine[4] = {0}, all[4];
  EXPECT(dlrun_input_open(session, "tset", 1000, &none) == DLRUN_NOT_FOUND);
  EXPECT(strstr(dlrun_last_error(), "dense, sparse") != NULL);
  read_input(session, "dense", DLRUN_MATRIX, &mine[0], &mine[1]);
  read_input(session, "sparse", DLRUN_CSR, &mine[2], &mine[3]);
  OK(dlrun_table_push_dense(sums, mine, 0));
  OK(dlrun_leave(session, 0));
  OK(dlrun_leave(session, 0));
  EXPECT(dlrun_table_push_dense(sums, mine, 0) == DLRUN_FAILED_PRECONDITION);
  OK(dlrun_barrier(session, "read", 60000));
  OK(dlrun_table_pull_dense(sums, all, 0));
  const float wanted = (float)PASSES * ROWS, labels = (float)PASSES * ROWS * (ROWS - 1) / 2;
  EXPECT(all[0] == -wanted && all[2] == -wanted && all[1] == -labels && all[3] == -labels);
  (void)rank;
  dlrun_table_close(sums);
}

static void in_a_forked_child(dlrun_session* session) {
  const pid_t child = fork();
  if (child == 0) {
    EXPECT(dlrun_progress(session, 0.1, NULL) == DLRUN_FAILED_PRECONDITION);
    EXPECT(dlrun_barrier(session, "child", 100) == DLRUN_FAILED_PRECONDITION);
    _exit(0);
  }
  int status = 1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char** argv) {
  EXPECT(argc == 2);
  EXPECT(dlrun_abi_version() >= DLRUN_ABI_VERSION && strlen(dlrun_version()) > 0);
  EXPECT(strcmp(dlrun_errc_name(DLRUN_NOT_FOUND), "kNotFound") == 0);
  outside_of_a_task();
  null_handles();

  dlrun_session* session = NULL;
  OK(dlrun_session_open(NULL, &session));
  dlrun_session_info info;
  info.struct_size = sizeof info;
  OK(dlrun_session_get_info(session, &info));
  EXPECT(info.world == 2 && info.rank < 2 && info.generation == 1 && info.shards == 2 && info.inputs == 2);
  EXPECT(strcmp(info.role, "worker") == 0 && strcmp(info.job_name, "local") == 0);
  dlrun_input_info input;
  input.struct_size = sizeof input;
  OK(dlrun_session_get_input(session, 0, &input));
  EXPECT(strcmp(input.name, "dense") == 0 && input.passes == PASSES);
  EXPECT(dlrun_session_get_input(session, 2, &input) == DLRUN_NOT_FOUND);

  OK(dlrun_progress(session, 0.25, "a quarter"));
  EXPECT(dlrun_progress(session, 1.5, NULL) == DLRUN_INVALID_ARGUMENT);
  EXPECT(dlrun_progress(session, NAN, NULL) == DLRUN_INVALID_ARGUMENT);
  int stop = 1;
  OK(dlrun_stop_requested(session, &stop));
  EXPECT(stop == 0);
  EXPECT(dlrun_barrier(session, "", 0) == DLRUN_INVALID_ARGUMENT);
  OK(dlrun_barrier(session, "begin", 60000));
  OK(dlrun_barrier(session, "begin", 60000)); /* a name may be used again */
  in_a_forked_child(session);
  an_older_program(session);
  tables(session, info.world, argv[1], info.rank);
  inputs(session, info.rank);
  EXPECT(info.commit_number == 0 && strcmp(info.commit_tag, "") == 0);
  uint64_t number = 0;
  OK(dlrun_commit(session, "all", 60000, &number));
  EXPECT(number == 1);
  OK(dlrun_commit(session, NULL, 60000, NULL));
  EXPECT(dlrun_commit(NULL, "x", 0, NULL) == DLRUN_INVALID_ARGUMENT);
  dlrun_session_close(session);
  return 0;
}
