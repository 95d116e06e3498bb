/*
 * cleave/cleave.h - embed the Cleave core
 *
 * The core loads backend plugins, describes their devices, and runs graphs of
 * tensor ops on them by a plan. It knows no model and no kernel; for language
 * models see cleave/llm.h, which is built on this header alone.
 *
 * A run, in order: clv_config -> clv_context -> clv_tensor (weights) ->
 * clv_graph -> clv_plan -> clv_exec -> clv_exec_run().
 *
 * Ownership. Every *_create has a *_destroy that accepts NULL. Objects must be
 * destroyed before what they were made from: exec before plan before graph
 * before tensors before context before config.
 *
 * Errors. Functions that can fail return a clv_status; on failure the thread's
 * clv_last_error() is one line that says what, where, limit and remedy, and
 * out parameters are set to NULL or left alone. Nothing in the library aborts,
 * exits or prints.
 *
 * Threads. A context may be used from several threads. One graph, plan, exec
 * or tensor belongs to one thread at a time.
 *
 * Parameter structs: zero-initialise; zero means the default.
 */
#ifndef CLEAVE_CLEAVE_H_
#define CLEAVE_CLEAVE_H_

#include <cleave/plugin.h> /* statuses, dtypes, ops, device descriptions */

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CLV_API __attribute__((visibility("default")))
#define CLV_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define CLV_API
#define CLV_PRINTF(fmt, args)
#endif

typedef struct clv_config clv_config;
typedef struct clv_context clv_context;
typedef struct clv_device clv_device;
typedef struct clv_tensor clv_tensor;
typedef struct clv_graph clv_graph;
typedef struct clv_plan clv_plan;
typedef struct clv_exec clv_exec;
typedef struct clv_run clv_run;
typedef struct clv_workspace clv_workspace;

/* "0.1.0" */
CLV_API const char *clv_version(void);

/* ------------------------------------------------------------------------ */
/* Errors                                                                   */

/* "out of memory", "not found"; never NULL. */
CLV_API const char *clv_status_name(clv_status status);
/* The calling thread's latest failure; "" before the first. Valid until the
 * thread's next failure. */
CLV_API const char *clv_last_error(void);
/* Sets the thread's message and returns status: for libraries built on the
 * core. One line: what, where, limit, remedy. */
CLV_API clv_status clv_error(clv_status status, const char *fmt, ...)
    CLV_PRINTF(2, 3);
/* Puts "text: " in front of the thread's message; returns status. */
CLV_API clv_status clv_error_prefix(clv_status status, const char *fmt, ...)
    CLV_PRINTF(2, 3);

/* ------------------------------------------------------------------------ */
/* Element types                                                            */

/* "f32", "q8_0"; NULL for an unknown value. */
CLV_API const char *clv_dtype_name(uint32_t dtype);
/* CLV_DTYPE_NONE for an unknown name. Case does not matter. */
CLV_API uint32_t clv_dtype_parse(const char *name);
/* Elements and bytes of a block (1 and the element size for plain types; I4: 2
 * and 1). False for an unknown dtype. */
CLV_API bool clv_dtype_block(uint32_t dtype, uint32_t *elements,
                             uint32_t *bytes);
/* Bytes of n elements; CLV_ERR_INVALID unless n is whole blocks and the result
 * fits. */
CLV_API clv_status clv_dtype_size(uint32_t dtype, uint64_t n, uint64_t *bytes);
/* Reference conversions of n elements (whole blocks), for floats and block
 * types; I8 and I4 mean nothing without their scales. Floats are rounded to
 * nearest even, block types are encoded as in GGUF files. CLV_ERR_UNSUPPORTED
 * for other types, and for a block type that is only read. */
CLV_API clv_status clv_dtype_to_f32(uint32_t dtype, const void *src, float *dst,
                                    uint64_t n);
CLV_API clv_status clv_dtype_from_f32(uint32_t dtype, const float *src,
                                      void *dst, uint64_t n);
/* Whether clv_dtype_from_f32() has such a conversion. */
CLV_API bool clv_dtype_is_writable(uint32_t dtype);

/* ------------------------------------------------------------------------ */
/* Configuration                                                            */

/*
 * Typed keys "section.key" from, weakest first: built-in defaults, the system
 * file (/etc/cleave/cleave.ini), the user's file
 * ($XDG_CONFIG_HOME/cleave/cleave.ini), files named by the caller, environment
 * variables CLEAVE_SECTION_KEY, single settings. A key that nobody declared or
 * a bad value is an error with its origin and the nearest known key; keys in a
 * plugin's section are checked once the plugin is loaded. A section for one
 * device is named by its id, [npu_sim:hexagon]; its keys come from files and
 * single settings, not from the environment. conf/cleave.ini explains every
 * key.
 */

/* Built-in defaults only. */
CLV_API clv_status clv_config_create(clv_config **out);
CLV_API void clv_config_destroy(clv_config *config);
/* System file, user's file; missing ones are skipped. */
CLV_API clv_status clv_config_load_default(clv_config *config);
/* An ini file that must exist. */
CLV_API clv_status clv_config_load_file(clv_config *config, const char *path);
/* CLEAVE_SECTION_KEY for every declared key; other CLEAVE_* that name a
 * section are errors. Ignored under elevated privileges (secure_getenv). */
CLV_API clv_status clv_config_load_env(clv_config *config);
/* "section.key=value". origin for messages: "--set". */
CLV_API clv_status clv_config_set(clv_config *config, const char *assignment,
                                  const char *origin);
