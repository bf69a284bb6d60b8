/* The interface of handlers: libraries that get the messages of instrumented kernels. docs/instrumented.md describes it.
 * Printed by `cargo xtask docs` from instrument/handler/src/abi.rs and instrument/handler/src/walk.h. It compiles as C99 and as C++11. */
#ifndef LOGDUR_HANDLER_H
#define LOGDUR_HANDLER_H

#include <stddef.h>
#include <stdint.h>

// The version of this interface. It is raised when something changes that sizes of structures do not show.
#define LOGDUR_HANDLER_VERSION 1

// `format` of `logdur_open_info`: text for people.
#define LOGDUR_FORMAT_TEXT 0

// `format` of `logdur_open_info`: comma-separated values, with a header line.
#define LOGDUR_FORMAT_CSV 1

// `format` of `logdur_open_info`: one JSON object a line.
#define LOGDUR_FORMAT_JSON 2

// A message's `kind`: an address for each active lane.
#define LOGDUR_KIND_ADDRESS 0

// A message's `kind`: two clocks of the wave.
#define LOGDUR_KIND_TIME_INTERVAL 1

// A message's `kind`: the wave enters a block.
#define LOGDUR_KIND_BLOCK_START 2

// Bit of `errors` of `logdur_dispatch_result`: the kernel dropped messages that were larger than a sub-buffer.
#define LOGDUR_ERROR_TOO_LARGE 1

// Bit of `errors`: bytes of a sub-buffer were no messages. What was before them was delivered.
#define LOGDUR_ERROR_CORRUPT 2

// Bit of `errors`: the kernel did not end, or it is not known whether it did. Messages may be missing.
#define LOGDUR_ERROR_NOT_ENDED 4

// Messages of one dispatch. It and its bytes are valid during `messages` only.
typedef struct logdur_batch {
  // Bytes of this structure.
  uint64_t size;
  // The dispatch.
  uint64_t dispatch;
  // Whole messages that were checked: `logdur_next` goes through them. Aligned to 8 bytes.
  const uint8_t *bytes;
  // How many bytes there are.
  uint64_t length;
  // How many messages there are.
  uint64_t messages;
} logdur_batch;

// A dispatch of an instrumented kernel. It and what it points to are valid during `dispatch_begin`, but for `code`, which stays as
// long as the process lives: dispatches of the same code object have the same address there, of others another one.
typedef struct logdur_dispatch_info {
  // Bytes of this structure.
  uint64_t size;
  // The number of the dispatch in the process: the column `id` of its row. Batches name it.
  uint64_t dispatch;
  // The position of the GPU among the GPUs.
  uint32_t agent;
  // The GPU's processor, as `gfx90a`.
  const char *processor;
  // The kernel's name, demangled.
  const char *kernel;
  // The kernel's name, as in its code object.
  const char *mangled;
  // The name of the instrumented kernel that runs in its place.
  const char *clone;
  // Work-items.
  uint32_t grid[3];
  // Work-items of a workgroup.
  uint32_t workgroup[3];
  // The code object of the instrumented kernel, an ELF file; `NULL` if it is not known.
  const uint8_t *code;
  // Bytes of the code object.
  uint64_t code_bytes;
  // Where the code object comes from, as a URI; empty if it is not known. `file://PATH#offset=N&size=N` is a part of a file,
  // without the numbers a whole file; `memory://PROCESS#offset=ADDRESS&size=N` is memory, which the application may have freed.
  // Letters, digits and `/-_.~` of a path stand for themselves, another byte is `%` and two hexadecimal digits; other numbers
  // are in C's notation. Source: LLVM's AMDGPUUsage, "Loaded Code Object Path Uniform Resource Identifier (URI)".
  const char *code_uri;
  // What is added to addresses of the file by where it was loaded.
  uint64_t load_delta;
} logdur_dispatch_info;

// How a dispatch ended, and what came of it.
typedef struct logdur_dispatch_result {
  // Bytes of this structure.
  uint64_t size;
  // The dispatch.
  uint64_t dispatch;
  // Nanoseconds that the instrumented kernel ran; 0 if it is not known.
  uint64_t duration_ns;
  // Messages that were delivered.
  uint64_t messages;
  // Their bytes.
  uint64_t bytes;
  // Bytes that the kernel has sent, with those that were no messages.
  uint64_t bytes_sent;
  // Bits `LOGDUR_ERROR_*`.
  uint32_t errors;
} logdur_dispatch_result;

// Where an instruction or a message comes from.
typedef struct logdur_source_position {
  // Bytes of this structure; the caller sets it.
  uint64_t size;
  // The file; `NULL` if it is not known. Valid until `dispatch_end` returns.
  const char *file;
  // The line, from 1 on; 0 if it is not known.
  uint32_t line;
  // The column, from 1 on; 0 if it is not known.
  uint32_t column;
} logdur_source_position;

