#ifndef DLRUN_DLRUN_H_
#define DLRUN_DLRUN_H_
/* dlrun/dlrun.h: what a task's own program says to dlrun: its place in the job, progress, barriers,
 * tables of the parameter server, batches of the input pipe. Pure C; the library is libdlrun.so.
 *
 * Errors:  every call returns 0 or one of dlrun_errc; dlrun_last_error() then has one sentence for
 *          a person. No call throws, exits or prints.
 * Handles: opaque. The caller owns what an `_open` call hands out and gives it back to the matching
 *          `_close`, in any order: tables and inputs keep what they need of their session alive. A
 *          NULL handle is DLRUN_INVALID_ARGUMENT, except to `_close`, which ignores it.
 * Memory:  strings and arrays that the caller passes are borrowed for the length of the call.
 *          Strings in dlrun_session_info and dlrun_input_info live as long as the session; arrays
 *          in dlrun_batch until dlrun_input_release.
 * Threads: every call may be made from any thread. Calls on one table, and calls on one input, run
 *          one after the other; a call that waits (BSP pull, next batch, barrier) holds up only
 *          calls on the same handle.
 * Fork:    a handle belongs to the process that opened it; in a forked child every call is
 *          DLRUN_FAILED_PRECONDITION. It may open a session of its own, as a helper.
 * Units:   times in milliseconds; a timeout <= 0 means DLRUN_TIMEOUT_DEFAULT_MS. Keys are all 2^64
 *          values. Values are float32, row-major.
 * Growth:  structs begin with struct_size, which the caller sets to sizeof; a library of another
 *          version reads and writes no more than that. Functions and enumerators are only ever
 *          added; dlrun_abi_version() counts the additions.
 */
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define DLRUN_API __attribute__((visibility("default")))
#else
#define DLRUN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define DLRUN_ABI_VERSION 4u
#define DLRUN_TIMEOUT_DEFAULT_MS 600000

typedef enum dlrun_errc {
  DLRUN_OK = 0,
  DLRUN_INVALID_ARGUMENT = 1,
  DLRUN_NOT_FOUND = 2,
  DLRUN_ALREADY_EXISTS = 3,
  DLRUN_UNAVAILABLE = 4,
  DLRUN_DEADLINE_EXCEEDED = 5,
  DLRUN_STALE_EPOCH = 6,
  DLRUN_OVERLOADED = 7,
  DLRUN_PERMISSION_DENIED = 8,
  DLRUN_RESOURCE_EXHAUSTED = 9,
  DLRUN_CORRUPT = 10,
  DLRUN_CANCELLED = 11,
  DLRUN_UNSUPPORTED = 12,
  DLRUN_IO = 13,
  DLRUN_FAILED_PRECONDITION = 14,
  DLRUN_NO_DEVICE = 15,
  DLRUN_END_OF_DATA = 16,
  DLRUN_INTERNAL = 17
} dlrun_errc;

/* The version that the loaded library speaks; a program built for a higher one must not go on. */
DLRUN_API uint32_t dlrun_abi_version(void);
/* "0.1.0" */
DLRUN_API const char* dlrun_version(void);
/* "kNotFound" and so on. */
DLRUN_API const char* dlrun_errc_name(int errc);
/* Text of the last failed call of this thread; "" when none failed. Valid until the thread's next
 * failing call. */
DLRUN_API const char* dlrun_last_error(void);

/* ---- the session: this process as a task of a job ---- */

typedef struct dlrun_session dlrun_session;

typedef struct dlrun_session_options {
  size_t struct_size;
  const char* socket; /* path of the agent's socket; NULL = $DLRUN_SOCKET */
  const char* token;  /* 64 hex digits; NULL = $DLRUN_TOKEN */
  int64_t timeout_ms; /* for the handshake */
  /* 1: another process of the task is its worker. This one, a child of it say, has no clock: it may
   * pull, and push to ASP tables; its end takes nobody out of the clock sets. Since version 4. */
  int32_t helper;
} dlrun_session_options;

/* `options` NULL = all from the environment that dlrun gives every task.
 * DLRUN_FAILED_PRECONDITION: not inside a dlrun task (the variables are missing).
 * DLRUN_UNAVAILABLE: the agent does not answer. DLRUN_PERMISSION_DENIED: it does not know the
 * token. DLRUN_UNSUPPORTED: versions do not meet. */