/* Declares the keys of a section; the table is copied. Values already given
 * for it are checked now. */
CLV_API clv_status clv_config_declare(clv_config *config, const char *section,
                                      const clv_option *options,
                                      uint32_t count);
/* The value in force; NULL if the key was not declared. Valid until the key
 * changes. */
CLV_API const char *clv_config_get(const clv_config *config, const char *key);
/* The same, parsed (it was checked when set); 0 or false if not declared. */
CLV_API int64_t clv_config_get_int(const clv_config *config, const char *key);
CLV_API double clv_config_get_float(const clv_config *config, const char *key);
CLV_API bool clv_config_get_bool(const clv_config *config, const char *key);
/* Where the value came from: "built-in", "cleave.ini:12", "--set". */
CLV_API const char *clv_config_origin(const clv_config *config,
                                      const char *key);

/* ------------------------------------------------------------------------ */
/* Files                                                                    */

/* A whole file mapped read-only. */
typedef struct clv_file_map {
    const uint8_t *data; /* NULL for an empty file */
    uint64_t size;
} clv_file_map;
CLV_API clv_status clv_file_map_open(const char *path, clv_file_map *out);
/* CLV_ERR_IO if a part was read that was gone: zeros took its place. To be
 * called when the contents have been used and before the results are. path: for
 * the message. */
CLV_API clv_status clv_file_map_check(const clv_file_map *map,
                                      const char *path);
/* Puts a copy in memory in the place of the mapping, at the same address: from
 * then on the file may change. CLV_ERR_IO if it was cut short before. */
CLV_API clv_status clv_file_map_copy(const clv_file_map *map, const char *path);
/* Keeps the contents in physical memory until the file is closed. */
CLV_API clv_status clv_file_map_lock(const clv_file_map *map, const char *path);
/*
 * Puts n parts of `size` bytes, one after the other from data on, in another
 * order: part i becomes what part order[i] was. Of a mapped file only what is
 * in memory changes, once for each of its bytes and before others use them:
 * whole pages are mapped from where they are in the file, what is left is
 * copied. Other memory has to be writable. On failure the contents are
 * undefined.
 */
CLV_API clv_status clv_file_reorder(void *data, uint64_t size, uint32_t n,
                                    const uint32_t *order);
CLV_API void clv_file_map_close(clv_file_map *map);
/*
 * A mapped file that another process cuts short raises SIGBUS where it is read.
 * While files are mapped, the library has a handler of SIGBUS, which replaces
 * what is gone by zeros for clv_file_map_check() to report, and passes signals
 * from other addresses on to the handler that was there before. A program that
 * owns the signal calls clv_file_guard(false) first, and clv_file_fault() with
 * si_addr from its handler: true if the address was in a mapped file and can be
 * read now. Both from any thread; clv_file_fault() in signal handlers too.
 */
CLV_API void clv_file_guard(bool handle);
CLV_API bool clv_file_fault(const void *address);

/*
 * A file that appears complete or not at all: written beside its final name and
 * renamed over it by commit. After a failed write or commit, and on discard,
 * nothing is left behind.
 */
typedef struct clv_file_writer clv_file_writer;
CLV_API clv_status clv_file_writer_open(const char *path,
                                        clv_file_writer **out);
CLV_API clv_status clv_file_writer_write(clv_file_writer *writer,
                                         const void *data, uint64_t size);
/* Both free the writer. Discard accepts NULL. */
CLV_API clv_status clv_file_writer_commit(clv_file_writer *writer);
CLV_API void clv_file_writer_discard(clv_file_writer *writer);

/*
 * Bytes kept between runs in core.cache_dir/NAME, by key, for libraries built
 * on the core. A damaged entry counts as absent, and the log warns. *data is
 * the caller's, for free(). CLV_ERR_NOT_FOUND, without a message, if absent.
 */
CLV_API clv_status clv_cache_get(clv_context *ctx, const char *name,
                                 const char *key, void **data, uint64_t *size);
/* Replaces the entry in one step. */
CLV_API clv_status clv_cache_put(clv_context *ctx, const char *name,
                                 const char *key, const void *data,
                                 uint64_t size);

/* Long work reports here: what is being done, fraction 0..1. A non-zero answer
 * cancels it with CLV_ERR_CANCELLED. */
typedef int (*clv_progress_fn)(void *ctx, const char *what, double fraction);

/* ------------------------------------------------------------------------ */
/* Context and devices                                                      */

typedef void (*clv_log_fn)(void *ctx, uint32_t level, const char *line);

typedef struct clv_context_params {
    clv_config *config; /* NULL: built-in, files and environment. Else it must
                           outlive the context */
    clv_log_fn log;     /* may be called from any thread; NULL: no log */
    void *log_ctx;
    uint32_t log_level; /* most detailed clv_log_level wanted */
    bool trace;         /* record spans from the start */
    /* What takes time when contexts, plans and execs are made: trying plugins,
     * measuring devices, searching, copying weights to devices. Called by the
     * thread that makes them; may be NULL. */
    clv_progress_fn progress;
    void *progress_ctx;
} clv_context_params;

/* Loads plugins and opens their devices. A plugin that cannot be loaded does
 * not fail the call: see clv_context_candidate(). */
CLV_API clv_status clv_context_create(const clv_context_params *params,
                                      clv_context **out);
