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