DLRUN_API int dlrun_session_open(const dlrun_session_options* options, dlrun_session** out);
/* Leaves (dlrun_leave) and frees the handle; disconnects when no table and no input is left open
 * either. */
DLRUN_API void dlrun_session_close(dlrun_session* session);

typedef struct dlrun_session_info {
  size_t struct_size;
  uint64_t job;
  const char* job_name;
  const char* role;
  uint32_t rank;       /* 0 .. world - 1 within the role */
  uint32_t world;      /* ranks of the role */
  uint32_t generation; /* gang starts of the job, from 1 */
  uint32_t shards;     /* parameter shards of the job; 0 = none */
  uint64_t epoch_term;
  uint64_t epoch_counter;
  uint32_t inputs; /* inputs that the job declares */
  /* What this role committed last, in an earlier generation: the inputs go on behind it.
   * 0 = nothing. Since version 3. */
  uint64_t commit_number;
  const char* commit_tag;
} dlrun_session_info;

DLRUN_API int dlrun_session_get_info(dlrun_session* session, dlrun_session_info* info);

/* An input that the job declares. */
typedef struct dlrun_input_info {
  size_t struct_size;
  const char* name;
  uint32_t passes;     /* trips over the data; 0 = until the job stops */
  uint32_t batch_rows; /* rows of a full batch */
} dlrun_input_info;

/* Input `index`; DLRUN_NOT_FOUND past the last. */
DLRUN_API int dlrun_session_get_input(dlrun_session* session, uint32_t index,
                                      dlrun_input_info* info);
/* fraction in [0, 1]; text may be NULL. Does not wait for the agent. */
DLRUN_API int dlrun_progress(dlrun_session* session, double fraction, const char* text);
/* This task serves now: roles that come after its role may start. For a role with ready = "told";
 * elsewhere it does nothing. Does not wait for the agent. */
DLRUN_API int dlrun_ready(dlrun_session* session);
/* Returns when every rank of the role has entered the barrier of this name. A name may be used
 * again. */
DLRUN_API int dlrun_barrier(dlrun_session* session, const char* name, int64_t timeout_ms);
/* Records all that the inputs have given so far, for every rank of the role at once: each enters
 * it, as a barrier, with the same tag (NULL = ""; at most 4096 bytes). After 0 it is on disk: the
 * next generation finds the tag in dlrun_session_info and begins behind what was given. `number`
 * (may be NULL): of the job's commits, from 1. An error is the outcome for all ranks, and nothing
 * is recorded, but for DLRUN_DEADLINE_EXCEEDED and DLRUN_UNAVAILABLE: then it may be.
 * DLRUN_FAILED_PRECONDITION: other tags, a deterministic or static
 * input one of whose ranks has ended, or the generation ends. */
DLRUN_API int dlrun_commit(dlrun_session* session, const char* tag, int64_t timeout_ms,
                           uint64_t* number);
/* *stop = 1 once the job asks this process to end in good order (save, then exit). Never waits. */
DLRUN_API int dlrun_stop_requested(dlrun_session* session, int* stop);

/* ---- tables ---- */

typedef struct dlrun_table dlrun_table;

enum { DLRUN_DENSE = 0, DLRUN_SPARSE = 1 }; /* kind */
/* optimizer; the formulas are in docs/ps.md and ps/core/optimizer.h. From DLRUN_MOMENTUM on since
 * version 4. */
enum {
  DLRUN_SGD = 0,
  DLRUN_ADAGRAD = 1,
  DLRUN_FTRL = 2,
  DLRUN_ASSIGN = 3, /* a push sets the row */
  DLRUN_MOMENTUM = 4,
  DLRUN_NESTEROV = 5,
  DLRUN_ADAGRAD_ROW = 6, /* one accumulator for a row */
  DLRUN_RMSPROP = 7,
  DLRUN_ADAM = 8,
  DLRUN_ADAMW = 9,
  DLRUN_AMSGRAD = 10,
  DLRUN_GROUP_FTRL = 11
};
/* initializer */
enum {
  DLRUN_ZERO = 0,
  DLRUN_CONSTANT = 1,
  DLRUN_UNIFORM = 2,
  DLRUN_NORMAL = 3,
  DLRUN_TRUNCATED_NORMAL = 4 /* drawn again beyond two standard deviations */
};
enum { DLRUN_BSP = 0, DLRUN_SSP = 1, DLRUN_ASP = 2 }; /* consistency */