CLV_API void clv_context_destroy(clv_context *ctx);
CLV_API clv_config *clv_context_config(clv_context *ctx);

/* core.objective: what plans are to be low in. */
typedef struct clv_objective {
    double energy; /* how much it weighs against time, 0 to 1 */
    /* Tokens of a prompt and after it, for which devices hold weights that do
     * not hold all of a language model; both 0: for single tokens. */
    uint32_t prompt, generated;
} clv_objective;
CLV_API clv_objective clv_context_objective(const clv_context *ctx);

CLV_API void clv_log(clv_context *ctx, uint32_t level, const char *fmt, ...)
    CLV_PRINTF(3, 4);

/*
 * False once a plugin is in the process whose own code cannot be trusted to end
 * well: a device of it was given up while it may still be working, or it
 * crashed on the way out when it was tried. It is never unloaded, also not by
 * clv_context_destroy(), but exit() runs its destructors: a program should then
 * flush its files and leave by _exit().
 */
CLV_API bool clv_exit_safe(void);
/*
 * For a program's handlers of fatal signals, and of atexit() with signal 0
 * where the program itself did not call exit(); async-signal-safe. If a plugin
 * was in its first use, this is noted for the next start, which leaves the
 * plugin out. Returns what happened, "it crashed (signal 11, SIGSEGV) in
 * program_compile of device 'x:0', step 3 (matmul a)"; NULL: no plugin was.
 */
CLV_API const char *clv_crash_note(int signal);

/* How far a plugin file came. */
typedef enum clv_load_stage {
    CLV_STAGE_FOUND = 0,      /* its file exists */
    CLV_STAGE_ALLOWED = 1,    /* name, path and permissions accepted */
    CLV_STAGE_INSPECTED = 2,  /* manifest, exports and constructors accepted;
                                 no code of it has run yet */
    CLV_STAGE_PROBED = 3,     /* lived through a trial in another process */
    CLV_STAGE_MAPPED = 4,     /* dlopen succeeded */
    CLV_STAGE_NEGOTIATED = 5, /* ABI version agreed, table checked */
    CLV_STAGE_CREATED = 6,    /* instance runs */
    CLV_STAGE_READY = 7,      /* devices enumerated */
} clv_load_stage;

/* Every file considered, with its outcome. Strings live as long as the
 * context. */
typedef struct clv_candidate {
    const char *path;    /* as configured or found; absolute, unless that is
                            why it was refused */
    const char *plugin;  /* its name, "" before INSPECTED */
    const char *version; /* its version, "" before NEGOTIATED */
    uint32_t stage;      /* clv_load_stage reached */
    clv_status status;   /* CLV_OK, or why it stopped */
    const char *reason;  /* one line: why it stopped, or what is odd about a
                            plugin that runs; "" if there is nothing to say */
    uint32_t n_devices;
    const char *abi;   /* "1" or "1-2" by its manifest, "" before INSPECTED */
    const char *kinds; /* of devices, by its manifest: "cpu gpu" */
    uint32_t n_unused; /* devices left out, as others are in use instead */
} clv_candidate;

CLV_API const char *clv_load_stage_name(uint32_t stage);
CLV_API uint32_t clv_context_candidate_count(const clv_context *ctx);
CLV_API const clv_candidate *clv_context_candidate(const clv_context *ctx,
                                                   uint32_t index);

/* Devices in preference order: as core.devices lists them, else as found. */
CLV_API uint32_t clv_context_device_count(const clv_context *ctx);
CLV_API clv_device *clv_context_device(const clv_context *ctx, uint32_t index);
/* By id ("cpu", "vulkan:llvmpipe") or by plugin and position among its devices
 * ("vulkan:0"); CLV_ERR_NOT_FOUND names those present. */
CLV_API clv_status clv_context_find_device(const clv_context *ctx,
                                           const char *id, clv_device **out);
CLV_API const char *clv_device_id(const clv_device *dev);
CLV_API const char *clv_device_plugin(const clv_device *dev);
CLV_API const clv_device_info *clv_device_info_of(const clv_device *dev);
/* Bytes of its own memory that were free when it was opened and are not in use;
 * UINT64_MAX: it has none of its own, or nobody knows. */
CLV_API uint64_t clv_device_room(clv_device *dev);
/* Whether the device is out of use: it said so, work on it failed, or it ran
 * past core.wait_timeout. Plans leave it out; nothing but a new context brings
 * it back. */
CLV_API bool clv_device_lost(const clv_device *dev);
/* Makes it so, where the caller knows that it is of no use. */
CLV_API void clv_device_leave_out(clv_device *dev);
/* Now, by the clock that the device's work takes time of: monotonic host time,
 * or that of a simulation, from its beginning. Devices of one simulation share
 * it. */
typedef struct clv_moment {
    double ns;
    double energy_nj; /* that the device used so far; 0: unknown */
    bool is_virtual;  /* of a simulation */
} clv_moment;
CLV_API clv_status clv_device_now(clv_device *dev, clv_moment *out);
/* Memory types, as the plugin declares them. */
CLV_API uint32_t clv_device_mem_type_count(const clv_device *dev);
CLV_API const clv_mem_type *clv_device_mem_type(const clv_device *dev,
                                                uint32_t index);

/* Programs that were made so far for execs to run, and what that took. */
typedef struct clv_program_counts {
    uint64_t compiled;
    uint64_t loaded;     /* instead, from the cache: core.program_cache */
    uint64_t real_ns;    /* on devices with the host's clock */
    uint64_t virtual_ns; /* on simulated ones, by their clock */
} clv_program_counts;
CLV_API clv_program_counts clv_context_programs(const clv_context *ctx);