// Functions of the library for handlers. They may be called on the thread that calls the handler, during any call.
typedef struct logdur_host {
  // Bytes of this structure.
  uint64_t size;
  // The version of the interface that the library has.
  uint32_t version;
  // The library's own; handlers pass it on.
  void *context;
  // Writes bytes to the output of handlers, all of them or none. 0 if they are written.
  int (*write)(void *context, const char *bytes, size_t length);
  // Writes a line into the log, as a notice.
  void (*notice)(void *context, const char *text);
  // The name of the source file with a hash, as the messages of a dispatch have it, by the debug information of the dispatch's
  // code object. `NULL` if it is not known. Valid until `dispatch_end` returns.
  const char *(*source_file)(void *context, uint64_t dispatch, uint64_t hash);
  // The source position of an instruction, by its address in the code object's file. 0 if it is known.
  int (*source_position)(void *context, uint64_t dispatch, uint64_t address, struct logdur_source_position *position);
} logdur_host;

// A key and its value, of the user's configuration.
typedef struct logdur_option {
  // The key.
  const char *key;
  // The value.
  const char *value;
} logdur_option;

// What a handler is opened with. It and what it points to are valid during `open` only, but for `host`, which is until `close`.
typedef struct logdur_open_info {
  // Bytes of this structure.
  uint64_t size;
  // Functions of the library.
  const struct logdur_host *host;
  // The name that the user has written, without a path.
  const char *name;
  // The user's configuration.
  const struct logdur_option *options;
  // How many options there are.
  uint64_t option_count;
  // The file that `write` appends to; `NULL` for standard output.
  const char *output;
  // One of `LOGDUR_FORMAT_*`.
  uint32_t format;
} logdur_open_info;

// A handler. All its functions are called on one thread, or on threads that exclude each other.
//
// A function that returns an `int` returns 0, or another number after it wrote a text that ends with 0 into `error`, of at most
// `room` bytes. The library then prints one notice, calls `close`, and calls the handler no more.
typedef struct logdur_handler_table {
  // Bytes of this structure.
  uint64_t size;
  // `LOGDUR_HANDLER_VERSION` of the header that the handler was compiled with. The library refuses a later one than its own.
  uint32_t version;
  // Opens the handler; what it stores in `context` is passed to the other functions.
  int (*open)(const struct logdur_open_info *info, void **context, char *error, size_t room);
  // A dispatch begins: its messages follow, between those of other dispatches. May be `NULL`.
  int (*dispatch_begin)(void *context, const struct logdur_dispatch_info *info, char *error, size_t room);
  // Messages of a dispatch. May be `NULL`.
  int (*messages)(void *context, const struct logdur_batch *batch, char *error, size_t room);
  // A dispatch has ended: there are no more messages of it. May be `NULL`.
  int (*dispatch_end)(void *context, const struct logdur_dispatch_result *result, char *error, size_t room);
  // The last call, at the end of the process or after an error. May be `NULL`.
  void (*close)(void *context);
} logdur_handler_table;

// What a library of handlers exports as `logdur_handler`: its handler with a name, or its only one for an empty name; `NULL` if
// it has none of that name. `version` is the library's `LOGDUR_HANDLER_VERSION`. The table stays valid.
typedef const struct logdur_handler_table *(*logdur_handler_entry)(const char *name, uint32_t version);

// What `liblogdur_analyzers.so` exports as `logdur_sources`: debug information of code objects, which is heavy, and is loaded
// when the first handler asks for a source position.
typedef struct logdur_sources_table {
  // Bytes of this structure.
  uint64_t size;
  // Reads a code object, which stays valid until `close`; `NULL` if it cannot be read.
  void *(*open)(const uint8_t *code, uint64_t code_bytes);
  // As `source_file` of `logdur_host`.
  const char *(*file)(void *sources, uint64_t hash);
  // As `source_position` of `logdur_host`.
  int (*position)(void *sources, uint64_t address, struct logdur_source_position *position);
  // Frees what `open` made.
  void (*close)(void *sources);
} logdur_sources_table;

// The type of `logdur_sources`.
typedef const struct logdur_sources_table *(*logdur_sources_entry)(void);

/* --- For handlers: what follows is written by hand, in instrument/handler/src/walk.h --- */

#include <string.h>

/* True when a structure that the other side made has a field. */
#define LOGDUR_HAS(info, field) \
  ((size_t)((const char *)&(info)->field - (const char *)(info)) + sizeof (info)->field <= (size_t)(info)->size)