/* dtype: how the shards keep the weights; what travels and the optimizer's state are float32 */
enum { DLRUN_STORE_F32 = 0, DLRUN_STORE_F16 = 1, DLRUN_STORE_BF16 = 2 };
/* admission: which pushed keys of a sparse table get a row; the gradient of one that does not is
 * dropped */
enum {
  DLRUN_ADMIT_ALWAYS = 0,
  DLRUN_ADMIT_SIGHTINGS = 1,  /* with the admission_n-th push that has it */
  DLRUN_ADMIT_PROBABILITY = 2 /* each push that has it, with chance admission_p */
};
/* eviction: which rows of a sparse table go; a use is a push */
enum {
  DLRUN_EVICT_NONE = 0,
  DLRUN_EVICT_TTL = 1, /* not used for more than ttl_s */
  DLRUN_EVICT_LRU = 2, /* beyond budget_bytes: the longest not used; also by ttl_s when not 0 */
  DLRUN_EVICT_LFU = 3  /* beyond budget_bytes: the least often used; also by ttl_s when not 0 */
};
/* missing: what a pull reads where there is no row: the initial value, or missing_value */
enum { DLRUN_MISSING_INITIAL = 0, DLRUN_MISSING_VALUE = 1 };
/* How values travel. The last two are for pushes; what they lose is added to the key's next
 * push. */
enum {
  DLRUN_CODEC_F32 = 0,
  DLRUN_CODEC_F16 = 1,
  DLRUN_CODEC_BF16 = 2,
  DLRUN_CODEC_INT8 = 3, /* with a scale for each row */
  DLRUN_CODEC_ONE_BIT = 4,
  DLRUN_CODEC_TOP_K = 5
};

typedef struct dlrun_table_options {
  size_t struct_size;
  const char* name;
  int32_t kind;
  int32_t optimizer;
  uint64_t rows; /* dense: keys are 0 .. rows - 1; sparse: 0 */
  uint32_t dim;
  float learning_rate; /* at the start; FTRL alpha, else eta */
  float beta;          /* FTRL, group FTRL */
  float l1;            /* FTRL, group FTRL */
  float l2;            /* FTRL: its L2; AdamW: decoupled decay; assign: none; else weight decay */
  float epsilon;       /* Adagrad, RMSProp, Adam and kin */
  float accumulator;   /* Adagrad: where it starts */
  int32_t initializer;
  float init_a; /* constant: value; uniform: low; normal: mean */
  float init_b; /* uniform: high; normal: standard deviation */
  uint64_t seed;
  int32_t consistency;
  uint32_t staleness; /* SSP: clocks that the fastest worker may be ahead of the slowest */
  int64_t timeout_ms; /* of dlrun_table_open; a library from before version 2 waits the default */
  /* Since version 4. A library from before it does not know them: look at dlrun_abi_version(). */
  int32_t dtype;
  float momentum;   /* momentum, Nesterov */
  float beta1;      /* Adam and kin */
  float beta2;      /* Adam and kin; RMSProp: its decay */
  float group_l1;   /* group FTRL: lambda 21 */
  float clip_value; /* each element of a gradient to [-x, x]; 0 = not */
  float clip_norm;  /* each row's gradient to this Euclidean norm; 0 = not */
  int32_t admission;
  uint32_t admission_n;
  float admission_p;
  int32_t eviction;
  uint32_t ttl_s;
  uint64_t budget_bytes; /* on each shard, of rows and their index */
  int32_t missing;
  float missing_value;
} dlrun_table_options;

/* Fills in the defaults: sparse, dim 1, SGD 0.1, zeros, BSP. */
DLRUN_API void dlrun_table_options_init(dlrun_table_options* options, size_t struct_size);