/* Monotonic host time. */
CLV_API uint64_t clv_now_ns(void);

/* ------------------------------------------------------------------------ */
/* Trace                                                                    */

/* Spans of host and device time, in Chrome's trace event format (Perfetto,
 * chrome://tracing). Recording is off until enabled. */
CLV_API void clv_trace_enable(clv_context *ctx, bool on);
CLV_API bool clv_trace_enabled(const clv_context *ctx);
/* A span on track; name and track are copied. */
CLV_API void clv_trace_span(clv_context *ctx, const char *track,
                            const char *name, uint64_t begin_ns,
                            uint64_t end_ns);
/* Writes all spans so far to a file, complete or not at all. */
CLV_API clv_status clv_trace_write(clv_context *ctx, const char *path);

/* What a device did under one name for one op, in all runs that were traced. */
typedef struct clv_kernel_sum {
    char device[128], kernel[48];
    char op[24]; /* "" for copies, and where a device times whole programs */
    uint64_t runs;
    double ns;           /* by the device's clock */
    double bytes, flops; /* of the ops' work, at the least; of an op that takes
                            several kernels it counts for the longest of them */
    double top_bandwidth, top_flops; /* bytes and operations a second of the
                            works that the device's profile has at their best;
                            0: it has none */
    bool is_virtual;                 /* the times are those of a simulation */
} clv_kernel_sum;
/* Fills out with the first room sums; how many there are. */
CLV_API uint32_t clv_trace_kernels(clv_context *ctx, clv_kernel_sum *out,
                                   uint32_t room);
CLV_API void clv_trace_forget_kernels(clv_context *ctx);

/* How long a device worked while runs were under way that were traced. */
typedef struct clv_device_use {
    char device[128];
    double busy_ns; /* with work of any run in any of its queues, */
    double run_ns;  /* of the time in which there were runs, by its clock */
    bool is_virtual;
} clv_device_use;
/* Fills out with the first room devices that had work; how many there are. 0
 * where some of it was not noted, for lack of memory. */
CLV_API uint32_t clv_trace_devices(clv_context *ctx, clv_device_use *out,
                                   uint32_t room);
CLV_API void clv_trace_forget_devices(clv_context *ctx);

/* ------------------------------------------------------------------------ */
/* Tensors                                                                  */

/*
 * A virtual tensor: dtype and shape, with the memory that holds it. Memory made
 * here is shared between host and devices; each device imports it when first
 * used there.
 */

/* Zeroed memory. dims: rank values, outermost first, elements. */
CLV_API clv_status clv_tensor_create(clv_context *ctx, uint32_t dtype,
                                     uint32_t rank, const int64_t *dims,
                                     clv_tensor **out);
/* The caller's memory, not copied: at least as long as the shape needs, alive
 * until release(release_ctx) is called. Read-only when the access says so: it
 * can then be a weight but not an input or state. */
CLV_API clv_status clv_tensor_wrap(clv_context *ctx, uint32_t dtype,
                                   uint32_t rank, const int64_t *dims,
                                   void *data, uint64_t size, uint32_t access,
                                   void (*release)(void *), void *release_ctx,
                                   clv_tensor **out);
CLV_API void clv_tensor_destroy(clv_tensor *tensor);
/*
 * Gives integers their real values, x = scale * q: only for matrices of I8 and
 * I4, once, before a graph takes the tensor. quant and the shape of the f32
 * scales: PER_TENSOR [1], PER_CHANNEL [O], PER_GROUP [O, I / group], where
 * group divides the I elements of a row; it is 0 for the other two. The scales
 * outlive the tensor. Their values are not checked: an infinite or NaN scale
 * gives such results, a negative one turns the sign.
 */
CLV_API clv_status clv_tensor_set_quant(clv_tensor *tensor, uint32_t quant,
                                        uint32_t group, clv_tensor *scales);
/*
 * Of a weight whose first dimension are the experts of MATMUL_EXPERTS: the
 * chance of each, dims[0] values in 0..1, that a row chooses it. Plans that are
 * made afterwards count with it; with NULL, with equal chances. The values are
 * copied.
 */
CLV_API clv_status clv_tensor_set_popularity(clv_tensor *tensor,
                                             const float *chances);
/* CLV_QUANT_NONE for tensors without scales of their own. */
CLV_API uint32_t clv_tensor_quant(const clv_tensor *tensor);
CLV_API uint32_t clv_tensor_quant_group(const clv_tensor *tensor);
CLV_API clv_tensor *clv_tensor_scales(const clv_tensor *tensor);
/* Rows begin .. begin + n of a matrix as floats, [n, columns], by the reference
 * conversions and the tensor's scales. */
CLV_API clv_status clv_tensor_rows_to_f32(const clv_tensor *tensor,
                                          int64_t begin, int64_t n, float *dst);
CLV_API uint32_t clv_tensor_dtype(const clv_tensor *tensor);
CLV_API uint32_t clv_tensor_rank(const clv_tensor *tensor);
CLV_API const int64_t *clv_tensor_dims(const clv_tensor *tensor);
CLV_API uint64_t clv_tensor_size(const clv_tensor *tensor); /* bytes */
/* Whether a device that was given up while it worked may still write to the
 * tensor's memory: what is to be kept belongs into a new tensor. */