/* A message of a batch. Pointers are into the batch, and may be unaligned. */
typedef struct logdur_message {
  uint64_t exec;            /* the lanes that were active, lane 0 in bit 0: the items of a message with several are in their order */
  uint64_t timestamp;       /* the shader's clock: comparable within an XCC, not in nanoseconds */
  uint64_t file;            /* hash of the source file's name */
  uint32_t line;            /* 0 if it is not known */
  uint32_t column;          /* 0 if it is not known */
  uint32_t kind;            /* LOGDUR_KIND_* or a kernel's own number */
  uint32_t user_data;       /* by the kind: see logdur_access_* for addresses, the block's number for LOGDUR_KIND_BLOCK_START */
  uint16_t block[3];        /* the workgroup in the grid, cut to 16 bits */
  uint8_t wave, xcc, se, cu; /* the wave's number in the workgroup, modulo 16; where it ran */
  uint8_t lanes;            /* how many lanes were active */
  uint8_t arch;             /* 1 gfx906, 2 gfx908, 3 gfx90a, 4 gfx940, 5 gfx941, 6 gfx942 */
  uint32_t items;           /* parts of data: one for each active lane, or 1 */
  uint32_t item_dwords;     /* dwords of each */
  const uint8_t *threads;   /* a dword for each active lane: x, y, z in 10 bits each; NULL if there is none */
  const uint8_t *data;      /* dword 0 of each item, then dword 1 of each ... */
} logdur_message;

static inline uint64_t logdur_bits_(const uint8_t *from, size_t bytes) {
  uint64_t value = 0; /* the GPU and the host of this interface are little-endian */
  memcpy(&value, from, bytes);
  return value;
}

/* The message at a place of a batch; advances the place. 0 when there is none any more. */
static inline int logdur_next(const logdur_batch *batch, uint64_t *at, logdur_message *message) {
  const uint8_t *p;
  uint64_t size, data, place;
  if (*at + 64 > batch->length) return 0;
  p = batch->bytes + *at;
  size = logdur_bits_(p + 8, 8);
  data = size & (((uint64_t)1 << 62) - 1);
  place = logdur_bits_(p + 54, 2);
  message->exec = logdur_bits_(p, 8);
  message->timestamp = logdur_bits_(p + 16, 8);
  message->file = logdur_bits_(p + 24, 8);
  message->line = (uint32_t)logdur_bits_(p + 32, 4);
  message->column = (uint32_t)logdur_bits_(p + 36, 4);
  message->kind = (uint32_t)logdur_bits_(p + 40, 4);
  message->user_data = (uint32_t)logdur_bits_(p + 44, 4);
  memcpy(message->block, p + 48, 6);
  message->wave = (uint8_t)(place & 15);
  message->xcc = (uint8_t)(place >> 4 & 15);
  message->se = (uint8_t)(place >> 8 & 7);
  message->cu = (uint8_t)(place >> 11 & 15);
  message->lanes = p[56];
  message->arch = p[57];
  message->items = size >> 62 & 1 ? message->lanes : 1;
  message->threads = size >> 63 ? p + 64 : NULL;
  message->data = p + 64 + (size >> 63 ? 4 * (uint64_t)message->lanes : 0);
  message->item_dwords =
      message->items ? (uint32_t)((uint64_t)(p + 64 + data - message->data) / 4 / message->items) : 0;
  *at += 64 + data;
  return 1;
}

/* A dword of an item's data. */
static inline uint32_t logdur_dword(const logdur_message *message, uint32_t item, uint32_t dword) {
  return (uint32_t)logdur_bits_(message->data + 4 * ((uint64_t)dword * message->items + item), 4);
}

/* The address of an active lane, the first being 0, of a message of LOGDUR_KIND_ADDRESS. */
static inline uint64_t logdur_address(const logdur_message *message, uint32_t item) {
  return logdur_dword(message, item, 0) | (uint64_t)logdur_dword(message, item, 1) << 32;
}

/* Of a message of LOGDUR_KIND_ADDRESS: whether it reads or writes, LLVM's address space, and bytes of each lane. */
static inline int logdur_access_reads(const logdur_message *message) { return message->user_data & 1; }
static inline int logdur_access_writes(const logdur_message *message) { return message->user_data >> 1 & 1; }
static inline uint32_t logdur_access_space(const logdur_message *message) { return message->user_data >> 2 & 15; }
static inline uint32_t logdur_access_bytes(const logdur_message *message) { return message->user_data >> 6 & 0xffff; }

/* The two clocks of a message of LOGDUR_KIND_TIME_INTERVAL, in ticks as its timestamp. */
static inline uint64_t logdur_interval_start(const logdur_message *message) {
  return logdur_dword(message, 0, 0) | (uint64_t)logdur_dword(message, 0, 1) << 32;
}
static inline uint64_t logdur_interval_stop(const logdur_message *message) {
  return logdur_dword(message, 0, 2) | (uint64_t)logdur_dword(message, 0, 3) << 32;
}

/* What a library of handlers exports. */
#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const logdur_handler_table *logdur_handler(const char *name, uint32_t version);
#ifdef __cplusplus
}
#endif

#endif /* LOGDUR_HANDLER_H */