/* Makes the table on every shard, or finds it: every rank of the job opens the same name with the
 * same options. DLRUN_ALREADY_EXISTS: it is there with another schema. DLRUN_FAILED_PRECONDITION:
 * the job has no shards. */
DLRUN_API int dlrun_table_open(dlrun_session* session, const dlrun_table_options* options,
                               dlrun_table** out);
/* Frees the handle. What was pushed stays on the shards. */
DLRUN_API void dlrun_table_close(dlrun_table* table);

/* values [n, dim] of keys [n], in the order of `keys`; a key may occur twice. Under BSP and SSP it
 * waits until the clocks of the other workers allow it: DLRUN_DEADLINE_EXCEEDED names what it
 * waited for. */
DLRUN_API int dlrun_table_pull(dlrun_table* table, const uint64_t* keys, size_t n, float* values,
                               int64_t timeout_ms);
/* Applies grads [n, dim] through the table's optimizer, once, however often the network makes it
 * try. Duplicate keys are summed. Returns when the shards have it. */
DLRUN_API int dlrun_table_push(dlrun_table* table, const uint64_t* keys, size_t n,
                               const float* grads, int64_t timeout_ms);
/* The whole of a dense table: values, grads [rows, dim]. */
DLRUN_API int dlrun_table_pull_dense(dlrun_table* table, float* values, int64_t timeout_ms);
DLRUN_API int dlrun_table_push_dense(dlrun_table* table, const float* grads, int64_t timeout_ms);

/* A pull or push under way. */
typedef struct dlrun_pending dlrun_pending;
/* As dlrun_table_pull and dlrun_table_push, but they return when it has begun: `keys` and the array
 * of values are borrowed until dlrun_pending_wait says that it has ended, or dlrun_pending_close.
 * What the pull sees is as if it had been made now; dlrun_table_clock and dlrun_leave wait for it.
 * `timeout_ms` is of the whole call. Traffic moves while somebody waits, for this or for anything
 * else of the session's tables. `keys` NULL and `n` 0: the whole of a dense table. Since version 4.
 */
DLRUN_API int dlrun_table_pull_async(dlrun_table* table, const uint64_t* keys, size_t n,
                                     float* values, int64_t timeout_ms, dlrun_pending** out);
DLRUN_API int dlrun_table_push_async(dlrun_table* table, const uint64_t* keys, size_t n,
                                     const float* grads, int64_t timeout_ms, dlrun_pending** out);
/* Waits for at most `timeout_ms` (0: only looks). *done = 1: it has ended, with what this returns,
 * and asked again it returns the same; 0: it is under way. Also from several threads at a time. */
DLRUN_API int dlrun_pending_wait(dlrun_pending* pending, int64_t timeout_ms, int* done);
/* Frees the handle; nobody may wait on it then. One that is under way is given up: such a push may
 * have been applied or not. */
DLRUN_API void dlrun_pending_close(dlrun_pending* pending);

/* From now on (BSP: from this worker's clock on) the table's optimizer uses this rate, on every
 * shard. One worker says it, not all. Since version 4. */
DLRUN_API int dlrun_table_set_learning_rate(dlrun_table* table, float rate, int64_t timeout_ms);
/* How this process's values of the table travel from now on; both DLRUN_CODEC_F32 at first. push_k:
 * of DLRUN_CODEC_TOP_K, how many of a row, 1 to dim. Since version 4. */
DLRUN_API int dlrun_table_set_codecs(dlrun_table* table, int32_t push, uint32_t push_k,
                                     int32_t pull);
/* Ends this worker's iteration on the table. */
DLRUN_API int dlrun_table_clock(dlrun_table* table, int64_t timeout_ms);
/* Writes files that numpy.load reads: a dense table one [rows, dim] float32 array at `path`; a
 * sparse one `path` with ".keys.npy" [n] uint64 ascending and ".values.npy" [n, dim] in place of
 * ".npy". `path` ends in ".npy". Written aside, then renamed. */
DLRUN_API int dlrun_table_export(dlrun_table* table, const char* path, int64_t timeout_ms);

/* This worker pushes and clocks no more, on any table: nobody waits for its clocks from now on.
 * Pulls stay possible; they see what the shards have applied, and wait for nobody. A worker that
 * has run out of data leaves before it enters a barrier, else ranks that still work would wait for
 * its clock. Idempotent; 0 when the job has no shards. */