CLV_API bool clv_tensor_contested(const clv_tensor *tensor);
/* Whether a part of its contents was only in the memory of a device that is
 * lost by now. */
CLV_API bool clv_tensor_lost(const clv_tensor *tensor);
/* The host's view; touch it only while no run uses the tensor. A state that
 * devices keep in memory of their own comes to the host by this call, which may
 * fail then (NULL), and what is written there is seen by the next run: ask
 * again after each run. */
CLV_API void *clv_tensor_data(clv_tensor *tensor);

/* ------------------------------------------------------------------------ */
/* Graphs                                                                   */

/*
 * Builds a graph value by value; shapes are inferred and checked as ops are
 * added, by the table of ops in plugin.h. The first error sticks: later calls
 * answer CLV_NO_TENSOR, and clv_graph_check() returns it. So a builder needs
 * one check at its end.
 */
typedef uint32_t clv_value;

/* A dimension: a fixed value, or a symbol given at each run. */
typedef struct clv_dim {
    int64_t value;   /* fixed value, or the symbol's largest */
    uint32_t symbol; /* 0: fixed, else 1 + symbol index */
} clv_dim;

CLV_API clv_status clv_graph_create(clv_graph **out);
CLV_API void clv_graph_destroy(clv_graph *graph);
CLV_API clv_status clv_graph_check(const clv_graph *graph);
CLV_API clv_dim clv_dim_fixed(int64_t value);
/* A new symbol in min..max; runs give the values in order of creation. */
CLV_API clv_dim clv_graph_symbol(clv_graph *graph, const char *name,
                                 int64_t min, int64_t max);
/* Written before each run, through clv_exec_tensor(). */
CLV_API clv_value clv_graph_input(clv_graph *graph, const char *name,
                                  uint32_t dtype, uint32_t rank,
                                  const clv_dim *dims);
/* A constant; the tensor, and its scales if it has them, outlive the graph. */
CLV_API clv_value clv_graph_weight(clv_graph *graph, const char *name,
                                   clv_tensor *tensor);
/* Memory kept between runs, bound by clv_exec_bind(). */
CLV_API clv_value clv_graph_state(clv_graph *graph, const char *name,
                                  uint32_t dtype, uint32_t rank,
                                  const int64_t *dims);
/* Marks a value to be read after each run, through clv_exec_tensor(). */
CLV_API void clv_graph_output(clv_graph *graph, clv_value value,
                              const char *name);

/* Any op of plugin.h, with its inputs in the order given there and
 * CLV_NO_TENSOR for those that are absent. attr: NULL for zeros. like: what the
 * op leaves open of its output, the dtype of CONVERT, dims[1] of TOP_K and
 * NONZERO; else NULL. CLV_NO_TENSOR for an op without output. */
CLV_API clv_value clv_graph_op(clv_graph *g, uint32_t op,
                               const clv_op_attr *attr, const clv_value *inputs,
                               uint32_t n_inputs, const clv_tensor_desc *like);
/* The same by name. bias may be CLV_NO_TENSOR. */
CLV_API clv_value clv_graph_get_rows(clv_graph *g, clv_value table,
                                     clv_value ids);
CLV_API void clv_graph_set_rows(clv_graph *g, clv_value state, clv_value src,
                                clv_value ids);
CLV_API clv_value clv_graph_matmul(clv_graph *g, clv_value x, clv_value w,
                                   clv_value bias);
/* The same of x that clv_graph_round() made by that scale. */
CLV_API clv_value clv_graph_matmul_rounded(clv_graph *g, clv_value x,
                                           clv_value w, clv_value bias,
                                           float input_scale);
CLV_API clv_value clv_graph_add(clv_graph *g, clv_value a, clv_value b);
CLV_API clv_value clv_graph_mul(clv_graph *g, clv_value a, clv_value b);
CLV_API clv_value clv_graph_silu(clv_graph *g, clv_value x);
CLV_API clv_value clv_graph_gelu(clv_graph *g, clv_value x);
CLV_API clv_value clv_graph_sigmoid(clv_graph *g, clv_value x);
CLV_API clv_value clv_graph_scale(clv_graph *g, clv_value x, float factor);
CLV_API clv_value clv_graph_softcap(clv_graph *g, clv_value x, float cap);
CLV_API clv_value clv_graph_round(clv_graph *g, clv_value x, float scale);
CLV_API clv_value clv_graph_excess(clv_graph *g, clv_value x, float limit);
CLV_API clv_value clv_graph_glu(clv_graph *g, clv_value gate, clv_value up,
                                uint32_t activation);
CLV_API clv_value clv_graph_rms_norm(clv_graph *g, clv_value x,
                                     clv_value weight, float eps);
CLV_API clv_value clv_graph_head_norm(clv_graph *g, clv_value x,
                                      clv_value weight, uint32_t head_dim,
                                      float eps);
CLV_API clv_value clv_graph_layer_norm(clv_graph *g, clv_value x,
                                       clv_value weight, clv_value bias,
                                       float eps);
CLV_API clv_value clv_graph_rope(clv_graph *g, clv_value x, clv_value pos,
                                 clv_value inv_freq, uint32_t mode,
                                 uint32_t head_dim, float scale);
CLV_API clv_value clv_graph_softmax(clv_graph *g, clv_value x);
CLV_API clv_value clv_graph_sparse_mixer(clv_graph *g, clv_value x,
                                         float jitter);

typedef struct clv_attention_params {
    uint32_t head_dim;
    float scale;    /* 0: 1/sqrt(head_dim) */
    float softcap;  /* 0: none */
    int32_t window; /* 0: all */
    clv_dim rows;   /* symbol bounding the cache rows in use; fixed: unknown */
    clv_dim seen;   /* with first: the same of the rows that a query sees */
    bool apart;     /* with first: queries are each of a sequence, not of one */
} clv_attention_params;
/* first: the first row of the cache that each query sees; CLV_NO_TENSOR: all
 * see rows from the first on. */
CLV_API clv_value clv_graph_attention(clv_graph *g, clv_value q, clv_value k,
                                      clv_value v, clv_value pos,
                                      clv_value first,
                                      const clv_attention_params *params);
CLV_API clv_value clv_graph_convert(clv_graph *g, clv_value x, uint32_t dtype);
CLV_API clv_value clv_graph_top_k(clv_graph *g, clv_value x, uint32_t k);
CLV_API clv_value clv_graph_nonzero(clv_graph *g, clv_value x, uint32_t k);
/* scores: CLV_NO_TENSOR for the products side by side. */
CLV_API clv_value clv_graph_matmul_experts(clv_graph *g, clv_value x,
                                           clv_value w, clv_value ids,
                                           clv_value scores, bool normalised);

/* The value's description; NULL for CLV_NO_TENSOR or an unknown one. */
CLV_API const clv_tensor_desc *clv_graph_value_desc(const clv_graph *g,
                                                    clv_value value);

/* ------------------------------------------------------------------------ */
/* Profiles                                                                 */

typedef struct clv_profile_params {
    clv_device *const *devices; /* NULL: all of the context that are not lost */
    uint32_t n_devices;
    bool full;  /* every shape of the graph on every device; else what models
                   need, in a few seconds */
    bool again; /* forget what was measured before */
    bool brief; /* as plans do that go by costs: for a moment on devices in real
                   time, and not with core.profile = off */
    clv_progress_fn progress; /* may be NULL */
    void *progress_ctx;
} clv_profile_params;

/* Measures what the graph's nodes cost on these devices, unless the user's
 * cache knows it. Plans that are made afterwards go by it. */
CLV_API clv_status clv_profile_graph(clv_context *ctx, clv_graph *graph,
                                     const clv_profile_params *params);
/* What is known of n devices (NULL: all of the context), and how well it
 * predicts what was not measured, as text for people ("md") or machines
 * ("json"). *out is the caller's, freed with clv_string_free(). */
CLV_API clv_status clv_profile_print(clv_context *ctx,
                                     clv_device *const *devices, uint32_t n,
                                     const char *format, char **out);

/* ------------------------------------------------------------------------ */
/* Plans                                                                    */

/*
 * Which part of which op runs where, where each tensor lives, and every wait
 * between the parts. A plan is data: it can be printed, saved and compared, and
 * the executor does nothing that is not in it.
 */
typedef struct clv_plan_params {
    clv_device *const *devices; /* NULL: all of the context that are not lost,
                                   in its order. Naming a lost one is an
                                   error */
    uint32_t n_devices;
    const clv_workspace *workspace; /* what the plan will run in, and what it
                                       has already; NULL: nothing yet */
    uint64_t reserve; /* bytes that later plans will work on, clv_plan_work();
                         weights leave room for them in a device's own memory
                         that does not hold all weights. Of these bytes, */
    uint64_t reserve_values; /* those of values between nodes. They lie in the
                                workspace, where weights of this plan may lie
                                while no later plan runs; its next run copies
                                them there again */
    uint32_t n_flight; /* runs that will be under way at once, each of which
                          needs rows that the one before set: plans are compared
                          by what so many take. 0 as 1; at most
                          CLV_PLAN_MAX_FLIGHT */
    const int64_t *flight_symbols; /* [n_flight, n_symbols] of these runs, in
                                      the order of clv_graph_symbol(); NULL: the
                                      largest. Copied */
    /* A plan whose exec, in the same workspace, will be made before: what it
     * takes of devices' memory is taken, and weights that it brings there are
     * there. It has to outlive the new plan. NULL: none. */
    const clv_plan *after;
} clv_plan_params;

#define CLV_PLAN_MAX_FLIGHT 64u

CLV_API clv_status clv_plan_create(clv_context *ctx, clv_graph *graph,
                                   const clv_plan_params *params,
                                   clv_plan **out);
/* The plan that clv_plan_json() wrote, perhaps changed by hand: its
 * "pieces" decide which part of which node runs where, all else is derived
 * again. The devices it names are of params, or of the context.
 * CLV_ERR_NOT_FOUND: it was made for another graph, or names a device that is
 * not there. json: size bytes, not kept. */
CLV_API clv_status clv_plan_parse(clv_context *ctx, clv_graph *graph,
                                  const clv_plan_params *params,
                                  const char *json, uint64_t size,
                                  clv_plan **out);
/* Whether json is a plan of some graph at all. */
CLV_API clv_status clv_plan_check(const char *json, uint64_t size);
/* Whether the plan in json was made for this graph; false if it is no plan. */
CLV_API bool clv_plan_fits(const clv_graph *graph, const char *json,
                           uint64_t size);
CLV_API void clv_plan_destroy(clv_plan *plan);
/* Whether both divide the same graph over the same devices in the same way. */
CLV_API bool clv_plan_equal(const clv_plan *a, const clv_plan *b);
/* The most bytes of values between nodes that are in use at one node, where
 * nodes run in their order with the largest symbols: no plan works in less
 * memory. */