DLRUN_API int dlrun_leave(dlrun_session* session, int64_t timeout_ms);

/* ---- inputs ---- */

typedef struct dlrun_input dlrun_input;

/* layout. PASS_END is a mark, not data: this reader's part of pass `pass` is over. Every rank gets
 * one mark a pass, also for a pass of which it got no batch. */
enum {
  DLRUN_PASS_END = 0,
  DLRUN_CSR = 1,
  DLRUN_MATRIX = 2,
  DLRUN_TABLE = 3,
  DLRUN_NO_ROWS = 4 /* a step of ends = "pad": rows 0, lease 0 */
};

/* One batch in the shared-memory ring, read-only. Arrays that the layout does not have are NULL. */
typedef struct dlrun_batch {
  size_t struct_size;
  int32_t layout;
  uint32_t pass;  /* trip over the data, from 0 */
  uint64_t lease; /* what dlrun_input_release wants; 0 = none */
  uint64_t rows;
  uint64_t nnz;           /* CSR: entries of ids and values */
  uint64_t columns;       /* matrix: features of a row; table: see dlrun_input_column */
  const float* labels;    /* [rows]; not of a table */
  const int64_t* offsets; /* CSR: [rows + 1], from 0 to nnz */
  const uint64_t* ids;    /* CSR: [nnz] */
  const float* values;    /* CSR: [nnz] */
  const uint32_t* fields; /* CSR of libffm: [nnz] */
  const float* dense;     /* matrix: [rows, columns] */
} dlrun_batch;

/* DLRUN_NOT_FOUND: the job declares no input of this name. DLRUN_RESOURCE_EXHAUSTED: no memory for
 * the ring. */
DLRUN_API int dlrun_input_open(dlrun_session* session, const char* name, int64_t timeout_ms,
                               dlrun_input** out);
/* Unreleased batches must not be touched afterwards. */
DLRUN_API void dlrun_input_close(dlrun_input* input);
/* How many batches may be held at a time. */
DLRUN_API int dlrun_input_held_max(dlrun_input* input, uint32_t* batches);
/* The next batch or mark. Batches are released in any order. DLRUN_END_OF_DATA: all passes are
 * over. DLRUN_CORRUPT and others: what the feeder says of the data (file, line, column, reason).
 * DLRUN_OVERLOADED: dlrun_input_held_max batches are held already. */
DLRUN_API int dlrun_input_next(dlrun_input* input, dlrun_batch* batch, int64_t timeout_ms);
DLRUN_API int dlrun_input_release(dlrun_input* input, uint64_t lease);

/* type of a column's values */
enum {
  DLRUN_UINT8 = 1,
  DLRUN_INT32 = 2,
  DLRUN_INT64 = 3,
  DLRUN_UINT64 = 4,
  DLRUN_FLOAT32 = 5,
  DLRUN_FLOAT64 = 6,
  DLRUN_BYTES = 7
};
/* A named column of a batch whose layout is DLRUN_TABLE, in the ring, read-only. Arrow-shaped. */
typedef struct dlrun_column {
  size_t struct_size;
  int32_t type;
  uint32_t reserved;
  const char* name; /* not NUL-terminated */
  uint64_t name_bytes;
  uint64_t width;   /* values of each row; 0: row r has the values row_offsets[r] .. [r + 1] */
  uint64_t values;  /* of all rows */
  const void* data; /* [values]; DLRUN_BYTES: value v is the bytes value_offsets[v] .. [v + 1] */
  uint64_t data_bytes;
  const int64_t* value_offsets; /* DLRUN_BYTES: [values + 1] */
  const int64_t* row_offsets;   /* width 0: [rows + 1] */
  const uint8_t* valid;         /* [rows], 0 = the value is missing; NULL: none may miss */
} dlrun_column;
/* Column `index` (below batch.columns) of a batch that is held. */
DLRUN_API int dlrun_input_column(dlrun_input* input, uint64_t lease, uint64_t index,
                                 dlrun_column* column);

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif
#endif /* DLRUN_DLRUN_H_ */