CLV_API clv_status clv_graph_live(const clv_graph *graph, uint64_t *bytes);
/* The most bytes of values between nodes and of scratch that a plan of the
 * graph works on in the own memory of a device that cannot hold all its
 * weights; where there is none, clv_graph_live(). values: those without
 * scratch; may be NULL. */
CLV_API clv_status clv_plan_work(clv_context *ctx, clv_graph *graph,
                                 const clv_plan_params *params, uint64_t *bytes,
                                 uint64_t *values);
/* The numbers of rows that devices with static shapes have programs for, of all
 * nodes of the graph: ascending, each once. A graph of such a length, or of a
 * sum of them, keeps these devices busy. In: *count elements of room in
 * lengths, which may be NULL for 0; out: how many there are. 0: no device has
 * static shapes. */
CLV_API clv_status clv_graph_lengths(clv_context *ctx, const clv_graph *graph,
                                     const clv_plan_params *params,
                                     int64_t *lengths, uint32_t *count);

typedef struct clv_plan_summary {
    uint32_t n_steps, n_programs;
    uint32_t n_copies; /* of weights before the first run, and in each run
                          between the memories of host and devices */
    uint32_t n_devices;
    uint64_t transient_naive;   /* bytes without sharing */
    uint64_t transient_offsets; /* bytes by greedy-by-size offsets */
    uint64_t transient_objects; /* bytes by greedy-by-size shared objects */
    uint64_t transient_size;    /* bytes used: the smaller */
    double predicted_ns;        /* of a run with the largest symbols; 0: the
                                   costs of some part are not known */
    double together_ns;         /* if devices worked together at the speeds that
                                   they have alone: plans for several runs in
                                   flight may come near it; 0: unknown */
    double predicted_nj;        /* energy of its work; 0: unknown */
} clv_plan_summary;
CLV_API clv_plan_summary clv_plan_summarise(const clv_plan *plan);
/* The index-th of the devices that run some part of the plan; NULL: there are
 * no more. */
CLV_API clv_device *clv_plan_device(const clv_plan *plan, uint32_t index);

/* Bytes of a memory that plans take together: of states and of weights that
 * several use, once. */
typedef struct clv_memory_use {
    uint64_t budget;   /* of a device's own that was free when it was opened; 0:
                          nobody knows */
    uint64_t weights;  /* copied there before the first run */
    uint64_t states;   /* that lie there */
    uint64_t values;   /* between nodes, and what programs work on */
    uint64_t kept;     /* weights that lie among values, until a run of another
                          plan; of one plan, the most */
    uint64_t in_place; /* the host's: weights that runs, one of each plan, use
                          where they lie, */
    uint64_t streamed; /* and that they copy to the device, or to any */
    uint64_t from_file; /* the host's: of in_place, what runs, one of each plan,
                           read from the mapped file each time, as memory does
                           not hold it; budget then is what it holds of
                           in_place (core.host_memory) */
} clv_memory_use;
/* dev: one with memory of its own, or NULL for the host's. workspace: in which
 * all of them run; NULL: each has its own. */
CLV_API clv_memory_use clv_plans_memory(const clv_plan *const *plans,
                                        uint32_t n,
                                        const clv_workspace *workspace,
                                        const clv_device *dev);

/* What a run of the best plan would take, ns, if dev had so many bytes more of
 * its own memory than are left; what it holds of weights stays. 0: not known.
 * It takes as long as clv_plan_create(). */
CLV_API clv_status clv_plan_weigh(clv_context *ctx, clv_graph *graph,
                                  const clv_plan_params *params,
                                  const clv_device *dev, uint64_t bytes,
                                  double *ns);

typedef struct clv_prediction {
    double ns;        /* from the begin of a run until the host goes on */
    double energy_nj; /* of the devices' work; 0: unknown */
    bool has_run;     /* what runs of the plan took was counted in */
} clv_prediction;
/* What a run with these symbols will take, by the profiles of its devices;
 * NULL: the largest. Nothing is measured: CLV_ERR_NOT_FOUND where a cost is not
 * known. Takes well under a millisecond for most plans. */
CLV_API clv_status clv_plan_predict(const clv_plan *plan,
                                    const int64_t *symbols, uint32_t n_symbols,
                                    clv_prediction *out);
/* The same for n_runs of the plan, one after another, of which n_flight are in
 * flight at once, each with a workspace of its own. symbols: [n_runs,
 * n_symbols]. Energy is unknown. */
CLV_API clv_status clv_plan_predict_flight(const clv_plan *plan,
                                           const int64_t *symbols,
                                           uint32_t n_symbols, uint32_t n_runs,
                                           uint32_t n_flight,
                                           clv_prediction *out);
/* All of the plan as JSON: its arrays, and what is predicted of them in whole
 * ns; docs/planning.md has the fields. *out is the caller's, freed with
 * clv_string_free(). */
CLV_API clv_status clv_plan_json(const clv_plan *plan, char **out);
CLV_API void clv_string_free(char *string);

/* ------------------------------------------------------------------------ */
/* Execution                                                                */

/* Compiles the plan's programs and takes its memory. A device that fails to
 * compile what it took is lost, as one that fails in a run; but not for want of
 * memory or of room for programs, which ending other execs may help. */
CLV_API clv_status clv_exec_create(clv_plan *plan, clv_exec **out);
/* After an exec could not be created for that want: whose it is; NULL: no
 * device's. */
CLV_API clv_device *clv_plan_short_device(const clv_plan *plan);
CLV_API void clv_exec_destroy(clv_exec *exec);
/* Gives a state its memory; dtype and shape must match. */
CLV_API clv_status clv_exec_bind(clv_exec *exec, clv_value state,
                                 clv_tensor *tensor);
/* The memory of an input or output, shaped for the largest symbols; owned by
 * the exec. NULL for other values. */
CLV_API clv_tensor *clv_exec_tensor(clv_exec *exec, clv_value value);
/* Runs once and waits. symbols: a value for each, in order of creation. When a
 * device fails - a timeline of it fails for any reason but cancellation, it
 * takes no work, or a step does not end within core.wait_timeout - it is lost,
 * the outputs are undefined, states keep the rows of earlier runs, and the exec
 * is of no more use: plan again, on the devices left. */
CLV_API clv_status clv_exec_run(clv_exec *exec, const int64_t *symbols,
                                uint32_t n_symbols);

/*
 * What plans work on while they run: values between nodes, in the host's memory
 * and in that of devices. As large as the largest plan that uses it. Execs that
 * need not run at the same time, such as those of one session, can share one;
 * runs of one exec that are to be in flight at the same time each need their
 * own.
 */
CLV_API clv_status clv_workspace_create(clv_context *ctx, clv_workspace **out);
/* After the execs and runs that use it. */
CLV_API void clv_workspace_destroy(clv_workspace *workspace);
/* Bytes of it in the device's own memory; dev NULL: in the host's. */
CLV_API uint64_t clv_workspace_size(const clv_workspace *workspace,
                                    const clv_device *dev);
/* clv_exec_create() in a workspace, none of whose runs is in flight. It grows
 * as far as the plan needs; where there is no room for that, the call fails and
 * the workspace keeps what it had. NULL: one of its own. */
CLV_API clv_status clv_exec_create_in(clv_plan *plan, clv_workspace *workspace,
                                      clv_exec **out);

/*
 * A run of an exec, with inputs and outputs of its own. Several runs of one
 * exec or of several may be in flight at once. What they have to keep of their
 * order of submission is kept: a step that touches the same elements of a state
 * as one of an earlier run, of which one writes them, comes after it; and runs
 * in one workspace run one after another. Else devices take what is ready.
 *
 * Runs go on whenever their thread submits a run or waits for one. The runs of
 * execs that share a state or a workspace belong to one thread at a time.
 */
CLV_API clv_status clv_run_create(clv_exec *exec, clv_workspace *workspace,
                                  clv_run **out);
/* One that is in flight is cancelled and waited for. */
CLV_API void clv_run_destroy(clv_run *run);
/* The one of clv_exec_run() and clv_exec_tensor(); the exec's. */
CLV_API clv_run *clv_exec_own_run(clv_exec *exec);
/* As clv_exec_tensor(); not to be touched while the run is in flight. */
CLV_API clv_tensor *clv_run_tensor(clv_run *run, clv_value value);
/* Puts it in flight; inputs must be there. symbols and errors: as
 * clv_exec_run(). */
CLV_API clv_status clv_run_submit(clv_run *run, const int64_t *symbols,
                                  uint32_t n_symbols);
/* Until it has ended, and how it ended. A run fails too if an earlier one
 * failed that it comes after. Again after the end: the same answer. */
CLV_API clv_status clv_run_wait(clv_run *run);
/* Steps of runs with a higher priority go first; 0 at first. Runs of one
 * priority share devices equally by session: runs on the same states are one.
 */
CLV_API void clv_run_set_priority(clv_run *run, int32_t priority);
CLV_API bool clv_run_in_flight(const clv_run *run);
/* It ends with CLV_ERR_CANCELLED once what devices were given of it is done.
 * From any thread. */
CLV_API void clv_run_cancel(clv_run *run);

typedef enum clv_learned {
    CLV_LEARNED_NOTHING = 0, /* that is new */
    CLV_LEARNED_LITTLE = 1,  /* the next runs with such symbols tell more */
    CLV_LEARNED_COSTS = 2,   /* clv_plan_create() may find a better plan now */
} clv_learned;
/* Compares what the latest run took with what was predicted, and corrects what
 * is known of the plan and its devices; the results are kept in core.cache_dir.
 * To be called after each run, on its thread; takes microseconds but for a few
 * runs. Nothing with core.profile = off. */
CLV_API clv_status clv_exec_learn(clv_exec *exec, clv_learned *out);

/* Time and energy since a moment, by the clock of those who worked. Not
 * thread-safe. */
typedef struct clv_watch clv_watch;

typedef struct clv_elapsed {
    double ns;
    double energy_nj; /* that the simulated devices of the context used; 0: not
                         known of all that worked */
    bool is_virtual;  /* time of a simulation; else of the host */
} clv_elapsed;

CLV_API clv_status clv_watch_create(clv_context *ctx, clv_watch **out);
CLV_API void clv_watch_destroy(clv_watch *watch); /* NULL is legal */
/* Now is the moment from which on it counts; its creation is the first. */
CLV_API void clv_watch_start(clv_watch *watch);
/* Since then, in runs of this plan: virtual time if all of its devices have a
 * virtual clock. plan may be NULL, for the host's time. */
CLV_API clv_elapsed clv_watch_read(const clv_watch *watch,
                                   const clv_plan *plan);

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_CLEAVE_H_ */
